"""The small file beside the log that says where the log ends, so that a cut-off end is found.

One line of JSON of a fixed size, written over in place after each append. After a crash it may be behind the
log, and the next append takes in what follows. It is ahead where a power cut took entries that had not
reached the disk: then it says, truly, that they are missing.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from duetlink.audit.entry import FIRST, canonical

_SIZE_BYTES = 256  # less than a sector: it is written whole or not at all
OPEN_FLAGS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0)


@dataclass(frozen=True, slots=True)
class Head:
    """The last entry of a log, and how long the log was with it."""

    number: int = -1
    hash: str = FIRST
    size_bytes: int = 0

    def to_bytes(self) -> bytes:
        fields = {"number": self.number, "hash": self.hash, "size_bytes": self.size_bytes}
        return canonical(fields).ljust(_SIZE_BYTES - 1) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Head:
        """Raises ValueError for anything that `to_bytes` did not make."""
        fields = json.loads(content.decode("ascii"))
        if not isinstance(fields, dict) or set(fields) != {"number", "hash", "size_bytes"}:
            raise ValueError("no head")
        head = cls(**fields)
        if [type(value) for value in (head.number, head.hash, head.size_bytes)] != [int, str, int]:
            raise ValueError("no head")
        if head.to_bytes() != content:
            raise ValueError("not as it was written")
        return head


def head_path(log: Path) -> Path:
    return log.with_name(log.name + ".head")


def read_head(log: Path) -> Head | None:
    """The head of a log; None where there is none, or one that is damaged. Raises OSError."""
    try:
        with open(head_path(log), "rb") as file:
            return Head.from_bytes(file.read(2 * _SIZE_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def write_head(log: Path, head: Head) -> None:
    """Raises OSError."""
    fd = os.open(head_path(log), os.O_WRONLY | os.O_CREAT | OPEN_FLAGS, 0o600)
    try:
        os.write(fd, head.to_bytes())
    finally:
        os.close(fd)
