"""Sorted positions as the numbers of items between them, and back."""

from __future__ import annotations

import numpy as np

from duetlink.data.codecs.gradients.indices.base import Positions
from duetlink.errors import MalformedChunk


def gaps_of(positions: Positions) -> Positions:
    """How many items lie between each position and the one before: 0 for neighbours."""
    return np.diff(positions, prepend=-1) - 1


def positions_of(gaps: Positions, size: int) -> Positions:
    """The inverse; raises MalformedChunk where a gap is negative or the last position is not below `size`."""
    if gaps.size == 0:
        return gaps
    if gaps.min() < 0 or gaps.sum(dtype=np.float64) > 2.0 * size:  # no cumulative sum wraps around below that
        raise MalformedChunk(f"gaps that reach beyond {size} items")
    positions = np.cumsum(gaps + 1) - 1
    if positions[-1] >= size:
        raise MalformedChunk(f"position {positions[-1]} of {size} items")
    return positions
