"""The times at which a policy's answer to a run may leave: in the order of the questions, on a grid of times.

How long a run takes is a fact about the data. A peer that waits for a policy's answer could measure it, and
also that of the runs before its own. With a grid of `g` seconds an answer leaves 1, 2, 4, 8, … times `g`
after its run was asked for: for a run that may take 600 s, a grid of 1 s reveals one of eleven times. The
work after that, until the answer is sent, is the same for all outcomes except for the size of what leaves.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Turn:
    """The place of one run in the order, from `Pace.begin` to `Pace.end`."""

    begun_s: float
    ended: asyncio.Event = field(default_factory=asyncio.Event)


class Pace:
    """Delays the answers to the runs of one peer. Used on the loop thread only."""

    def __init__(
        self,
        grid_s: float,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        """Make a pace; `grid_s` 0 means no grid, only the order."""
        self._grid_s = grid_s
        self._now = now
        self._sleep = sleep
        self._turns: list[Turn] = []

    def begin(self) -> Turn:
        """Add a run at the end of the order."""
        self._turns.append(Turn(self._now()))
        return self._turns[-1]

    async def wait(self, turn: Turn) -> None:
        """Return when the result of this run may be answered."""
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
        """Remove a run that has been answered or will not be."""
        self._turns.remove(turn)
        turn.ended.set()
