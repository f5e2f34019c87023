"""A sample of items at places that are the same at all members, to estimate the density of the union."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs.element import Element
from duetlink.data.codecs.support import bitmap_of, count
from duetlink.groups.collectives.execution.elements import Array

SAMPLE = 4096  # density within 1.6 % (twice the standard deviation)
SAMPLE_BYTES = SAMPLE // 8
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)  # 2^64 over the golden ratio: its multiples are spread evenly


def sample_of(array: Array) -> Array:
    """Return 4,096 items, at the same places at all members; all items of a shorter array."""
    if array.size <= SAMPLE:
        return array
    sample: Array = array[(np.arange(SAMPLE, dtype=np.uint64) * _GOLDEN) % np.uint64(array.size)]
    return sample


def support_of(sample: Array, element: Element) -> Array:
    """Return a bitmap of the sample's items that are not zero, padded to `SAMPLE_BYTES`."""
    bits = np.zeros(SAMPLE_BYTES, np.uint8)
    bitmap = bitmap_of(sample, element)
    bits[: bitmap.size] = bitmap
    return bits


def density_of(supports: Array, items: int) -> float:
    """Estimate the density of the union from supports of shape (members, SAMPLE_BYTES)."""
    return count(np.bitwise_or.reduce(supports, axis=0)) / max(1, min(SAMPLE, items))
