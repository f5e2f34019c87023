"""Algorithms around a ring, one block in every round: the fewest bytes that any member has to send.

Reduce-scatter and all-gather of n - 1 rounds each: every member sends 2 (n - 1) / n of the array, the lower
bound (Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms for clusters of workstations", 2009). Each
block is summed by one owner, in the order of the ring, so that all members have the same bits.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedules.schedule import (
    BlockUse,
    Receive,
    Schedule,
    ScheduleRound,
    SendBlock,
)


def reduce_scatter(rank: int, size: int, root: int = 0) -> Schedule:
    """Sum block r of all members at rank r, its owner, in n - 1 rounds."""
    return _around(rank, size, rank - 1, BlockUse.LEFT)


def all_gather(rank: int, size: int, root: int = 0) -> Schedule:
    """Bring block r of rank r to all: each member passes on the block that it has just received."""
    return _around(rank, size, rank, BlockUse.REPLACE)


def reduce(rank: int, size: int, root: int = 0) -> Schedule:
    """Sum each block at its owner, which sends it to the root."""
    if rank == root:
        last = ScheduleRound(receives=tuple(Receive(of, (of,)) for of in range(size) if of != root))
    else:
        last = ScheduleRound(sends=(SendBlock(root, (rank,)),))
    return reduce_scatter(rank, size).then(Schedule(size, (last,)))


def broadcast(rank: int, size: int, root: int = 0) -> Schedule:
    """Pass the whole array along a chain. Cut into many parts, it keeps all links busy at once."""
    place = (rank - root) % size
    rounds = [ScheduleRound() for _ in range(size - 1)]
    if place > 0:
        rounds[place - 1] = ScheduleRound(receives=(Receive((rank - 1) % size, (0,)),))
    if place < size - 1:
        rounds[place] = ScheduleRound(sends=(SendBlock((rank + 1) % size, (0,)),))
    return Schedule(1, tuple(rounds))


def _around(rank: int, size: int, first: int, how: BlockUse) -> Schedule:
    rounds = (
        ScheduleRound(
            (SendBlock((rank + 1) % size, ((first - index) % size,)),),
            (Receive((rank - 1) % size, ((first - index - 1) % size,), how),),
        )
        for index in range(size - 1)
    )
    return Schedule(size, tuple(rounds))
