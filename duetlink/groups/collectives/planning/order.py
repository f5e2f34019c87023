"""Finds the best order of the members around a ring: the slowest link of a ring limits all of it.

Exact up to 9 members, where all 8! = 40,320 rings are compared as arrays; beyond that, 2-opt (Croes 1958)
from a nearest-neighbour ring. The best ring has the fewest relayed links; then the fastest slowest link; then
the smallest sum over its links.
"""

from __future__ import annotations

import itertools

import numpy as np
from numpy.typing import NDArray

from duetlink.groups.collectives.planning.costs import Costs

EXACT_SIZE = 9
STEP_BYTES = 512 * 1024  # links are compared by the time of this message: one frame of a large array


def ring_order(costs: Costs) -> tuple[int, ...]:
    """Return the members around the ring, beginning with rank 0. Equal figures give equal orders."""
    size = costs.size
    if size < 3:
        return tuple(range(size))
    seconds = np.array([[costs.link(a, b).seconds(STEP_BYTES) for b in range(size)] for a in range(size)])
    relayed = np.array([[costs.link(a, b).relayed for b in range(size)] for a in range(size)])
    if size <= EXACT_SIZE:
        tails = np.array(list(itertools.permutations(range(1, size))))
        rings = np.concatenate((np.zeros((len(tails), 1), np.int64), tails), axis=1)
        return _best(rings, seconds, relayed)
    order = _nearest(seconds, relayed)
    while (better := _best(_reversals(order), seconds, relayed)) != order:
        order = better
    return order


def _best(
    rings: NDArray[np.int64], seconds: NDArray[np.float64], relayed: NDArray[np.bool_]
) -> tuple[int, ...]:
    """Return the best of the rows; the first of several."""
    following = np.roll(rings, -1, axis=1)
    each_s = seconds[rings, following]
    keys = (each_s.sum(axis=1), each_s.max(axis=1), relayed[rings, following].sum(axis=1))
    return tuple(int(rank) for rank in rings[np.lexsort(keys)[0]])


def _nearest(seconds: NDArray[np.float64], relayed: NDArray[np.bool_]) -> tuple[int, ...]:
    order = [0]
    left = set(range(1, len(seconds)))
    while left:
        last = order[-1]
        order.append(min(sorted(left), key=lambda rank: (relayed[last, rank], seconds[last, rank])))
        left.remove(order[-1])
    return tuple(order)


def _reversals(order: tuple[int, ...]) -> NDArray[np.int64]:
    """Return this ring, and every ring in which one section of it is reversed (2-opt moves)."""
    rings = [order]
    for start, stop in itertools.combinations(range(1, len(order) + 1), 2):
        rings.append(order[:start] + order[start:stop][::-1] + order[stop:])
    return np.array(rings)
