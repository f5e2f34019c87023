"""All-gather by recursive doubling, for any number of members: what one has doubles in every round.

ceil(log2 n) rounds and (n - 1) / n of the result sent by each. For powers of two this is the classic
algorithm (Thakur, Rabenseifner and Gropp, "Optimization of collective communication operations in MPICH",
2005, section 4.1) up to who meets whom; for other numbers the circulant graph of J. L. Träff, "Optimal,
non-pipelined reduce-scatter and allreduce algorithms" (arXiv 2410.14234), needs no folding. A member thinks
of the blocks relative to itself: block i is the one of the member i places on.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedule import Receive, Round, Schedule, Send, modulo


def spans(size: int) -> list[tuple[int, int]]:
    """For each round of halving how many relative blocks remain, and how many there were."""
    found = []
    while size > 1:
        half = (size + 1) // 2
        found.append((half, size))
        size = half
    return found


def all_gather(rank: int, size: int, root: int = 0) -> Schedule:
    """Each begins with the block of its number."""
    rounds = (
        Round(
            (Send((rank - half) % size, modulo(rank, whole - half, size)),),
            (Receive((rank + half) % size, modulo(rank + half, whole - half, size)),),
        )
        for half, whole in reversed(spans(size))
    )
    return Schedule(size, tuple(rounds))
