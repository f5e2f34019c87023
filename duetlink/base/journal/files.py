"""The operating system calls of a journal. All functions here may raise OSError.

A file that must survive a power cut has to be synchronised to the disk, and so has its directory, in the
right order.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

from duetlink.base.journal.head import SIZE_BYTES, Head, head_path

READ_AND_WRITE = os.O_RDWR  # an existing file
READ_AND_APPEND = os.O_RDWR | os.O_APPEND | os.O_CREAT
APPEND = os.O_WRONLY | os.O_APPEND | os.O_CREAT
OVERWRITE = os.O_WRONLY | os.O_CREAT  # writes from the beginning, without truncating
LOCK = os.O_RDWR | os.O_CREAT
REPLACE = os.O_WRONLY | os.O_CREAT | os.O_TRUNC

# O_NOFOLLOW: other writers of the directory could replace the file by a link to another of the owner's files.
_ALWAYS = getattr(os, "O_BINARY", 0) | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0)


@contextlib.contextmanager
def opened(path: Path, flags: int) -> Iterator[int]:
    """Open `path`, readable only by its owner, and yield the descriptor."""
    fd = os.open(path, flags | _ALWAYS, 0o600)
    try:
        yield fd
    finally:
        os.close(fd)


def sync(fd: int) -> None:
    os.fsync(fd)


def sync_directory(directory: Path) -> None:
    """Synchronise a directory, so that a new file exists after a power cut; Windows needs no such call."""
    with contextlib.suppress(OSError):
        fd = os.open(directory, os.O_RDONLY)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def close_to_others(fd: int) -> None:
    """Make a file readable only by its owner, if another program made it readable by others."""
    if os.name == "posix" and os.fstat(fd).st_mode & 0o077:
        os.fchmod(fd, 0o600)


def size_bytes(fd: int) -> int:
    return os.fstat(fd).st_size


def write_all(fd: int, content: bytes | bytearray, begin_bytes: int) -> None:
    """Append `content` to a file of `begin_bytes`: all of it, or truncate the file to its former size."""
    left = memoryview(content)
    try:
        while left:
            left = left[os.write(fd, left) :]
    except OSError:  # a full disk may have taken a part, which no caller may rely on
        with contextlib.suppress(OSError):
            os.ftruncate(fd, begin_bytes)
        raise


def cut(fd: int, end_bytes: int) -> None:
    os.ftruncate(fd, end_bytes)


def read_range(fd: int, begin_bytes: int, end_bytes: int) -> bytes:
    """Return the bytes of a range, fewer if the file ends before `end_bytes`."""
    os.lseek(fd, begin_bytes, os.SEEK_SET)
    found = bytearray()
    while len(found) < end_bytes - begin_bytes:
        chunk = os.read(fd, end_bytes - begin_bytes - len(found))
        if not chunk:
            break
        found += chunk
    return bytes(found)


def read_lines(
    path: Path, max_line_bytes: int, begin_bytes: int = 0, end_bytes: int | None = None
) -> Iterator[bytes]:
    """Yield the lines from `begin_bytes` on, with their newline. The last one may be torn.

    A line over `max_line_bytes`, which no journal contains, is cut.
    """
    with open(path, "rb") as file:
        file.seek(begin_bytes)
        position = begin_bytes
        while end_bytes is None or position < end_bytes:
            most = max_line_bytes if end_bytes is None else min(max_line_bytes, end_bytes - position)
            line = file.readline(most)
            if not line:
                return
            yield line
            while line and not line.endswith(b"\n"):  # skip the rest of a line that is too long
                position += len(line)
                line = file.readline(max_line_bytes)
            position += len(line)


def read_head(journal: Path) -> Head | None:
    """Return the head of a journal; None if it is missing or damaged."""
    try:
        with opened(head_path(journal), os.O_RDONLY) as fd:
            return Head.from_bytes(os.read(fd, 2 * SIZE_BYTES))
    except (FileNotFoundError, ValueError, RecursionError):
        return None


def write_head(journal: Path, head: Head, *, synced: bool = False) -> None:
    """Write the head file; with `synced`, it is on the disk when this returns."""
    with opened(head_path(journal), OVERWRITE) as fd:
        os.write(fd, head.to_bytes())
        if synced:
            os.fsync(fd)


def identity(journal: Path) -> tuple[int, ...]:
    """Return a key that changes when the file or its head does; empty if one is missing."""
    try:
        files = os.stat(journal), os.stat(head_path(journal))
    except FileNotFoundError:
        return ()
    return tuple(part for file in files for part in (file.st_ino, file.st_size, file.st_mtime_ns))


def replace(new: Path, old: Path) -> None:
    os.replace(new, old)
