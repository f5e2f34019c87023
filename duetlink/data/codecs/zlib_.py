"""zlib's DEFLATE (RFC 1950, 1951)."""

from __future__ import annotations

import zlib
from typing import ClassVar

import numpy as np

from duetlink.data.codecs.base import BYTES, Array, Codec, array_bytes
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk


class Zlib(Codec):
    """One zlib stream."""

    number: ClassVar[int] = 1
    name: ClassVar[str] = "zlib"
    kind: ClassVar[str] = BYTES
    levels: ClassVar[range] = range(1, 10)
    level: ClassVar[int] = 6

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return zlib.compress(array.reshape(-1).view(np.uint8).data, level)

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        size_bytes = array_bytes(element, shape)
        stream = zlib.decompressobj()
        found = stream.decompress(payload, size_bytes + 1)  # + 1, because 0 would mean no limit
        if len(found) != size_bytes or not stream.eof or stream.unused_data:
            raise MalformedChunk(f"a zlib stream that does not hold {size_bytes} bytes")
        return np.frombuffer(found, element.storage).reshape(shape)
