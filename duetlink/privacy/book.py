"""The file of the privacy ledger: a chain of lines, and beside it a head that says where it ends.

A line is on the disk before its head is, and the head before the line counts as written. So there may be

    a line, and a head from before it   its writer ended before it was done: the line counts
    part of a line, and such a head     the same, but what it said is lost
    a head, and not its line            the file was cut off, or put back from an old copy

The last two are damage, as is whatever does not follow in the chain. Not found is an old file that was put
back together with its old head.
"""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from duetlink.audit.entry import canonical, hash_of, parse
from duetlink.audit.files import sync_directory
from duetlink.audit.head import OPEN_FLAGS, Head, head_path, read_head
from duetlink.errors import AuditBroken
from duetlink.privacy.account import Posting

MAX_LINE_BYTES = 64 * 1024  # more than the longest texts, all of them escaped, can take
_NEW = os.O_WRONLY | os.O_CREAT | OPEN_FLAGS


def walk(path: Path, take: Callable[[Posting], object]) -> Head:
    """Every line in order, and where the chain goes on. Lines behind the head are taken in, for good.

    Raises:
        AuditBroken: the file is damaged; the lines before the damage were taken.
        OSError: it cannot be read, or a line behind the head cannot be made to stay.
    """
    stated = read_head(path)
    found = Head()
    met = stated is not None and stated.number < 0
    with contextlib.ExitStack() as stack:
        try:
            file = stack.enter_context(open(path, "r+b"))
        except FileNotFoundError:
            if met or (stated is None and not head_path(path).exists()):
                return found
            raise _broken(path, "it is not there, but its head is") from None
        while line := file.readline(MAX_LINE_BYTES):
            posting, found = _next(path, line, found)
            take(posting)
            met = met or found == stated
        if stated is None and not found.size_bytes and not head_path(path).exists():
            return found
        if stated is None:
            raise _broken(path, f"its head {head_path(path).name} is missing or damaged")
        if not met:
            missing = f"it ends with line {found.number}, and its head names line {stated.number}"
            raise _broken(path, missing if found.number < stated.number else "its head names another line")
        if found != stated:
            os.fsync(file.fileno())
            write_head(path, found)
    return found


def append(path: Path, end: Head, fields: Mapping[str, Any]) -> Head:
    """Add a line behind `end`, where the file ends now; it and the head are on the disk when this returns.

    Raises:
        OSError: the line is not written, or not surely.
    """
    line, head = sealed(end, fields)
    if not end.size_bytes:  # the head first: from here on a file without one is damaged
        write_head(path, end)
        sync_directory(path.parent)
    fd = os.open(path, _NEW | os.O_APPEND, 0o600)
    try:
        try:
            left = memoryview(line)
            while left:
                left = left[os.write(fd, left) :]
        except OSError:  # a full disk takes the beginning: nobody was told of it
            os.ftruncate(fd, end.size_bytes)
            raise
        os.fsync(fd)
    finally:
        os.close(fd)
    if not end.size_bytes:
        sync_directory(path.parent)
    write_head(path, head)
    return head


def sealed(end: Head, fields: Mapping[str, Any]) -> tuple[bytes, Head]:
    """A line that follows `end`, and the head that names it."""
    chained = {**fields, "number": end.number + 1, "previous": end.hash}
    chained["hash"] = hash_of(chained)
    line = canonical(chained) + b"\n"
    return line, Head(chained["number"], chained["hash"], end.size_bytes + len(line))


def write_head(path: Path, head: Head) -> None:
    """On the disk when this returns. Raises OSError."""
    fd = os.open(head_path(path), _NEW, 0o600)
    try:
        os.write(fd, head.to_bytes())
        os.fsync(fd)
    finally:
        os.close(fd)


def start_over(path: Path, fields: Mapping[str, Any], aside: Path) -> None:
    """Keep the lines before the damage, add one, and copy the file as it is to `aside`. A crash on the way
    leaves it damaged, or done. Raises OSError.
    """
    kept = bytearray()
    end = Head()
    with contextlib.suppress(FileNotFoundError, AuditBroken), open(path, "rb") as file:
        while line := file.readline(MAX_LINE_BYTES):
            _, end = _next(path, line, end)
            kept += line
    line, head = sealed(end, fields)
    new = path.with_name(path.name + ".new")
    fd = os.open(new, _NEW | os.O_TRUNC, 0o600)
    with os.fdopen(fd, "wb") as file:
        file.write(kept + line)
        file.flush()
        os.fsync(fd)
    with contextlib.suppress(FileNotFoundError):
        shutil.copy(path, aside)
    os.replace(new, path)
    sync_directory(path.parent)
    write_head(path, head)
    sync_directory(path.parent)


def state_of(path: Path) -> tuple[int, ...]:
    """Changes when the file or its head does; empty where one is missing."""
    try:
        files = os.stat(path), os.stat(head_path(path))
    except FileNotFoundError:
        return ()
    return tuple(part for file in files for part in (file.st_ino, file.st_size, file.st_mtime_ns))


def _next(path: Path, line: bytes, end: Head) -> tuple[Posting, Head]:
    number = end.number + 1
    if not line.endswith(b"\n"):
        raise _broken(path, f"line {number} is torn or too long")
    try:
        fields = parse(line[:-1])
        posting = Posting.from_fields(fields)
    except ValueError as error:
        raise _broken(path, f"line {number} is not as it was written: {error}") from None
    if (posting.number, fields["previous"]) != (number, end.hash):
        raise _broken(path, f"line {number} does not follow from the one before it")
    return posting, Head(number, fields["hash"], end.size_bytes + len(line))


def _broken(path: Path, what: str) -> AuditBroken:
    return AuditBroken(
        f"the privacy ledger {path} is damaged: {what}. Nothing private is released until its owner calls "
        "repair(), which closes all budgets"
    )
