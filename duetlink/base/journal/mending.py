"""Find the end of a journal that may be damaged, and mend it so that lines can be appended.

Damage that a crash of this program causes is repaired: a torn line is moved to a file beside the journal, and
lines whose writer died before it wrote the head are accepted. Other damage stays in place, where a
verification finds it.
"""

from __future__ import annotations

import base64
import contextlib
from collections.abc import Callable
from pathlib import Path

from duetlink.base.journal import files
from duetlink.base.journal.head import Head, follow
from duetlink.base.journal.line import canonical, parse

_CHUNK_BYTES = 4096  # read at once on the way back to the last newline; more than most lines


def mended_end(
    fd: int, path: Path, max_line_bytes: int, when: Callable[[], str], known: Head
) -> tuple[Head, str]:
    """Return the head to append to, and a description of the damage at the end of the journal.

    `fd` is the journal, open for reading and appending; the caller holds the lock. `when` returns the time
    for the record of a torn line. `known` is the last line that this process knows to be written. If the
    journal's file was moved away, the chain continues in the new file after the old file's last line. Raises
    OSError.
    """
    head, size_bytes = files.read_head(path), files.size_bytes(fd)
    if size_bytes == 0:
        moved = max(head or Head(), known, key=lambda end: end.number)
        if moved.number < 0:
            return Head(), ""
        return moved, f"its file was moved away, removed or emptied: it held entries up to {moved.number}"
    if head is not None and head.size_bytes == size_bytes:
        if head.number < known.number:
            return head, f"an older file was put in its place: it held entries up to {known.number}"
        return head, ""
    found = []
    if torn_bytes := _put_torn_aside(fd, path, size_bytes, max_line_bytes, when):
        found.append(f"its last line was torn, {torn_bytes} bytes, which are in {path.name}.torn")
    size_bytes = files.size_bytes(fd)
    if head is None:
        head = _last(fd, size_bytes, max_line_bytes)
        found.append("its head file was missing or damaged")
    elif head.size_bytes > size_bytes:
        missing_bytes = head.size_bytes - size_bytes
        found.append(f"its end was missing, {missing_bytes} bytes up to entry {head.number}")
    else:
        head = _adopted(path, head, size_bytes, max_line_bytes)
        if head.size_bytes < size_bytes:
            found.append(f"what followed entry {head.number} was no entry of this log")
    return head, "; ".join(found)


def _put_torn_aside(
    fd: int, path: Path, size_bytes: int, max_line_bytes: int, when: Callable[[], str]
) -> int:
    """Move the bytes after the last newline out of the journal; return their number."""
    torn_bytes = 0
    tail = b""
    while torn_bytes < size_bytes:
        begin = max(0, size_bytes - torn_bytes - _CHUNK_BYTES)
        chunk = files.read_range(fd, begin, size_bytes - torn_bytes)
        line_end = chunk.rfind(b"\n") + 1
        tail = chunk[line_end:] + tail
        torn_bytes += len(chunk) - line_end
        if line_end:
            break
        if len(tail) > max_line_bytes:  # no crash of ours: it stays where it is, for a verification to find
            files.write_all(fd, b"\n", size_bytes)
            return 0
    if not torn_bytes:
        return 0
    record = {"when": when(), "begin_bytes": size_bytes - torn_bytes}
    record["torn_base64"] = base64.b64encode(tail).decode("ascii")
    with files.opened(path.with_name(path.name + ".torn"), files.APPEND) as aside:
        files.write_all(aside, canonical(record) + b"\n", files.size_bytes(aside))
        files.sync(aside)
    files.cut(fd, size_bytes - torn_bytes)
    return torn_bytes


def _last(fd: int, size_bytes: int, max_line_bytes: int) -> Head:
    """Return the last valid line of a journal without a head; later bytes stay, for a verification to
    find."""
    tail = files.read_range(fd, max(0, size_bytes - 2 * max_line_bytes), size_bytes)
    for line in reversed(tail.split(b"\n")):
        with contextlib.suppress(ValueError):
            fields = parse(line)
            return Head(fields["number"], fields["hash"], size_bytes)
    return Head(size_bytes=size_bytes)


def _adopted(path: Path, head: Head, size_bytes: int, max_line_bytes: int) -> Head:
    """Accept the lines that were written by a writer that died before it wrote the head."""
    with contextlib.suppress(ValueError):
        for line in files.read_lines(path, max_line_bytes, head.size_bytes, size_bytes):
            _, head = follow(head, line)
    return head
