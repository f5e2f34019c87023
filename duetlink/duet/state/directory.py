"""The directory of a state, and the lock that lets one kernel at a time use it."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
from pathlib import Path

import filelock
import msgspec

from duetlink.base.wire import json_
from duetlink.errors import SettingError, StateBroken, StateInUse, StateUnavailable

DEFAULT = "default"  # the name behind `resume=True`

# no hidden name, no path separator, no name that some file systems change
_NAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._-]{0,62}[A-Za-z0-9_-])?")
_LOCK, _HOLDER, _FILE, _LEDGER = "lock", "in-use-by", "state.sqlite", "privacy.jsonl"
_WORKS = "work"
_FORGOTTEN = "_forgotten-"  # no name begins like this
_LOCK_TIMEOUT_S = 0.3  # so that `is_held` in another process does not make a launch fail


def check_name(name: object) -> str:
    """Return the name. Raises SettingError if it cannot be the name of a state."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SettingError(
            f"{name!r} cannot be the name of a kept duet: use 1 to 64 letters, digits and "
            ". _ -, beginning with a letter or digit, and not ending with a dot"
        )
    return name


class _Holder(msgspec.Struct, frozen=True):
    process: int
    host: str


class StateDirectory:
    """The directory of one state, which only its owner may read."""

    def __init__(self, states: Path, name: str) -> None:
        self.name = check_name(name)
        self.directory = states / name
        self.file = self.directory / _FILE
        self.ledger = self.directory / _LEDGER
        self.works = self.directory / _WORKS
        # released by the thread that writes, acquired by another one
        self._lock = filelock.FileLock(
            self.directory / _LOCK, timeout=_LOCK_TIMEOUT_S, mode=0o600, thread_local=False
        )

    def exists(self) -> bool:
        """Return True if a state was begun here.

        Raises:
            StateBroken: one was, but its file is missing.
        """
        if self.file.exists():
            return True
        try:
            left = {path.name for path in self.directory.iterdir()}
        except OSError:
            return False
        # the first kernel may have ended before it had made the file
        if left - {_LOCK, _HOLDER, _FILE + ".new", _FILE + ".new-journal"}:
            raise StateBroken(
                f"the state {self.name!r} has lost its file {self.file}, but other files of it exist: "
                f"restore it, or start again with: duetlink state forget {self.name}"
            )
        return False

    def hold(self) -> None:
        """Lock it against other kernels until `release`.

        Raises:
            StateInUse: another kernel uses it.
            StateUnavailable: the directory cannot be made or written to.
        """
        try:
            self.directory.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self.directory.mkdir(mode=0o700, exist_ok=True)
            if os.name == "posix":
                self.directory.chmod(0o700)
            self._lock.acquire()
            self._sign()
        except filelock.Timeout:
            raise StateInUse(
                f"the state {self.name!r} is in use by {self.holder() or 'another process'}: close that "
                "duet, end that kernel, or launch with another name"
            ) from None
        except OSError as error:
            raise unavailable(self.directory, error) from error

    def release(self) -> None:
        """Unlock it. Safe to call twice."""
        if self._lock.is_locked:
            with contextlib.suppress(OSError):
                (self.directory / _HOLDER).unlink(missing_ok=True)
            self._lock.release()

    def holder(self) -> str:
        """Return the process that uses it, in words; empty if none does or it is not known."""
        try:
            holder = json_.read((self.directory / _HOLDER).read_bytes(), _Holder)
        except (OSError, ValueError):
            return ""
        if holder.host != socket.gethostname():
            return f"process {holder.process} on {holder.host[:100]}"
        this = "this process, " if holder.process == os.getpid() else "process "
        return f"{this}{holder.process}"

    def is_held(self) -> bool:
        """Return True if a kernel uses it now."""
        if not (self.directory / _LOCK).exists():
            return False
        try:
            with self._lock.acquire(timeout=0):
                return False
        except (filelock.Timeout, OSError):
            return True

    def remove(self) -> None:
        """Delete the state for ever. Raises StateInUse, StateUnavailable."""
        self.hold()
        aside = self.directory.with_name(f"{_FORGOTTEN}{os.getpid()}-{self.name}")
        try:
            if os.name == "nt":  # Windows renames no directory while a file in it is open
                self.release()
            # other processes see all of it or nothing
            self.directory.rename(aside)
        except OSError as error:
            raise unavailable(self.directory, error) from error
        finally:
            self._lock.release()
        shutil.rmtree(aside, ignore_errors=True)

    def _sign(self) -> None:
        """Write who holds the lock, to a file of its own: trying to lock the lock file empties it."""
        fd = os.open(self.directory / _HOLDER, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(fd, "wb") as file:
            file.write(json_.dump({"process": os.getpid(), "host": socket.gethostname()}))


def state_directories(states: Path) -> list[StateDirectory]:
    """Return the directories that may hold a state, by name."""
    try:
        names = sorted(path.name for path in states.iterdir() if path.is_dir())
    except OSError:
        return []
    return [StateDirectory(states, name) for name in names if _NAME.fullmatch(name)]


def unavailable(path: Path, error: Exception) -> StateUnavailable:
    """Return the error for a path that cannot be read or written; its text says what to do."""
    words = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    return StateUnavailable(
        f"the state in {path} cannot be read or written ({words}); nothing that has to be saved leaves "
        "until it can: free disk space or give access, or choose another directory with state_path in "
        "the settings (DUETLINK_STATE_PATH)"
    )
