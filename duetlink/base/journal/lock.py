"""The lock that a writer of a journal holds, against other processes and other threads.

It is `flock(2)` on a file beside the journal, taken as filelock takes it, so that each excludes the other.
filelock itself is used on Windows, and on file systems without `flock`. Elsewhere it would take as long as
all the rest of an append, and a group appends a line for each sum.
"""

from __future__ import annotations

import contextlib
import errno
import functools
import os
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from duetlink.base.journal import files

if sys.platform != "win32":
    import fcntl

# A writer that synchronises to the disk holds the lock for some milliseconds, any other for less than a tenth
# of one: that is shorter than the shortest sleep.
_SPIN_S = 0.0003
_POLL_INTERVAL_S = 0.0001


class JournalHeld(TimeoutError):
    """Others hold the lock of a journal for longer than the caller waits."""


class JournalLock:
    """The lock of one journal. Any thread may take it; a thread that has it must not take it again."""

    def __init__(self, journal: Path, timeout_s: float) -> None:
        self.path = journal.with_name(journal.name + ".lock")
        self._timeout_s = timeout_s

    @contextlib.contextmanager
    def held(self, timeout_s: float | None = None) -> Iterator[None]:
        """Hold the lock within the block. `timeout_s` replaces the lock's own limit.

        Raises:
            JournalHeld: others hold it for longer.
            OSError: the lock file cannot be opened or locked.
        """
        timeout_s = self._timeout_s if timeout_s is None else timeout_s
        if sys.platform == "win32" or not self._has_flock:
            with self._filelock(timeout_s):
                yield
            return
        with files.opened(self.path, files.LOCK) as fd:
            self._flock(fd, timeout_s)
            try:
                yield
            finally:  # closing the descriptor is not enough: a process forked meanwhile has it too
                fcntl.flock(fd, fcntl.LOCK_UN)

    @contextlib.contextmanager
    def _filelock(self, timeout_s: float) -> Iterator[None]:
        import filelock  # imported here, since few systems need it

        lock = filelock.FileLock(self.path, timeout_s, mode=0o600, poll_interval=_POLL_INTERVAL_S)
        try:
            lock.acquire()
        except filelock.Timeout:
            raise JournalHeld(str(self.path)) from None
        try:
            yield
        finally:
            lock.release()

    if sys.platform != "win32":

        @functools.cached_property
        def _has_flock(self) -> bool:
            # tried on another file: without flock, filelock takes any existing lock file for a held one
            with tempfile.TemporaryFile(dir=self.path.parent) as file:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except OSError as error:
                    return error.errno != errno.ENOSYS
            return True

        def _flock(self, fd: int, timeout_s: float) -> None:
            began_s = time.monotonic()
            while True:
                try:
                    return fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                except (BlockingIOError, PermissionError):  # some file systems report a held lock as EACCES
                    waited_s = time.monotonic() - began_s
                    if waited_s > timeout_s:
                        raise JournalHeld(str(self.path)) from None
                if waited_s < _SPIN_S:
                    os.sched_yield()
                else:
                    time.sleep(_POLL_INTERVAL_S)
