"""Direct sends: the fewest hops, and the best for few members or few bytes.

Sums and copies go through one member, the root (a star); blocks that differ by member go straight there.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedules.schedule import (
    BlockUse,
    Receive,
    Schedule,
    ScheduleRound,
    SendBlock,
)


def _others(rank: int, size: int) -> list[int]:
    return [other for other in range(size) if other != rank]


def reduce(rank: int, size: int, root: int = 0) -> Schedule:
    """Receive from all at the root and add: its own part first, then the others' by rank."""
    if rank != root:
        return Schedule(1, (ScheduleRound(sends=(SendBlock(root, (0,)),)),))
    return Schedule(
        1, (ScheduleRound(receives=tuple(Receive(of, (0,), BlockUse.RIGHT) for of in _others(rank, size))),)
    )


def broadcast(rank: int, size: int, root: int = 0) -> Schedule:
    if rank != root:
        return Schedule(1, (ScheduleRound(receives=(Receive(root, (0,)),)),))
    return Schedule(1, (ScheduleRound(sends=tuple(SendBlock(to, (0,)) for to in _others(rank, size))),))


def gather(rank: int, size: int, root: int = 0) -> Schedule:
    if rank != root:
        return Schedule(size, (ScheduleRound(sends=(SendBlock(root, (rank,)),)),))
    return Schedule(size, (ScheduleRound(receives=tuple(Receive(of, (of,)) for of in _others(rank, size))),))


def scatter(rank: int, size: int, root: int = 0) -> Schedule:
    if rank != root:
        return Schedule(size, (ScheduleRound(receives=(Receive(root, (rank,)),)),))
    return Schedule(size, (ScheduleRound(sends=tuple(SendBlock(to, (to,)) for to in _others(rank, size))),))


def all_gather(rank: int, size: int, root: int = 0) -> Schedule:
    others = _others(rank, size)
    sends = tuple(SendBlock(to, (rank,)) for to in others)
    return Schedule(size, (ScheduleRound(sends, tuple(Receive(of, (of,)) for of in others)),))


def reduce_scatter(rank: int, size: int, root: int = 0) -> Schedule:
    """Send every block to its owner, which adds: its own part first, then the others' by rank."""
    others = _others(rank, size)
    sends = tuple(SendBlock(to, (to,)) for to in others)
    return Schedule(
        size, (ScheduleRound(sends, tuple(Receive(of, (rank,), BlockUse.RIGHT) for of in others)),)
    )
