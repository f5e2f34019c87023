"""Sums of chunks that members add without decoding them: towards one root, who alone decodes.

Theory. A chunk (`data/codecs/aggregate.py`) tells whoever holds two of them how they are added, and nothing
that has to be understood for it. So an array of chunks walks a schedule of "reduce" like any other array, and
what combines two pieces is `SupportsAggregate.add`. With members that give nothing, one of these is the
adder: all send their chunks to it, it sends the sum to the root, who adds its own. So the root receives the
size of one member's chunks, however many members there are. Without such a member the chunks go up a
binomial tree, whose inner members add them.

Members that give nothing know neither the array nor the codec. The root tells all what the next step is, and
how many bytes it has; a member that only adds does as it is told, until the end is told.
"""

from __future__ import annotations

import itertools
import struct
from collections.abc import Iterator, Sequence
from enum import IntEnum

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.aggregate import HEAD_BYTES, Adding, Aggregate, SupportsAggregate, context_of
from duetlink.data.codecs.element import UINT8, Element
from duetlink.errors import LimitExceeded, OperationMismatch, RemoteProtocolError
from duetlink.groups.collectives.execution import layout
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.execution.layout import Whole
from duetlink.groups.collectives.execution.operation import Operation
from duetlink.groups.collectives.execution.work import Work
from duetlink.groups.collectives.schedules import algorithms
from duetlink.groups.collectives.schedules.schedule import (
    BlockUse,
    Receive,
    Schedule,
    ScheduleRound,
    SendBlock,
)
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations

_STEP = struct.Struct("<BQ")
_MOST_ITEM_BYTES = 16


class _Step(IntEnum):
    """What all do next, as the root tells it."""

    END = 0
    UP = 1  # chunks are added on their way to the root
    DOWN = 2  # bytes come from the root to all
    HEADS = 3  # some bytes of everybody go to everybody


def star(rank: int, gives: Sequence[bool], adder: int, root: int) -> Schedule:
    """All that give, but the root, send to the adder; it adds in the order of the ranks and sends the sum to
    the root, who adds its own. Members that neither give nor add do nothing."""
    givers = [giver for giver, has_value in enumerate(gives) if has_value and giver != root]
    first, second = ScheduleRound(), ScheduleRound()
    if rank == adder:
        hows = [BlockUse.REPLACE] + [BlockUse.RIGHT] * len(givers)
        first = ScheduleRound(
            receives=tuple(Receive(of, (0,), how) for of, how in zip(givers, hows, strict=False))
        )
        second = ScheduleRound(sends=(SendBlock(root, (0,)),) if givers else ())
    elif rank == root:
        second = ScheduleRound(receives=(Receive(adder, (0,), BlockUse.RIGHT),) if givers else ())
    elif gives[rank]:
        first = ScheduleRound(sends=(SendBlock(adder, (0,)),))
    return Schedule(1, (first, second))


class Adders:
    """The way of one sum's chunks among the members of a group. Methods belong to the loop thread."""

    def __init__(
        self,
        flat: FlatOperations,
        root: int,
        gives: Sequence[bool],
        manner: CollectiveOptions,
        limit_bytes: int,
        adding: SupportsAggregate | None = None,
    ) -> None:
        """`gives` tells by rank who has a value; the root must. `manner` names the operation for errors.

        A member that only adds takes up to `limit_bytes` of memory for a step.

        Raises:
            OperationMismatch: the root gives nothing.
        """
        if not gives[root]:
            raise OperationMismatch(
                f"{flat.engine.names[root]} is to have the sum, and gives no value: the root of a coded sum "
                "decodes it, so it needs to know its form"
            )
        self.flat = flat
        self.root = root
        self.givers = sum(gives)
        self.array_bytes = 0  # of the array that is summed: the tree's order is that of the dense sum
        self._gives = gives
        self._adder = next((rank for rank, has_value in enumerate(gives) if not has_value), None)
        self._manner = manner
        self._limit_bytes = limit_bytes
        self._adding = Adding() if adding is None else adding
        self._steps = 0

    @property
    def at_root(self) -> bool:
        return self.flat.engine.rank == self.root

    # -- what a member that gives something calls, in the same order at all --------------------------------

    async def total(self, scheme: int, element: Element, items: Array, agreed: bytes) -> Array | None:
        """The sum of all members' items at the root, None at the others.

        `agreed` is what all who give must have agreed on before: two chunks are added if it is the same.
        """
        chunks = await off_loop(items.nbytes, self._chunks, scheme, element, items, agreed)
        await self._begin(_Step.UP, chunks.size)
        await self._up(chunks)
        if not self.at_root:
            return None
        read: Array = await off_loop(items.nbytes, self._read, scheme, element, items.size, agreed, chunks)
        return read

    async def tell(self, data: Array | None, sizes: Sequence[int]) -> Array:
        """The root's bytes at all members; the others give None. There are so many as one of `sizes` says."""
        size_bytes = await self._begin(_Step.DOWN, *(sizes if data is None else [data.size]))
        out = np.empty(size_bytes, np.uint8) if data is None else data
        await self._down(out)
        return out

    async def heads(self, mine: Array) -> list[bytes]:
        """The bytes, equally many, of all members that give something."""
        await self._begin(_Step.HEADS, mine.size)
        found = await self._gathered(mine)
        return [head for head, has_value in zip(found, self._gives, strict=True) if has_value]

    async def end(self) -> None:
        """There is no further step."""
        await self._begin(_Step.END, 0)

    # -- what a member calls that gives nothing ------------------------------------------------------------

    async def help(self) -> None:
        """Do what the root tells, until the end."""
        while True:
            step, size_bytes = await self._told(None)
            if step == _Step.END:
                return
            work = np.zeros(size_bytes, np.uint8)
            if step == _Step.UP:
                await self._up(work)
            elif step == _Step.DOWN:
                await self._down(work)
            else:
                await self._gathered(work)

    # -- steps ---------------------------------------------------------------------------------------------

    async def _begin(self, step: _Step, *sizes: int) -> int:
        """How many bytes the next step has: one of `sizes`, of which the root gives one.

        Raises RemoteProtocolError if the root tells of another step or size.
        """
        told = _STEP.pack(step, sizes[0]) if self.at_root else None
        found, found_bytes = await self._told(told)
        if found != step or found_bytes not in sizes:
            raise RemoteProtocolError(
                f"{self.flat.engine.names[self.root]} told of {found.name} with {found_bytes:,} bytes, where "
                f"{step.name} with {' or '.join(f'{size:,}' for size in sizes)} was to come"
            )
        return found_bytes

    async def _told(self, mine: bytes | None) -> tuple[_Step, int]:
        head = np.zeros(_STEP.size, np.uint8) if mine is None else np.frombuffer(mine, np.uint8)
        self._steps += 1
        await self.flat.broadcast(head, UINT8, self.root, self._called("what is next"), restore=False)
        number, size_bytes = _STEP.unpack(head.tobytes())
        if number not in iter(_Step):
            raise RemoteProtocolError(f"{self.flat.engine.names[self.root]} told of a step {number}")
        if size_bytes > self._limit_bytes:
            raise LimitExceeded(
                f"{self.flat.engine.names[self.root]} announced {size_bytes:,} bytes of chunks; this group "
                f"takes {self._limit_bytes:,} at once"
            )
        return _Step(number), size_bytes

    async def _up(self, chunks: Array) -> None:
        engine = self.flat.engine
        schedule, algorithm, order = self._way()
        whole = Whole(chunks.size, 1, _chunk_bytes())
        called = self._called(f"{chunks.size} bytes of chunks")
        operation = Operation(called.name, called.what, "sum", self.root, algorithm, order, "", called.place)
        work = Work(operation, schedule, chunks, chunks, whole, whole, self._add)
        await engine.perform(work)

    def _way(self) -> tuple[Schedule, str, tuple[int, ...]]:
        rank, size = self.flat.engine.rank, self.flat.engine.size
        if self._adder is not None:
            return star(rank, self._gives, self._adder, self.root), f"by {self._adder}", tuple(range(size))
        order = self.flat.choice.best("reduce", self.array_bytes, self.root, "tree").order
        return algorithms.schedule("reduce", "tree", rank, order, self.root), "tree", order

    def _add(self, left: Array, right: Array, out: Array) -> None:
        """Of one piece, which is one chunk."""
        total = self._adding.add(left.data, right.data)
        if len(total) != out.size:
            raise RemoteProtocolError(f"a sum of chunks has {len(total)} bytes, where {out.size} are to be")
        out[...] = np.frombuffer(total, np.uint8)

    async def _down(self, data: Array) -> None:
        called = self._called(f"{data.size} bytes from the root", codec="zstd")
        await self.flat.broadcast(data, UINT8, self.root, called, restore=False)

    async def _gathered(self, mine: Array) -> list[bytes]:
        size = self.flat.engine.size
        out = np.empty(size * mine.size, np.uint8)
        await self.flat.all_gather(mine, out, UINT8, [mine.size] * size, self._called("heads"))
        return [part.tobytes() for part in out.reshape(size, -1)]

    def _called(self, what: str, codec: str | None = None) -> CollectiveOptions:
        what = f"{self._manner.what}: step {self._steps}, {what}"
        return CollectiveOptions(what, "reduce", self._manner.place, codec=codec)

    # -- chunks --------------------------------------------------------------------------------------------

    def _chunks(self, scheme: int, element: Element, items: Array, agreed: bytes) -> Array:
        """One chunk after the other, at least one, all but the last of one length."""
        step = (_chunk_bytes() - HEAD_BYTES) // element.size_bytes
        contexts = _contexts(scheme, agreed)
        made = bytearray()
        for start in range(0, max(1, items.size), step):
            part = items[start : start + step]
            made += Aggregate(scheme, element, part, next(contexts), room_for=self.givers).to_wire()
        return np.frombuffer(made, np.uint8)

    def _read(self, scheme: int, element: Element, size: int, agreed: bytes, chunks: Array) -> Array:
        """What the chunks have added up to. Raises RemoteProtocolError unless everybody's is in each."""
        total = np.empty(size, element.storage)
        contexts = _contexts(scheme, agreed)
        done = 0
        for start in range(0, chunks.size, _chunk_bytes()):
            piece = chunks[start : start + _chunk_bytes()]
            read = Aggregate.from_wire(piece.data, piece.nbytes)
            if (read.scheme, read.element, read.context) != (scheme, element, next(contexts)):
                raise RemoteProtocolError("a sum of chunks is of something else than was asked for")
            if read.members != self.givers:
                raise RemoteProtocolError(
                    f"a sum of chunks has those of {read.members} members, where {self.givers} gave some"
                )
            total[done : done + read.items.size] = read.items  # as long as this member's own chunk
            done += read.items.size
        return total


def _chunk_bytes() -> int:
    """Of all chunks but the last, whatever their items are: whoever adds them does not know it."""
    return HEAD_BYTES + (layout.FRAME_BYTES - HEAD_BYTES) // _MOST_ITEM_BYTES * _MOST_ITEM_BYTES


def _contexts(scheme: int, agreed: bytes) -> Iterator[bytes]:
    """Those of the chunks of one array, so that no chunk is added to one of another place in it."""
    digest = context_of(bytes([scheme]), agreed)
    return (context_of(digest, index.to_bytes(8, "little")) for index in itertools.count())
