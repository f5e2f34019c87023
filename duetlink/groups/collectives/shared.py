"""Operations of members on one host, in memory that all of them map: no socket carries an array.

Theory. A chunk of the array goes through three steps: each copies its part into its own memory; each reduces
its n-th of the chunk from the memory of all, in the order of the ranks; each copies the result from the
memory of all. Two waits for each other lie between. Of a small array each reduces all of it by itself, which
spares one wait. All see the same bits, since the order is the same everywhere.

Who waits looks at the others' words in memory: for a moment without a pause, since on one host the others
are seldom late, and then from time to time, so that the loop goes on.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Sequence

import numpy as np

from duetlink.groups.collectives.elements import Array, Combine
from duetlink.groups.collectives.engine import WAIT_S, Engine, Work, off_loop
from duetlink.groups.collectives.host_memory import ROOM_BYTES, Memory
from duetlink.groups.collectives.layout import Blocks

# A chunk up to this size is reduced by everybody: n times the work, but one wait less (some 50 µs).
_SMALL_BYTES = 32 * 1024
_SPIN_S = 100e-6  # about the time that another process needs to be woken
_PAUSES_S = (0.0, 0.0, 0.0001, 0.0002, 0.0005, 0.001, 0.002)
_ALIGNED_BYTES = 64


class SharedOperations:
    """Walks the operations of one epoch through shared memory. Belongs to the loop thread."""

    def __init__(self, engine: Engine, mine: Memory, others: Sequence[Memory | None]) -> None:
        self._engine = engine
        self._mine = mine
        self._all = [memory if memory is not None else mine for memory in others]
        self._others = [(rank, memory) for rank, memory in enumerate(others) if memory is not None]
        self._chunk = 0  # how many this epoch has had

    def close(self) -> None:
        """Unmap everything. Safe to call twice."""
        for memory in self._all:
            memory.close()

    async def reduce(self, work: Work, root: int | None) -> None:
        """All-reduce, or reduce to `root`."""
        assert work.combine is not None
        array = work.taken
        items = ROOM_BYTES // array.itemsize
        for start in range(0, max(len(array), 1), items):
            chunk = array[start : start + items]
            out = chunk if root in (None, self._engine.rank) else None
            await self._reduce_chunk(work, work.combine, chunk, out)

    async def barrier(self, work: Work) -> None:
        await self._meet(work, [])

    async def broadcast(self, work: Work, root: int) -> None:
        array = work.taken
        items = ROOM_BYTES // array.itemsize
        here = self._engine.rank == root
        for start in range(0, max(len(array), 1), items):
            chunk = array[start : start + items]
            await self._meet(work, [(0, chunk)] if here else [])
            if not here:
                await self._copy(chunk, self._all[root], 0)

    async def gather(self, work: Work, root: int | None) -> None:
        """All-gather, or gather to `root`: each one's block is its own room."""
        array, rank = work.taken, self._engine.rank
        for pieces in _columns(work, ROOM_BYTES // array.itemsize):
            start, stop = pieces[rank]
            await self._meet(work, [(0, array[start:stop])])
            if root in (None, rank):
                for of, (start, stop) in enumerate(pieces):
                    if of != rank:
                        await self._copy(array[start:stop], self._all[of], 0)

    async def scatter(self, work: Work, root: int) -> None:
        array, rank = work.taken, self._engine.rank
        slot = self._slot_bytes()
        for pieces in _columns(work, slot // array.itemsize):
            blocks = [(slot * to, array[start:stop]) for to, (start, stop) in enumerate(pieces)]
            await self._meet(work, blocks if rank == root else [])
            start, stop = pieces[rank]
            if rank != root:
                await self._copy(array[start:stop], self._all[root], slot * rank)

    async def reduce_scatter(self, work: Work) -> None:
        assert work.combine is not None
        array, rank = work.taken, self._engine.rank
        slot = self._slot_bytes()
        for pieces in _columns(work, slot // array.itemsize):
            await self._meet(
                work, [(slot * to, array[start:stop]) for to, (start, stop) in enumerate(pieces)]
            )
            start, stop = pieces[rank]
            rooms = [memory.room(self._chunk - 1)[slot * rank :] for memory in self._all]
            size_bytes = (stop - start) * array.itemsize
            await off_loop(size_bytes, _reduce, work.combine, rooms, array[start:stop])

    def _slot_bytes(self) -> int:
        """The room that each member's block has of a room, where one holds the blocks of all."""
        return ROOM_BYTES // self._engine.size // _ALIGNED_BYTES * _ALIGNED_BYTES

    async def _reduce_chunk(self, work: Work, combine: Combine, given: Array, out: Array | None) -> None:
        await self._meet(work, [(0, given)])
        number = self._chunk - 1
        rooms = [memory.room(number) for memory in self._all]
        if given.nbytes <= _SMALL_BYTES:
            if out is not None:
                _reduce(combine, rooms, out)
            return
        size, rank, step = self._engine.size, self._engine.rank, given.itemsize
        cuts = [len(given) * index // size for index in range(size + 1)]
        start, stop = cuts[rank], cuts[rank + 1]
        share = rooms[rank][start * step : stop * step].view(given.dtype)
        shares = [room[start * step :] for room in rooms]
        await off_loop(given.nbytes, _reduce, combine, shares, share)
        self._mine.finish(number)
        await self._wait(lambda memory: memory.has_finished(number))
        if out is not None:
            await off_loop(out.nbytes, _collect, rooms, cuts, out)

    async def _meet(self, work: Work, given: Sequence[tuple[int, Array]]) -> None:
        """Write one's own data for the next chunk, and wait for that of all."""
        number = self._chunk
        room = self._mine.room(number)
        for at, array in given:
            await off_loop(array.nbytes, _write, room, at, array)
        operation = work.operation
        self._mine.write_call(number, self._engine.completed, operation.digest, operation.text)
        self._chunk += 1
        self._mine.arrive(number)
        await self._wait(lambda memory: memory.has_arrived(number))
        for rank, memory in self._others:
            sequence, digest, text = memory.call(number)
            if (sequence, digest) != (self._engine.completed, operation.digest):
                self._engine.differ(rank, text)

    async def _copy(self, out: Array, of: Memory, at: int) -> None:
        room = of.room(self._chunk - 1)
        await off_loop(out.nbytes, _read, room, at, out)

    async def _wait(self, ready: Callable[[Memory], bool]) -> None:
        """Until that is so of all others."""
        late = [(rank, memory) for rank, memory in self._others if not ready(memory)]
        began_s = time.monotonic()
        while late and time.monotonic() - began_s < _SPIN_S:
            os.sched_yield()
            late = [(rank, memory) for rank, memory in late if not ready(memory)]
        pauses = iter(_PAUSES_S)
        told = False
        while late:
            await asyncio.sleep(next(pauses, _PAUSES_S[-1]))
            late = [(rank, memory) for rank, memory in late if not ready(memory)]
            if not told and time.monotonic() - began_s > WAIT_S:
                told = True
                for rank, _ in late:
                    self._engine.announce(rank)


def _columns(work: Work, items: int) -> list[list[tuple[int, int]]]:
    """For each chunk what it takes of every member's block: items from, to."""
    layout = work.taken_layout
    assert isinstance(layout, Blocks)
    columns = Blocks(layout.bounds, items)
    found = []
    for part in range(columns.parts):
        column = []
        for start, stop in zip(layout.bounds, layout.bounds[1:], strict=False):
            first = min(start + part * items, stop)
            column.append((first, min(first + items, stop)))
        found.append(column)
    return found


def _write(room: Array, at: int, array: Array) -> None:
    room[at : at + array.nbytes].view(array.dtype)[...] = array


def _read(room: Array, at: int, out: Array) -> None:
    out[...] = room[at : at + out.nbytes].view(out.dtype)


def _reduce(combine: Combine, rooms: Sequence[Array], out: Array) -> None:
    """Combine what lies at the beginning of every room, in their order. `out` may lie in one of them."""
    parts = [room[: out.nbytes].view(out.dtype) for room in rooms]
    total = np.empty_like(out) if len(parts) > 2 else out
    combine(parts[0], parts[1], total)
    for part in parts[2:-1]:
        combine(total, part, total)
    if len(parts) > 2:
        combine(total, parts[-1], out)


def _collect(rooms: Sequence[Array], cuts: Sequence[int], out: Array) -> None:
    """Each member's share of the result, from its room."""
    step = out.itemsize
    for room, start, stop in zip(rooms, cuts, cuts[1:], strict=False):
        out[start:stop] = room[start * step : stop * step].view(out.dtype)
