"""Reduce-scatter by recursive halving and all-gather by recursive doubling, for any number of members.

Each takes ceil(log2 n) rounds, in which a member sends (n - 1) / n of the array: as few bytes as in a ring,
in fewer rounds. For powers of two these are the classic algorithms (Rabenseifner, "Optimization of collective
reduction operations", 2004; Thakur, Rabenseifner and Gropp, "Optimization of collective communication
operations in MPICH", 2005, section 4.1) except for the choice of partners; for other numbers the circulant
graph of J. L. Träff, "Optimal, non-pipelined reduce-scatter and allreduce algorithms" (arXiv 2410.14234),
needs no folding. Blocks are counted relative to the member: block i belongs to the member i ranks on.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedules.schedule import (
    BlockUse,
    Receive,
    Schedule,
    ScheduleRound,
    SendBlock,
    modulo,
)


def reduce_scatter(rank: int, size: int, root: int = 0) -> Schedule:
    """Sum block r of all members at rank r, its owner."""
    rounds = (
        ScheduleRound(
            (SendBlock((rank + half) % size, modulo(rank + half, whole - half, size)),),
            (Receive((rank - half) % size, modulo(rank, whole - half, size), BlockUse.RIGHT),),
        )
        for half, whole in _spans(size)
    )
    return Schedule(size, tuple(rounds))


def all_gather(rank: int, size: int, root: int = 0) -> Schedule:
    """Bring block r of rank r to all."""
    rounds = (
        ScheduleRound(
            (SendBlock((rank - half) % size, modulo(rank, whole - half, size)),),
            (Receive((rank + half) % size, modulo(rank + half, whole - half, size)),),
        )
        for half, whole in reversed(_spans(size))
    )
    return Schedule(size, tuple(rounds))


def _spans(size: int) -> list[tuple[int, int]]:
    """Return, for each round of halving, how many relative blocks remain, and how many there were."""
    found = []
    while size > 1:
        half = (size + 1) // 2
        found.append((half, size))
        size = half
    return found
