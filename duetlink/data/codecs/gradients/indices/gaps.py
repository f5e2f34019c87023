"""Sorted positions as the numbers of items between them, in Rice codes or through pcodec.

Rice codes fit the geometric gaps of equally likely positions. Pcodec has bins of their distribution and ANS
codes, and comes near its entropy for any clustering.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.gradients.indices import rice
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.data.codecs.pcodec_ import Pcodec
from duetlink.errors import MalformedChunk

_UINT32, _UINT64 = BY_NAME["uint32"], BY_NAME["uint64"]
_HEAD_BITS = 400  # approximate header of a pcodec file, with its table of bins
_LOSS = 0.03  # approximate bits above the entropy


class GapRice(IndexCodec):
    """Gaps in Rice codes: within 4 % of the entropy of random positions up to a density of 1 %."""

    number: ClassVar[int] = 2
    name: ClassVar[str] = "gap_rice"

    def predicted_bits(self, size: int, count: int) -> float:
        return rice.HEAD_BITS + (count * rice.predicted_bits((size - count) / count) if count else 0)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        return rice.encode(gaps_of(positions))

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        return positions_of(rice.decode(payload, count, size - count), size)


class PcodecGaps(IndexCodec):
    """A pcodec file of uint32 gaps, or of uint64 ones for arrays of 2^32 items and more."""

    number: ClassVar[int] = 1
    name: ClassVar[str] = "pcodec"

    def predicted_bits(self, size: int, count: int) -> float:
        return _HEAD_BITS + count * (bits_per_position(size, count) + _LOSS)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        element = _UINT32 if size <= 1 << 32 else _UINT64
        return Pcodec().encode(gaps_of(positions).astype(element.storage), element, Pcodec.level)

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        element = _UINT32 if size <= 1 << 32 else _UINT64
        return positions_of(Pcodec().decode(payload, element, (count,)).astype(np.int64), size)


def gaps_of(positions: Positions) -> Positions:
    """Return the number of items between each position and the one before: 0 for neighbours."""
    return np.diff(positions, prepend=-1) - 1


def positions_of(gaps: Positions, size: int) -> Positions:
    """Return the positions of these gaps.

    Raises:
        MalformedChunk: a gap is negative, or the last position is not below `size`.
    """
    if gaps.size == 0:
        return gaps
    if gaps.min() < 0 or gaps.sum(dtype=np.float64) > 2.0 * size:  # no cumulative sum wraps around below that
        raise MalformedChunk(f"gaps that reach beyond {size} items")
    positions = np.cumsum(gaps + 1) - 1
    if positions[-1] >= size:
        raise MalformedChunk(f"position {positions[-1]} of {size} items")
    return positions


def bits_per_position(size: int, count: int) -> float:
    """Return the entropy of a geometric gap: H(p) / p bits for a density of p."""
    density = count / size if size else 0.0
    if not 0 < density < 1:
        return 0.0
    rest = 1 - density
    return -(density * math.log2(density) + rest * math.log2(rest)) / density
