"""The lock of a journal: against threads, processes, other programs' filelock, and forks that outlive it."""

from __future__ import annotations

import errno
import os
import subprocess
import sys
from pathlib import Path

import filelock
import pytest

from duetlink.base.journal.lock import JournalHeld, JournalLock

if sys.platform == "win32":
    pytest.skip("flock(2) is not on Windows", allow_module_level=True)

import fcntl

_HOLDER = """
import sys
from pathlib import Path
from duetlink.base.journal.lock import JournalLock
with JournalLock(Path(sys.argv[1]), 5.0).held():
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal"


def is_free(path: Path) -> bool:
    try:
        with JournalLock(path, 5.0).held(0.0):
            return True
    except JournalHeld:
        return False


def test_another_process_waits_until_it_is_released(path: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", _HOLDER, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    assert not is_free(path)
    holder.communicate(timeout=20)
    assert is_free(path)


def test_filelock_and_this_lock_exclude_each_other(path: Path) -> None:
    lock = JournalLock(path, 5.0)
    others = filelock.FileLock(lock.path, timeout=0.0)
    with lock.held(), pytest.raises(filelock.Timeout):
        others.acquire()
    with others:
        assert not is_free(path)
    assert is_free(path)


def test_a_process_that_was_forked_meanwhile_does_not_keep_it(path: Path) -> None:
    reading, writing = os.pipe()
    with JournalLock(path, 5.0).held():
        child = os.fork()
        if not child:
            os.close(writing)
            os.read(reading, 1)  # until the parent closes its end
            os._exit(0)
    os.close(reading)
    assert is_free(path)
    os.close(writing)
    assert os.waitpid(child, 0)[1] == 0


def test_without_flock_it_is_filelock_that_excludes(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def missing(fd: int, operation: int) -> None:
        raise OSError(errno.ENOSYS, os.strerror(errno.ENOSYS))

    monkeypatch.setattr(fcntl, "flock", missing)
    with pytest.warns(UserWarning, match="flock not supported"), JournalLock(path, 5.0).held():
        assert not is_free(path)
    assert is_free(path)


def test_any_other_error_is_told(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(fd: int, operation: int) -> None:
        raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))

    monkeypatch.setattr(fcntl, "flock", broken)
    with pytest.raises(OSError, match="No locks available"), JournalLock(path, 5.0).held():
        pass
