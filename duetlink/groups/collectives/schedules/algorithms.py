"""The table of algorithms by kind of operation."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Protocol

from duetlink.groups.collectives.schedules import butterfly, halving, naive, pairwise, ring, tree
from duetlink.groups.collectives.schedules.schedule import Schedule, relabel


class Algorithm(Protocol):
    """A function that makes the schedule of one member."""

    def __call__(self, rank: int, size: int, root: int = 0) -> Schedule: ...


def _both(first: Algorithm, then: Algorithm) -> Algorithm:
    def made(rank: int, size: int, root: int = 0) -> Schedule:
        return first(rank, size, root).then(then(rank, size, root))

    return made


# In the order in which `explain` lists them; among equally fast ones the first is chosen.
ALGORITHMS: Mapping[str, Mapping[str, Algorithm]] = {
    "all_reduce": {
        "naive": _both(naive.reduce, naive.broadcast),  # a star: the root adds in the order of the ranks
        "butterfly": butterfly.all_reduce,
        "tree": _both(tree.reduce, tree.broadcast),
        "halving": _both(halving.reduce_scatter, halving.all_gather),
        "ring": _both(ring.reduce_scatter, ring.all_gather),
    },
    "reduce": {"naive": naive.reduce, "tree": tree.reduce, "ring": ring.reduce},
    "broadcast": {"naive": naive.broadcast, "tree": tree.broadcast, "ring": ring.broadcast},
    "gather": {"naive": naive.gather, "tree": tree.gather},
    "scatter": {"naive": naive.scatter, "tree": tree.scatter},
    "all_gather": {"naive": naive.all_gather, "doubling": halving.all_gather, "ring": ring.all_gather},
    "reduce_scatter": {
        "naive": naive.reduce_scatter,
        "halving": halving.reduce_scatter,
        "ring": ring.reduce_scatter,
    },
    "all_to_all": {"pairwise": pairwise.all_to_all},
    "barrier": {"doubling": halving.all_gather},
}

# operations where every member has its own block; the blocks may differ in size
BY_MEMBER = frozenset({"gather", "scatter", "all_gather", "reduce_scatter", "all_to_all", "barrier"})


@functools.lru_cache(maxsize=1024)
def schedule(kind: str, algorithm: str, rank: int, order: tuple[int, ...], root: int = 0) -> Schedule:
    """Make the schedule of member `rank`, where position p of the algorithm is taken by rank `order[p]`."""
    made = ALGORITHMS[kind][algorithm](order.index(rank), len(order), order.index(root))
    return relabel(made, order)
