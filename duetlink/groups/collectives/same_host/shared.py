"""Operations of members on one host, in memory that all of them map: no socket carries an array.

Theory. A chunk of the array takes three steps: each member copies its data into its own memory; each reduces
its n-th of the chunk from the memory of all, in the order of the ranks; each copies the result from the
memory of all. Between the steps all wait for each other, twice. Of a small array each member reduces
everything by itself, which saves one wait. All have the same bits, since the order is the same everywhere.

An operation is a generator that works, and yields a condition that every other member's memory has to meet
before it goes on. Its driver polls the others' counters. A small operation is driven on the loop, which
serves other tasks in between; a large one by a thread, which can pause for less than the millisecond that a
loop's timers have.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np

from duetlink.base.runtime.lent_loop import is_lent_here
from duetlink.base.runtime.own_threads import OwnThreads
from duetlink.groups.collectives.execution.elements import Array, Combine
from duetlink.groups.collectives.execution.engine import WAIT_S, Engine
from duetlink.groups.collectives.execution.layout import Blocks
from duetlink.groups.collectives.execution.spare_memory import Backup
from duetlink.groups.collectives.execution.work import RunShared, Work
from duetlink.groups.collectives.same_host.host_memory import DATA_BYTES, Memory

Ready = Callable[[Memory], bool]
SharedRun = Iterator[Ready]

# A chunk up to this size is reduced by every member: n times the work, but one wait less (some 50 µs).
_SMALL_BYTES = 32 * 1024
# From this size on a thread drives the operation: on the loop it would block other tasks for longer than
# handing it to the thread takes.
_THREAD_BYTES = 128 * 1024
_LENT_THREAD_BYTES = 4 * 1024 * 1024  # the same for the first step on a caller's thread, which waits anyway
# Items are added in blocks of this size, which stay in a core's cache between the additions.
_BLOCK_BYTES = 256 * 1024
_SPIN_S = 50e-6  # the others are seldom later, if every member has a core
_TURNS_S = 0.003  # up to here the loop polls at every turn; afterwards it pauses
_PAUSE_S = 0.002
_THREAD_PAUSES_S = (50e-6, 50e-6, 100e-6, 200e-6, 500e-6)
_ALIGNED_BYTES = 64


class _Differs(Exception):
    """A member called another operation. Ends a run on any thread; never leaves this file."""

    def __init__(self, rank: int, text: str) -> None:
        self.rank = rank
        self.text = text


class SharedOperations:
    """Runs operations of one epoch among members that share memory. Belongs to the loop thread.

    These members are all of the epoch, or those of one host in a sum by two levels.
    """

    def __init__(self, engine: Engine, memories: Mapping[int, Memory]) -> None:
        """`memories` are those of the members of this host by rank, with this one, in equal order at all."""
        self._engine = engine
        self._mine = memories[engine.rank]
        self._all = list(memories.values())
        self._others = [(rank, memory) for rank, memory in memories.items() if rank != engine.rank]
        self.place = list(memories).index(engine.rank)  # in the order of `memories`
        self._chunk = 0  # the number of chunks of this epoch so far
        self._thread = OwnThreads(1, "duetlink-group")

    def close(self) -> None:
        """Unmap everything. No operation may run any more. Safe to call twice."""
        self._thread.shutdown()
        for memory in self._all:
            memory.close()

    def runner(self, kind: str, root: int | None) -> RunShared:
        """Return the function that runs an operation of that kind; `root` is a place in `memories`."""
        runs: dict[str, Callable[[Work, Backup | None], SharedRun]] = {
            "all_reduce": lambda work, backup: self._reduce(work, root, backup),
            "reduce": lambda work, backup: self._reduce(work, root, backup),
            "broadcast": lambda work, backup: self._broadcast(work, root or 0, backup),
            "all_gather": lambda work, _: self._gather(work, root),
            "gather": lambda work, _: self._gather(work, root),
            "scatter": lambda work, _: self._scatter(work, root or 0),
            "reduce_scatter": lambda work, _: self._reduce_scatter(work),
            "barrier": lambda work, _: self._meet(work, []),
        }
        return lambda work, backup: self._drive(work, runs[kind](work, backup))

    # -- drivers -------------------------------------------------------------------------------------------

    async def _drive(self, work: Work, run: SharedRun) -> None:
        try:
            if work.taken.nbytes < (_LENT_THREAD_BYTES if is_lent_here() else _THREAD_BYTES):
                for ready in run:
                    await self._wait(ready)
            else:
                await self._drive_in_thread(run)
        except _Differs as found:
            self._engine.differ(found.rank, found.text, work.operation)

    async def _wait(self, ready: Ready) -> None:
        """Wait until the memory of all others meets the condition."""
        late = self._late(ready, self._others)
        began_s = time.monotonic()
        spin_s = _TURNS_S if is_lent_here() else _SPIN_S  # a change to the loop's thread costs more
        awaited: list[int] = []
        announced = False
        try:
            while late:
                os.sched_yield()
                waited_s = time.monotonic() - began_s
                if waited_s > spin_s:
                    awaited = self._note_waiting(awaited, late)
                    await asyncio.sleep(0 if waited_s < _TURNS_S else _PAUSE_S)
                late = self._late(ready, late)
                if waited_s > WAIT_S and not announced:
                    announced = True
                    self._engine.announce()
        finally:
            self._note_waiting(awaited, [])

    async def _drive_in_thread(self, run: SharedRun) -> None:
        loop = asyncio.get_running_loop()
        stop = threading.Event()
        future = loop.run_in_executor(self._thread, self._run_blocking, run, stop, loop)
        try:
            await asyncio.shield(future)
        except asyncio.CancelledError:
            stop.set()
            while not future.done():  # the thread writes the caller's array until then
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait([future])
            if not future.cancelled():
                future.exception()  # marks its exception as retrieved
            raise

    def _run_blocking(self, run: SharedRun, stop: threading.Event, loop: asyncio.AbstractEventLoop) -> None:
        for ready in run:
            late = self._late(ready, self._others)
            began_s = time.monotonic()
            pauses = iter(_THREAD_PAUSES_S)
            awaited: list[int] = []
            announced = False
            while late and not stop.is_set():
                waited_s = time.monotonic() - began_s
                if waited_s < _SPIN_S:
                    os.sched_yield()
                else:
                    awaited = self._note_waiting(awaited, late)
                    time.sleep(next(pauses, _THREAD_PAUSES_S[-1]))
                late = self._late(ready, late)
                if waited_s > WAIT_S and not announced:
                    announced = True
                    loop.call_soon_threadsafe(self._engine.announce)
            self._note_waiting(awaited, [])
            if stop.is_set():
                return

    def _late(self, ready: Ready, others: list[tuple[int, Memory]]) -> list[tuple[int, Memory]]:
        return [(rank, memory) for rank, memory in others if not ready(memory)]

    def _note_waiting(self, before: list[int], late: list[tuple[int, Memory]]) -> list[int]:
        """Record which ranks are waited for from now on, and return them."""
        ranks = [rank for rank, _ in late]
        self._engine.waiting.follow(before, ranks)
        return ranks

    # -- the operations ------------------------------------------------------------------------------------

    def _meet(self, work: Work, given: Sequence[tuple[int, Array]]) -> SharedRun:
        """Write this member's data for the next chunk, and wait for the data of all."""
        number = self._chunk
        data = self._mine.data(number)
        for at, array in given:
            data[at : at + array.nbytes].view(array.dtype)[...] = array
        operation = work.operation
        self._mine.write_call(number, self._engine.completed, operation.digest, operation.text)
        self._chunk += 1
        self._mine.arrive(number)
        yield lambda memory: memory.has_arrived(number)
        for rank, memory in self._others:
            sequence, digest, text = memory.call(number)
            if (sequence, digest) != (self._engine.completed, operation.digest):
                raise _Differs(rank, text)

    def _data_of_all(self, at: int = 0) -> list[Array]:
        """Return the data of all members for the current chunk, by rank."""
        return [memory.data(self._chunk - 1)[at:] for memory in self._all]

    def _reduce(self, work: Work, root: int | None, backup: Backup | None) -> SharedRun:
        assert work.combine is not None
        array = work.taken
        keeps = root in (None, self.place)
        items = DATA_BYTES // array.itemsize
        for start in range(0, max(len(array), 1), items):
            chunk = array[start : start + items]
            if backup is not None:  # before it is copied again: then its items are in the cache
                backup.keep(start + len(chunk))
            yield from self._meet(work, [(0, work.given[start : start + items])])
            if chunk.nbytes > _SMALL_BYTES:
                yield from self._reduce_shares(work.combine, chunk, keeps)
            elif keeps:
                _combine(work.combine, self._data_of_all(), chunk)
            self._engine.done_bytes += chunk.nbytes

    def _reduce_shares(self, combine: Combine, chunk: Array, keeps: bool) -> SharedRun:
        number, size, rank, step = self._chunk - 1, len(self._all), self.place, chunk.itemsize
        cuts = [len(chunk) * index // size for index in range(size + 1)]
        start, stop = cuts[rank] * step, cuts[rank + 1] * step
        # no other member reads this share of this member's data
        share = self._mine.data(number)[start:stop].view(chunk.dtype)
        _combine(combine, self._data_of_all(start), share)
        self._mine.finish(number)
        yield lambda memory: memory.has_finished(number)
        if keeps:
            for data, first, last in zip(self._data_of_all(), cuts, cuts[1:], strict=False):
                chunk[first:last] = data[first * step : last * step].view(chunk.dtype)

    def _broadcast(self, work: Work, root: int, backup: Backup | None) -> SharedRun:
        array = work.taken
        items = DATA_BYTES // array.itemsize
        here = self.place == root
        for start in range(0, max(len(array), 1), items):
            chunk = array[start : start + items]
            yield from self._meet(work, [(0, chunk)] if here else [])
            if backup is not None:
                backup.keep(start + len(chunk))
            if not here:
                _read(self._data_of_all()[root], chunk)
            self._engine.done_bytes += chunk.nbytes

    def _gather(self, work: Work, root: int | None) -> SharedRun:
        """Bring the blocks of all members to all or to the root; each member writes its own block."""
        array, rank = work.taken, self.place
        for pieces in self._columns(work, DATA_BYTES // array.itemsize):
            start, stop = pieces[rank]
            yield from self._meet(work, [(0, array[start:stop])])
            if root in (None, rank):
                for of, (start, stop) in enumerate(pieces):
                    if of != rank:
                        _read(self._data_of_all()[of], array[start:stop])

    def _scatter(self, work: Work, root: int) -> SharedRun:
        array, rank = work.taken, self.place
        slot = self._slot_bytes()
        for pieces in self._columns(work, slot // array.itemsize):
            blocks = [(slot * to, array[start:stop]) for to, (start, stop) in enumerate(pieces)]
            yield from self._meet(work, blocks if rank == root else [])
            start, stop = pieces[rank]
            if rank != root:
                _read(self._data_of_all(slot * rank)[root], array[start:stop])

    def _reduce_scatter(self, work: Work) -> SharedRun:
        assert work.combine is not None
        array, rank = work.taken, self.place
        slot = self._slot_bytes()
        for pieces in self._columns(work, slot // array.itemsize):
            blocks = [(slot * to, array[start:stop]) for to, (start, stop) in enumerate(pieces)]
            yield from self._meet(work, blocks)
            start, stop = pieces[rank]
            _combine(work.combine, self._data_of_all(slot * rank), array[start:stop])

    def _columns(self, work: Work, items: int) -> Iterator[list[tuple[int, int]]]:
        """Yield one chunk after the other; a chunk is done when the next one is asked for."""
        for pieces in _columns(work, items):
            yield pieces
            self._engine.done_bytes += sum(stop - start for start, stop in pieces) * work.taken.itemsize

    def _slot_bytes(self) -> int:
        """The size of each member's slot where one member's data holds the blocks of all."""
        return DATA_BYTES // len(self._all) // _ALIGNED_BYTES * _ALIGNED_BYTES


def _columns(work: Work, items: int) -> list[list[tuple[int, int]]]:
    """Return, for each chunk, the range of items that it takes of every member's block."""
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


def _read(data: Array, out: Array) -> None:
    out[...] = data[: out.nbytes].view(out.dtype)


def _combine(combine: Combine, sources: Sequence[Array], out: Array) -> None:
    """Combine the beginnings of all sources, in their order, into `out`, which may lie in one of them."""
    items = _BLOCK_BYTES // out.itemsize
    scratch = np.empty(min(items, len(out)), out.dtype)
    for start in range(0, len(out), items):
        block = out[start : start + items]
        first, *rest = (data[start * out.itemsize :][: block.nbytes].view(out.dtype) for data in sources)
        total = scratch[: len(block)]
        for part in rest[:-1]:
            combine(first, part, total)
            first = total
        combine(first, rest[-1], block)
