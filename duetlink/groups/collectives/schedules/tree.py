"""Binomial trees: ceil(log2 n) rounds from the root to all, or from all to the root.

Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience"
(2007), section 4. Ranks count relative to the root. The subtree of relative rank v at bit m holds v to v + m
- 1, so that the blocks of a subtree are adjacent.
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


def broadcast(rank: int, size: int, root: int = 0) -> Schedule:
    """Send the whole array from the root to all."""
    return _over(rank, size, root, down=True, whole=True)


def reduce(rank: int, size: int, root: int = 0) -> Schedule:
    """Add from all to the root; a subtree's parts are added in the order of its members, the
    parent's first.
    """
    return _over(rank, size, root, down=False, whole=True, how=BlockUse.RIGHT)


def gather(rank: int, size: int, root: int = 0) -> Schedule:
    """Send from every member to its parent the blocks of its subtree."""
    return _over(rank, size, root, down=False, whole=False)


def scatter(rank: int, size: int, root: int = 0) -> Schedule:
    """Send from every parent to its child the blocks of the child's subtree."""
    return _over(rank, size, root, down=True, whole=False)


def _over(
    rank: int, size: int, root: int, *, down: bool, whole: bool, how: BlockUse = BlockUse.REPLACE
) -> Schedule:
    """Make one round for each bit: parent to child (`down`) or child to parent, with the whole array
    (`whole`) or the blocks of the child's subtree.
    """
    bits = [1 << index for index in range((size - 1).bit_length())]
    rounds = []
    for bit in reversed(bits) if down else bits:
        child, parent = _kin(rank, size, root, bit)
        to, of = (child, parent) if down else (parent, child)
        blocks = (0,) if whole else _subtree(rank if child is None else child, size, root, bit)
        rounds.append(
            ScheduleRound(
                () if to is None else (SendBlock(to, blocks),),
                () if of is None else (Receive(of, blocks, how),),
            )
        )
    return Schedule(1 if whole else size, tuple(rounds))


def _kin(rank: int, size: int, root: int, bit: int) -> tuple[int | None, int | None]:
    """Return the child and the parent that a member has at this bit."""
    place = (rank - root) % size
    if place % (2 * bit) == bit:
        return None, (place - bit + root) % size
    if place % (2 * bit) == 0 and place + bit < size:
        return (place + bit + root) % size, None
    return None, None


def _subtree(rank: int, size: int, root: int, bit: int) -> tuple[int, ...]:
    """Return the blocks of a member and of its descendants at the bits lower than this."""
    place = (rank - root) % size
    return modulo(rank, min(bit, size - place), size)
