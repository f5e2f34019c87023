"""Bloom filter, policy P1: of the positives, as many as were chosen, by chance; both sides know which."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.gradients.indices.base import Positions
from duetlink.data.codecs.gradients.indices.bloom import BloomCodec, BloomFilter, least_hashed


class BloomP1(BloomCodec):
    """About one in eleven of the positions is another one."""

    number: ClassVar[int] = 8
    name: ClassVar[str] = "bloom_p1"

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        found = BloomFilter.from_bytes(payload, size)
        return least_hashed(found.positives(size), count, found.seed)
