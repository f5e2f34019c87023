"""The schedule of one member in a collective operation: values only, no I/O.

Theory. An array is cut into blocks. In each round a member first sends blocks, as they were before the round.
Then it receives blocks, in the order given, and either replaces its own or combines them with its own. All
members have equally many rounds; a round in which a member has nothing to do is empty. The schedules of all
members are the whole algorithm. So a test can check it by executing them, and its time can be predicted
without running it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum


class BlockUse(Enum):
    """The use of a received block: it replaces the member's own, or is combined with it."""

    REPLACE = "replace"
    LEFT = "left"  # received ∘ mine: the sender's part comes before mine in the fixed order of additions
    RIGHT = "right"  # mine ∘ received


@dataclass(frozen=True, slots=True)
class SendBlock:
    """A step: send these blocks to that member."""

    to: int
    blocks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Receive:
    """A step: receive these blocks from that member."""

    of: int
    blocks: tuple[int, ...]
    how: BlockUse = BlockUse.REPLACE


@dataclass(frozen=True, slots=True)
class ScheduleRound:
    """One round. The sends come first: they carry the blocks as they were before the round."""

    sends: tuple[SendBlock, ...] = ()
    receives: tuple[Receive, ...] = ()


@dataclass(frozen=True, slots=True)
class Schedule:
    """The rounds of one member, and the number of blocks that the array is cut into."""

    blocks: int
    rounds: tuple[ScheduleRound, ...]

    def then(self, later: Schedule) -> Schedule:
        """Return a schedule with the rounds of `later` after these."""
        assert self.blocks == later.blocks
        return Schedule(self.blocks, self.rounds + later.rounds)


def modulo(first: int, count: int, size: int) -> tuple[int, ...]:
    """Return `count` block numbers from `first` on, modulo `size`."""
    return tuple((first + index) % size for index in range(count))


def relabel(schedule: Schedule, order: Sequence[int]) -> Schedule:
    """Turn a schedule for positions into one for members: position p is taken by rank `order[p]`.

    If every position has its own block, the blocks are renumbered: each member has the block of its place
    among the ranks in ascending order.
    """
    own = schedule.blocks == len(order)
    places = {rank: place for place, rank in enumerate(sorted(order))}

    def renamed(blocks: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(places[order[block]] for block in blocks) if own else blocks

    rounds = (
        ScheduleRound(
            tuple(SendBlock(order[step.to], renamed(step.blocks)) for step in round_.sends),
            tuple(Receive(order[step.of], renamed(step.blocks), step.how) for step in round_.receives),
        )
        for round_ in schedule.rounds
    )
    return Schedule(schedule.blocks, tuple(rounds))
