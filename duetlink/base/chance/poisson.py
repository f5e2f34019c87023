"""Poisson sampling: each row is in a batch with the same probability, independently of the others."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt


def poisson_samples(
    rows: int, rate: float, count: int, uniform: Callable[[int], npt.NDArray[np.float64]]
) -> list[npt.NDArray[np.int64]]:
    """Return `count` independent batches as `poisson_sample` makes them, from one draw.

    The draw is a sample of all pairs of a batch and a row. Each pair is in it with probability `rate`,
    independently of the others, so that its parts are the batches.
    """
    pairs = poisson_sample(count * rows, rate, uniform)
    starts = rows * np.arange(count + 1)
    ends = np.searchsorted(pairs, starts).tolist()
    return [pairs[ends[at] : ends[at + 1]] - starts[at] for at in range(count)]


def poisson_sample(
    rows: int, rate: float, uniform: Callable[[int], npt.NDArray[np.float64]]
) -> npt.NDArray[np.int64]:
    """Return the rows of one batch, ascending: each of `rows` is in it with probability `rate`.

    `uniform(n)` returns n numbers of the uniform distribution on (0, 1].

    The gaps between chosen rows are geometric, so the work is proportional to the batch and not to the table.
    A batch may be empty.
    """
    if rate >= 1.0:
        return np.arange(rows)
    found: list[npt.NDArray[np.int64]] = []
    at = -1
    while True:
        expected = (rows - at) * rate
        draws = int(expected + 4.0 * math.sqrt(expected)) + 8
        gaps = np.floor(np.log(uniform(draws)) / math.log1p(-rate)) + 1.0
        reached = at + np.cumsum(np.minimum(gaps, rows + 1.0))
        inside = reached[reached < rows].astype(np.int64)
        found.append(inside)
        if len(inside) < draws:
            return np.concatenate(found)
        at = int(inside[-1])
