"""Binomial trees: ceil(log2 n) rounds from the root to all, or from all to the root.

Chan, Heimlich, Purkayastha and van de Geijn, "Collective communication: theory, practice, and experience"
(2007), section 4. Members count relative to the root; the subtree of relative rank v over a bit m holds v to
v + m - 1, so that what is gathered for a subtree lies together.
"""

from __future__ import annotations

from duetlink.groups.collectives.schedule import How, Receive, Round, Schedule, Send, modulo


def broadcast(rank: int, size: int, root: int = 0) -> Schedule:
    """From the root to all."""
    rounds = []
    for bit in reversed(_bits(size)):
        child, parent = _kin(rank, size, root, bit)
        rounds.append(
            Round(
                () if child is None else (Send(child, (0,)),),
                () if parent is None else (Receive(parent, (0,)),),
            )
        )
    return Schedule(1, tuple(rounds))


def reduce(rank: int, size: int, root: int = 0) -> Schedule:
    """From all to the root; a subtree's parts are added in the order of its members, the parent's first."""
    rounds = []
    for bit in _bits(size):
        child, parent = _kin(rank, size, root, bit)
        rounds.append(
            Round(
                () if parent is None else (Send(parent, (0,)),),
                () if child is None else (Receive(child, (0,), How.RIGHT),),
            )
        )
    return Schedule(1, tuple(rounds))


def gather(rank: int, size: int, root: int = 0) -> Schedule:
    """Every member sends its parent what it has of its subtree."""
    rounds = []
    for bit in _bits(size):
        child, parent = _kin(rank, size, root, bit)
        rounds.append(
            Round(
                () if parent is None else (Send(parent, _subtree(rank, size, root, bit)),),
                () if child is None else (Receive(child, _subtree(child, size, root, bit)),),
            )
        )
    return Schedule(size, tuple(rounds))


def scatter(rank: int, size: int, root: int = 0) -> Schedule:
    """Every member receives the blocks of its subtree from its parent."""
    rounds = []
    for bit in reversed(_bits(size)):
        child, parent = _kin(rank, size, root, bit)
        rounds.append(
            Round(
                () if child is None else (Send(child, _subtree(child, size, root, bit)),),
                () if parent is None else (Receive(parent, _subtree(rank, size, root, bit)),),
            )
        )
    return Schedule(size, tuple(rounds))


def _bits(size: int) -> list[int]:
    return [1 << index for index in range((size - 1).bit_length())]


def _kin(rank: int, size: int, root: int, bit: int) -> tuple[int | None, int | None]:
    """The child and the parent that a member has across this bit."""
    place = (rank - root) % size
    if place % (2 * bit) == bit:
        return None, (place - bit + root) % size
    if place % (2 * bit) == 0 and place + bit < size:
        return (place + bit + root) % size, None
    return None, None


def _subtree(rank: int, size: int, root: int, bit: int) -> tuple[int, ...]:
    """The blocks of a member and of those below it, over the bits lower than this."""
    place = (rank - root) % size
    return modulo(rank, min(bit, size - place), size)
