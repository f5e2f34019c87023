"""Several arrays as one payload: for each its size in bytes (u64), then its bytes, plain or entropy-coded."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
from numpy.typing import DTypeLike, NDArray

from duetlink.data.codecs import zstd
from duetlink.data.codecs.base import Array
from duetlink.errors import MalformedChunk

_SIZE = struct.Struct("<Q")


def pack(*arrays: Array) -> bytes:
    """Return the payload of C-contiguous arrays."""
    parts: list[bytes | memoryview] = []
    for array in arrays:
        plain = array.reshape(-1).view(np.uint8).data
        coded = zstd.compress(plain, zstd.ENTROPY)
        smallest = coded if len(coded) < len(plain) else plain
        parts += [_SIZE.pack(len(smallest)), smallest]
    return b"".join(parts)


class Sections:
    """The unread part of a payload."""

    def __init__(self, payload: memoryview) -> None:
        self._rest = payload

    def take(self, dtype: DTypeLike, count: int) -> NDArray[Any]:
        """Read the next array, which may be read-only; raise MalformedChunk unless it has `count` items."""
        if len(self._rest) < _SIZE.size:
            raise MalformedChunk("a payload ends where a section should begin")
        (size,) = _SIZE.unpack_from(self._rest)
        data, self._rest = self._rest[_SIZE.size :][:size], self._rest[_SIZE.size + size :]
        wanted = count * np.dtype(dtype).itemsize
        if len(data) != size or size > wanted:
            raise MalformedChunk(f"a section of {size} bytes for {wanted}, in {len(data)}")
        if size < wanted:
            data = memoryview(zstd.decompress(data, wanted))
        return np.frombuffer(data, dtype)

    def rest(self) -> memoryview:
        return self._rest

    def end(self) -> None:
        """Raise MalformedChunk if anything is left."""
        if self._rest:
            raise MalformedChunk(f"{len(self._rest)} bytes after the last section")
