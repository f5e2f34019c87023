"""What files that must survive a power cut need, beside being written."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path


def sync_directory(directory: Path) -> None:
    """So that a new file is found again after a power cut; Windows cannot, and does not need to."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)
