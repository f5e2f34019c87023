"""Executes the schedules of all members in one place, round by round: what algorithms are checked with."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TypeVar

from duetlink.groups.collectives.execution.layout import Layout
from duetlink.groups.collectives.schedules.schedule import BlockUse, Schedule

T = TypeVar("T")


def execute(
    schedules: Sequence[Schedule],
    given: Sequence[list[T]],
    taken: Sequence[list[T]],
    layouts: Sequence[tuple[Layout, Layout]],
    combine: Callable[[T, T], T],
) -> None:
    """Change `taken` in place as the members' schedules say. In most operations it is `given` itself.

    Every frame that is sent has to be received in the same round, in the order in which it was sent.
    """
    for part in range(max(layout.parts for both in layouts for layout in both)):
        for rounds in zip(*(schedule.rounds for schedule in schedules), strict=True):
            wire: dict[tuple[int, int], list[list[T]]] = {}
            for rank, round_ in enumerate(rounds):
                for send in round_.sends:
                    assert send.to != rank
                    for start, stop in layouts[rank][0].pieces(part, send.blocks):
                        wire.setdefault((rank, send.to), []).append(given[rank][start:stop])
            for rank, round_ in enumerate(rounds):
                for receive in round_.receives:
                    for start, stop in layouts[rank][1].pieces(part, receive.blocks):
                        body = wire[receive.of, rank].pop(0)
                        mine = taken[rank][start:stop]
                        assert len(body) == len(mine)
                        if receive.how is BlockUse.LEFT:
                            body = [combine(left, right) for left, right in zip(body, mine, strict=True)]
                        elif receive.how is BlockUse.RIGHT:
                            body = [combine(left, right) for left, right in zip(mine, body, strict=True)]
                        taken[rank][start:stop] = body
            assert not any(wire.values()), "frames that nobody receives"
