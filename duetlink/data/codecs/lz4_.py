"""LZ4 blocks: a low compression ratio, and very quick to decode."""

from __future__ import annotations

from typing import ClassVar

import lz4.block
import numpy as np

from duetlink.data.codecs.base import BYTES, Array, Codec, array_bytes
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk


class Lz4(Codec):
    """One block. Level 1 is LZ4 itself; the levels above are those of LZ4 HC."""

    number: ClassVar[int] = 4
    name: ClassVar[str] = "lz4"
    kind: ClassVar[str] = BYTES
    levels: ClassVar[range] = range(1, 13)
    level: ClassVar[int] = 1

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        mode = {"mode": "default"} if level == 1 else {"mode": "high_compression", "compression": level}
        block: bytes = lz4.block.compress(array.reshape(-1).view(np.uint8).data, store_size=False, **mode)
        return block

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        size_bytes = array_bytes(element, shape)
        found = lz4.block.decompress(payload, uncompressed_size=size_bytes)
        if len(found) != size_bytes:
            raise MalformedChunk(f"an LZ4 block of {len(found)} bytes for {size_bytes}")
        return np.frombuffer(found, element.storage).reshape(shape)
