"""The files from which the jobs of pending requests can be run after a restart; one for each request.

A file is written atomically, and is on the disk before the record of its request: a pending request with a
record has its work. It is removed after the request has been answered, or by the next kernel that opens the
state.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from duetlink.base.journal.files import REPLACE, opened, sync, sync_directory
from duetlink.duet.state.directory import unavailable

Pieces = Sequence[bytes | bytearray | memoryview]

_MAGIC = b"duetwrk1"
_DIGEST_BYTES = 32
_HEADER_BYTES = len(_MAGIC) + _DIGEST_BYTES
_NEW = ".new"


class Works:
    """The directory of these files. Its methods block; one thread at a time may write."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory

    def sizes(self) -> dict[int, int]:
        """Return the size of each in bytes by the number of its request, from the directory listing."""
        found = {}
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir():
                size_bytes = path.stat().st_size - _HEADER_BYTES
                if path.name.isdecimal() and size_bytes >= 0:
                    found[int(path.name)] = size_bytes
        return found

    def keep_only(self, numbers: Iterable[int]) -> None:
        """Remove the files of all other requests. A file that cannot be removed stays, and does no harm."""
        names = set(map(str, numbers))
        with contextlib.suppress(OSError):
            for path in self._directory.iterdir():
                if path.name not in names:
                    path.unlink(missing_ok=True)

    def write(self, number: int, pieces: Pieces) -> None:
        """Write a file; return when it is on the disk. Raises StateUnavailable."""
        path = self._path(number)
        new = path.with_name(path.name + _NEW)
        digest = hashlib.sha256()
        for piece in pieces:
            digest.update(piece)
        try:
            self._directory.mkdir(mode=0o700, exist_ok=True)
            with opened(new, REPLACE) as fd:
                for piece in (_MAGIC, digest.digest(), *pieces):
                    _write(fd, memoryview(piece).cast("B"))
                sync(fd)
            os.replace(new, path)
            sync_directory(self._directory)
            sync_directory(self._directory.parent)
        except OSError as error:
            raise unavailable(path, error) from error

    def read(self, number: int) -> bytes | None:
        """Return the bytes of a work; None if there is no file or its digest is wrong."""
        try:
            content = self._path(number).read_bytes()
        except OSError:
            return None
        body = content[_HEADER_BYTES:]
        return body if content[:_HEADER_BYTES] == _MAGIC + hashlib.sha256(body).digest() else None

    def remove(self, number: int) -> None:
        """Remove a file, if it exists. Raises StateUnavailable."""
        path = self._path(number)
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            raise unavailable(path, error) from error

    def _path(self, number: int) -> Path:
        return self._directory / str(number)


def _write(fd: int, piece: memoryview) -> None:
    while piece:
        piece = piece[os.write(fd, piece) :]
