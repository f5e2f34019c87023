"""Decides whether a series leaks: a pure function of one value for each cycle of the workload.

All values of a series are taken at the same phase of the cycle, when nothing runs. After a warm-up, the
cycles are cut into three equal blocks. A count leaks if the blocks do not overlap and each is above the one
before. Noise makes blocks overlap, a step lifts a block once, and a sawtooth falls within a block. A tenth of
each end of a block is left out, so that single odd values of a long run change nothing. Nine values in random
order make three such blocks once in 1,680 times; most series here are constant instead.
"""

from __future__ import annotations

import statistics
from collections.abc import Sequence
from itertools import pairwise

BLOCKS = 3
LEAST_CYCLES = 11  # a warm-up of two and three blocks of three


def blocks(values: Sequence[float]) -> list[list[float]]:
    """Three equal parts of what follows the first quarter. Raises ValueError: there are too few values."""
    if len(values) < LEAST_CYCLES:
        raise ValueError(f"{len(values)} cycles are too few to tell; it takes {LEAST_CYCLES}")
    warm_up = max(2, len(values) // 4)
    size = (len(values) - warm_up) // BLOCKS
    begin = len(values) - BLOCKS * size
    return [list(values[begin + size * number : begin + size * (number + 1)]) for number in range(BLOCKS)]


def steady_rise(values: Sequence[float], least: float) -> float:
    """By how much a count rises from the first block to the last; 0 unless in each, and by `least`."""
    parts = [sorted(block) for block in blocks(values)]
    left_out = len(parts[0]) // 10
    for before, after in pairwise(parts):
        is_apart = after[left_out] >= before[-1 - left_out]  # equal where a count rises in each other cycle
        if not is_apart or statistics.median_low(after) <= statistics.median_high(before):
            return 0.0
    rise = statistics.median(parts[-1]) - statistics.median(parts[0])
    return rise if rise >= least else 0.0


def growth(values: Sequence[float], bound: float) -> float:
    """By how much memory has grown from the first block to the last; 0 if not by more than `bound`.

    The least value of a block counts: memory that is in use for a moment is not kept.
    """
    parts = blocks(values)
    grown = min(parts[-1]) - min(parts[0])
    return grown if grown > bound else 0.0


def excess(values: Sequence[float], limit: float) -> float:
    """By how much a count is above its limit at the end; 0 if it is not. It may rise until there."""
    return max(0.0, values[-1] - limit)
