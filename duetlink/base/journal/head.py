"""The last line of a journal and the file's size with it. A pure value; `files` stores it.

The head file holds one line of JSON of a fixed size, overwritten after each append. After a crash it may be
older than the journal; the next line in the chain is then valid. It is newer if a power cut lost lines that
had not reached the disk: then it shows, correctly, that they are missing.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from duetlink.base.journal.line import FIRST, canonical, hash_of, parse

SIZE_BYTES = 256  # less than a sector, so a write is atomic


@dataclass(frozen=True, slots=True)
class Head:
    """The number and hash of a journal's last line, and the size of the file with it."""

    number: int = -1
    hash: str = FIRST
    size_bytes: int = 0

    def to_bytes(self) -> bytes:
        text = f'{{"hash":"{self.hash}","number":{self.number},"size_bytes":{self.size_bytes}}}'
        return text.encode("ascii", "replace").ljust(SIZE_BYTES - 1) + b"\n"

    @classmethod
    def from_bytes(cls, content: bytes) -> Head:
        """Parse a head; raise ValueError for anything that `to_bytes` did not make."""
        head = msgspec.json.decode(content, type=cls)
        if head.to_bytes() != content:
            raise ValueError("not as it was written")
        return head


@functools.lru_cache
def head_path(journal: Path) -> Path:
    return journal.with_name(journal.name + ".head")


def seal(end: Head, fields: Mapping[str, Any]) -> tuple[bytes, Head]:
    """Return the line with these fields that follows `end`, and the head for it."""
    chained = {**fields, "number": end.number + 1, "previous": end.hash}
    chained["hash"] = hash_of(chained)
    line = canonical(chained) + b"\n"
    return line, Head(chained["number"], chained["hash"], end.size_bytes + len(line))


def follow(end: Head, line: bytes) -> tuple[dict[str, Any], Head]:
    """Return the fields of the line that comes after `end`, and the head for it.

    Raises:
        ValueError: the line was changed, or is not the next one.
    """
    try:
        fields = parse(line.removesuffix(b"\n"))
    except ValueError as error:
        raise ValueError(f"is not as it was written: {error}") from None
    if (fields["number"], fields["previous"]) != (end.number + 1, end.hash):
        raise ValueError("does not follow from the one before it")
    return fields, Head(fields["number"], fields["hash"], end.size_bytes + len(line))
