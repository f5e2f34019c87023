"""When the answers of policies leave that wait for a run: in the order of the asks, on a grid of times.

How long a run takes is a fact of the data. Whoever waits for an answer that no person gives learns it, and
of what runs beside it as well. With a grid of `g` seconds an answer leaves 1, 2, 4, 8, … times `g` after its
run was asked for: of a run that may take 600 s, a grid of 1 s tells one of eleven times. What is done after
that, until the answer is sent, is the same for all outcomes but for the size of what leaves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Turn:
    """The place of one run in the order, from `begin` to `end`."""

    begun_s: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Pace:
    """Of the runs of one peer. Belongs to the loop thread."""

    def __init__(
        self,
        grid_s: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """No grid where `grid_s` is 0."""
        self._grid_s = grid_s
        self._now = now
        self._sleep = sleep
        self._turns: list[Turn] = []

    def begin(self) -> Turn:
        """One more run, behind all others."""
        self._turns.append(Turn(self._now()))
        return self._turns[-1]

    async def wait(self, turn: Turn) -> None:
        """Return when what this run has made may be answered."""
        for earlier in self._turns[: self._turns.index(turn)]:
            await earlier.ended.wait()
        if not self._grid_s:
            return
        due_s = turn.begun_s + self._grid_s
        while due_s < self._now():
            due_s += due_s - turn.begun_s
        while (left_s := due_s - self._now()) > 0:
            await self._sleep(left_s)

    def end(self, turn: Turn) -> None:
        """It has been answered, or will not be."""
        self._turns.remove(turn)
        turn.ended.set()
