"""Reduce-scatter by recursive halving and all-gather by recursive doubling, for any number of members.

2 ceil(log2 n) rounds, and 2 (n - 1) / n of the array sent by each: as few bytes as a ring, in fewer rounds
(Rabenseifner, "Optimization of collective reduction operations", 2004). Numbers that are no powers of two
need no folding on circulant graphs: see `doubling.py`. Each block is summed by one owner.
"""

from __future__ import annotations

from duetlink.groups.collectives import doubling
from duetlink.groups.collectives.schedule import How, Receive, Round, Schedule, Send, modulo


def reduce_scatter(rank: int, size: int, root: int = 0) -> Schedule:
    """After the rounds each member owns the sum of the block of its number."""
    rounds = (
        Round(
            (Send((rank + half) % size, modulo(rank + half, whole - half, size)),),
            (Receive((rank - half) % size, modulo(rank, whole - half, size), How.RIGHT),),
        )
        for half, whole in doubling.spans(size)
    )
    return Schedule(size, tuple(rounds))
