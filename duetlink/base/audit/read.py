"""Read the log from the disk, entry by entry, in bounded memory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from duetlink.base.audit.entry import MAX_LINE_BYTES, MAX_TEXT, UNREADABLE, Entry
from duetlink.base.journal.files import read_lines
from duetlink.base.journal.line import parse
from duetlink.errors import AuditUnavailable


def lines(path: Path, begin_bytes: int = 0, end_bytes: int | None = None) -> Iterator[bytes]:
    """Yield the lines from `begin_bytes` on, with their newline. A line over MAX_LINE_BYTES is cut.

    Raises:
        AuditUnavailable: the file cannot be read.
    """
    try:
        yield from read_lines(path, MAX_LINE_BYTES, begin_bytes, end_bytes)
    except FileNotFoundError:
        return
    except OSError as error:
        raise AuditUnavailable(f"the audit log {path} cannot be read: {error}") from error


def entries(path: Path, begin_bytes: int = 0) -> Iterator[tuple[Entry, bytes]]:
    """Yield each entry from `begin_bytes` on, with its line.

    An invalid line is returned as an entry of kind `unreadable`, with its beginning as the reason; a torn end
    is skipped. Raises AuditUnavailable.
    """
    if path.exists() and path.stat().st_size < begin_bytes:  # it was cut
        begin_bytes = 0
    for line in lines(path, begin_bytes):
        if not line.endswith(b"\n") and len(line) < MAX_LINE_BYTES:
            return
        try:
            yield Entry.from_fields(parse(line.removesuffix(b"\n"))), line
        except ValueError:
            yield Entry(kind=UNREADABLE, reason=line[:MAX_TEXT].decode("ascii", "backslashreplace")), line
