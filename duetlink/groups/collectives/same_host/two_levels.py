"""Sums by two levels: within each host in shared memory, then between one member of each host by messages.

Theory. The first member of each host leads it. The array goes in pieces through three steps: the members of a
host reduce a piece in memory, and the leader takes the result (up); the leaders run it through a schedule,
among themselves (across); the leader writes that result into its memory, and the others read it (down). While
one piece is across, the next one goes up and the one before goes down. If the leaders run a ring, the line of
each of h hosts carries 2 (h - 1) / h copies of the array each way, however many members a host has. All
members have the leaders' bits, which depend on who shares a host.

Sources: Sergeev and Del Balso, arXiv 1802.05799 (Horovod), for hierarchical sums; Thakur, Rabenseifner and
Gropp 2005 for what the leaders do.
"""

from __future__ import annotations

import asyncio
import contextlib
from dataclasses import dataclass, replace

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.groups.collectives.execution.layout import Layout, Whole
from duetlink.groups.collectives.execution.schedule_run import ScheduleRun
from duetlink.groups.collectives.execution.spare_memory import Backup
from duetlink.groups.collectives.execution.work import Work
from duetlink.groups.collectives.same_host.host_memory import DATA_BYTES
from duetlink.groups.collectives.same_host.shared import SharedOperations

_LEADER = 0  # the leader's place among the memories of its host


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some items of the array, and the parts of the leaders' schedule that carry them."""

    start: int
    stop: int
    parts: range


async def run_two_levels(
    engine: Engine, shared: SharedOperations | None, work: Work, backup: Backup | None
) -> None:
    """Run an all-reduce by two levels; `shared` is None at a member that is the only one of its host.

    The schedule of `work` is that of the leaders, which only they follow.
    """
    await _TwoLevelRun(engine, shared, work, backup).run()


class _TwoLevelRun:
    """The run of one operation at one member. Belongs to the loop thread."""

    def __init__(
        self, engine: Engine, shared: SharedOperations | None, work: Work, backup: Backup | None
    ) -> None:
        self._engine = engine
        self._work = work
        self._backup = backup
        self._leads = shared is None or shared.place == _LEADER
        self._reduce = shared.runner("reduce", _LEADER) if shared is not None else None
        self._broadcast = shared.runner("broadcast", _LEADER) if shared is not None else None
        self._between = ScheduleRun(engine, replace(work, given=work.taken))
        self._done_bytes = engine.done_bytes
        self._across: list[asyncio.Task[None]] = []  # one for each piece that has gone up, at a leader

    async def run(self) -> None:
        pieces = _pieces(self._work.taken_layout, self._work.taken.itemsize, len(self._work.taken))
        try:
            for index, piece in enumerate(pieces):
                await self._up(piece)
                if self._leads:
                    self._across.append(asyncio.ensure_future(self._between.run_parts(piece.parts)))
                if index > 0:
                    await self._down(index - 1, pieces[index - 1])
            await self._down(len(pieces) - 1, pieces[-1])
        finally:
            for task in self._across:
                task.cancel()
            ended = asyncio.gather(*self._across, return_exceptions=True)
            while not ended.done():  # wait even if cancelled again: they write `taken`
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.shield(ended)

    async def _up(self, piece: _Piece) -> None:
        """Reduce a piece within this host; the leader has the result in `taken`."""
        work = self._of(piece)
        if self._backup is not None:
            await off_loop(work.taken.nbytes, self._backup.keep, piece.stop)
        if self._reduce is not None:
            await self._reduce(work, None)
        elif self._work.given is not self._work.taken:
            await off_loop(work.taken.nbytes, np.copyto, work.taken, work.given)
        self._engine.done_bytes = self._done_bytes  # a piece is done when it has come down

    async def _down(self, index: int, piece: _Piece) -> None:
        """Bring the sum of a piece over all hosts to the members of this one."""
        if self._leads:
            await self._across[index]
        work = self._of(piece)
        if self._broadcast is not None:
            await self._broadcast(work, None)
        self._done_bytes += work.taken.nbytes
        self._engine.done_bytes = self._done_bytes

    def _of(self, piece: _Piece) -> Work:
        given, taken = (array[piece.start : piece.stop] for array in (self._work.given, self._work.taken))
        return replace(self._work, given=given, taken=taken)


def _pieces(layout: Layout, item_bytes: int, items: int) -> list[_Piece]:
    """Cut an array into pieces of whole parts, each about as large as a half of the memory."""
    if not isinstance(layout, Whole):  # a part takes items from all over the array
        return [_Piece(0, items, range(layout.parts))]
    step = max(1, DATA_BYTES // (layout.part_items * item_bytes))
    found = []
    for first in range(0, layout.parts, step):
        last = min(first + step, layout.parts)
        found.append(
            _Piece(first * layout.part_items, min(last * layout.part_items, items), range(first, last))
        )
    return found
