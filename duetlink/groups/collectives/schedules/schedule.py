"""What one member does in a collective operation, as rounds of steps: values only, no I/O.

Theory. An array is cut into blocks. In each round a member first sends blocks as they are, then receives
blocks, in the order given, and either takes them in place of its own or combines them with its own. All
members have equally many rounds; a round in which a member has nothing to do is empty. What an algorithm is,
is fully said by its schedules, so that it can be checked by executing those of all members in a test, and its
time can be predicted without running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class BlockUse(Enum):
    """What becomes of a block that has been received."""

    REPLACE = "replace"
    LEFT = "left"  # received ∘ mine: the sender's part comes before mine in the fixed order of additions
    RIGHT = "right"  # mine ∘ received


@dataclass(frozen=True, slots=True)
class SendBlock:
    """Send these blocks to that member."""

    to: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Receive:
    """Receive these blocks from that member."""

    of: int
    blocks: tuple[int, ...]
    how: BlockUse = BlockUse.REPLACE


@dataclass(frozen=True, slots=True)
class ScheduleRound:
    """The sends come first: they carry what the blocks were before the round."""

    sends: tuple[SendBlock, ...] = ()
    receives: tuple[Receive, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rounds of one member, and into how many blocks the array is cut."""

    blocks: int
    rounds: tuple[ScheduleRound, ...]

    def then(self, later: Schedule) -> Schedule:
        """One after the other."""
        assert self.blocks == later.blocks
        return Schedule(self.blocks, self.rounds + later.rounds)


def modulo(first: int, count: int, size: int) -> tuple[int, ...]:
    """`count` block numbers from `first` on, around the circle of `size`."""
    return tuple((first + index) % size for index in range(count))


def relabel(schedule: Schedule, order: Sequence[int]) -> Schedule:
    """A schedule made for positions, for members: position p is taken by rank `order[p]`.

    Where every position has a block of its own, the blocks are renamed with it.
    """
    own = schedule.blocks == len(order)

    def renamed(blocks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(order[block] for block in blocks) if own else blocks

    rounds = (
        ScheduleRound(
            tuple(SendBlock(order[step.to], renamed(step.blocks)) for step in round_.sends),
            tuple(Receive(order[step.of], renamed(step.blocks), step.how) for step in round_.receives),
        )
        for round_ in schedule.rounds
    )
    return Schedule(schedule.blocks, tuple(rounds))
