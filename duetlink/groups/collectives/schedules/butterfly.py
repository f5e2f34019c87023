"""All-reduce by recursive doubling: in log2 n rounds, pairs exchange all they have; for small arrays.

Thakur, Rabenseifner and Gropp (2005), section 4.5. Both of a pair compute the same sum from the same two
operands in the same order (the lower ranks' part is the left one), so that all have the same bits. If n is
not a power of two, the first n - 2^k pairs of neighbours fold into one member each, and are sent the result.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedules.schedule import (
    BlockUse,
    Receive,
    Schedule,
    ScheduleRound,
    SendBlock,
)

_WHOLE = (0,)


def all_reduce(rank: int, size: int, root: int = 0) -> Schedule:
    """Make the rounds: fold to a power of two, exchange in pairs, unfold."""
    power = 1 << (size.bit_length() - 1)
    folded = size - power  # pairs (0, 1), (2, 3), …: the even one stands for both
    # the rounds for fold and unfold exist only if some member folds
    first, last = (ScheduleRound(), ScheduleRound()) if folded else (None, None)
    middle = [ScheduleRound() for _ in range(power.bit_length() - 1)]
    if rank < 2 * folded and rank % 2:
        first = ScheduleRound(sends=(SendBlock(rank - 1, _WHOLE),))
        last = ScheduleRound(receives=(Receive(rank - 1, _WHOLE),))
    else:
        if rank < 2 * folded:
            first = ScheduleRound(receives=(Receive(rank + 1, _WHOLE, BlockUse.RIGHT),))
            last = ScheduleRound(sends=(SendBlock(rank + 1, _WHOLE),))
        number = rank // 2 if rank < 2 * folded else rank - folded
        for index in range(len(middle)):
            other = number ^ (1 << index)
            partner = 2 * other if other < folded else other + folded
            how = BlockUse.LEFT if other < number else BlockUse.RIGHT
            middle[index] = ScheduleRound((SendBlock(partner, _WHOLE),), (Receive(partner, _WHOLE, how),))
    return Schedule(1, tuple(round_ for round_ in (first, *middle, last) if round_ is not None))
