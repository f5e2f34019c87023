"""All-to-all by pairwise exchange: in round k each sends to the member k ranks on, and receives from k ranks
back.

Thakur, Rabenseifner and Gropp (2005), section 4.3 (long messages): every block travels once.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedules.schedule import Receive, Schedule, ScheduleRound, SendBlock


def all_to_all(rank: int, size: int, root: int = 0) -> Schedule:
    """Send from one array of `size` blocks, and receive into another."""
    rounds = (
        ScheduleRound(
            (SendBlock((rank + index) % size, ((rank + index) % size,)),),
            (Receive((rank - index) % size, ((rank - index) % size,)),),
        )
        for index in range(1, size)
    )
    return Schedule(size, tuple(rounds))
