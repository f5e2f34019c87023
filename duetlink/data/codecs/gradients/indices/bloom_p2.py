"""Bloom filter, policy P2: of the positives, as many as were chosen, those of small conflict sets first.

The positives that share a bit of the filter are a conflict set; at least one of them is true, and in a set of
one the only one is. DeepReduce takes one item from each set, smallest first; here each item stands where its
smallest set does, and chance decides between equals, so that no loop over sets is needed.
"""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.data.codecs.gradients.indices.base import Positions
from duetlink.data.codecs.gradients.indices.bloom import BloomCodec, BloomFilter, least_hashed


class BloomP2(BloomCodec):
    """Fewer of the positions are others than with P1."""

    number: ClassVar[int] = 9
    name: ClassVar[str] = "bloom_p2"

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        found = BloomFilter.from_bytes(payload, size)
        positives = found.positives(size)
        if count >= positives.size:
            return positives
        conflicts = found.conflicts(positives)
        last = np.partition(conflicts, count)[count]  # the size of set at which there are enough
        sure = positives[conflicts < last]
        others = least_hashed(positives[conflicts == last], count - sure.size, found.seed)
        return np.sort(np.concatenate((sure, others)))
