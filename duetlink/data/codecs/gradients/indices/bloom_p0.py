"""Bloom filter, policy P0: the values of all positives are sent, so that nothing chosen is lost."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.gradients.indices.base import Positions
from duetlink.data.codecs.gradients.indices.bloom import BloomCodec, BloomFilter


class BloomP0(BloomCodec):
    """The positions and about a tenth as many others."""

    number: ClassVar[int] = 7
    name: ClassVar[str] = "bloom_p0"

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        return BloomFilter.from_bytes(payload, size).positives(size)
