"""Positions as one bit per item."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.data.codecs.gradients.indices.bits import byte_count
from duetlink.errors import MalformedChunk


class Bitmap(IndexCodec):
    """The smallest from a density of about 0.4 on."""

    number: ClassVar[int] = 4
    name: ClassVar[str] = "bitmap"

    def predicted_bits(self, size: int, count: int) -> float:
        return size

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        items = np.zeros(size, np.bool_)
        items[positions] = True
        return np.packbits(items).tobytes()

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        if len(payload) != byte_count(size):
            raise MalformedChunk(f"a bitmap of {size} items in {len(payload)} bytes")
        items = np.unpackbits(np.frombuffer(payload, np.uint8))
        if items[size:].any() or np.count_nonzero(items) != count:
            raise MalformedChunk(f"a bitmap that does not mark {count} of {size} items")
        return np.flatnonzero(items)
