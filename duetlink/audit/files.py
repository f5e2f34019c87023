"""What files that must survive a power cut need, beside being written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import filelock


def lock_beside(path: Path, timeout_s: float) -> filelock.BaseFileLock:
    """The lock that whoever writes `path` holds, of processes and threads."""
    return filelock.FileLock(path.with_name(path.name + ".lock"), timeout=timeout_s, mode=0o600)


def sync_directory(directory: Path) -> None:
    """So that a new file is found again after a power cut; Windows cannot, and does not need to."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
