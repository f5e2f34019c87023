"""Sums of chunks that members add without decoding them, towards one root, which alone decodes.

Theory. Two chunks (`data/codecs/aggregate.py`) can be added by a member that does not understand their items.
So an array of chunks runs through a schedule of "reduce" like any other array, and `SupportsAggregate.add`
combines two pieces. If some members give no value, the first of them is the adder: all others send it their
chunks, it sends the sum to the root, and the root adds its own. So the root receives the size of one member's
chunks, however many members there are. Without such a member the chunks go up a binomial tree, whose inner
members add them.

Members that give no value know neither the array nor the codec. Before each step the root sends all the kind
of the step and its size in bytes; a member that only adds does each step until it receives END.
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


class _RootCommand(IntEnum):
    """The next step, which the root sends to all."""

    END = 0
    UP = 1  # chunks are sent to the root, and added on the way
    DOWN = 2  # the root sends bytes to all
    HEADS = 3  # every member sends some bytes to every other


def star(rank: int, gives: Sequence[bool], adder: int, root: int) -> Schedule:
    """Make the schedule of a sum with an adder.

    All that give a value, except the root, send it to the adder; it adds in the order of the ranks and sends
    the sum to the root, which adds its own. Members that neither give nor add do nothing.
    """
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
    """Moves one sum's chunks among the members of a group. Methods belong to the loop thread."""

    def __init__(
        self,
        flat: FlatOperations,
        root: int,
        gives: Sequence[bool],
        options: CollectiveOptions,
        limit_bytes: int,
        adding: SupportsAggregate | None = None,
    ) -> None:
        """Set up a sum; all members call this with equal arguments, except `adding`.

        Args:
            flat: the operations of this epoch.
            root: the rank that receives the sum; it must give a value.
            gives: by rank, whether the member gives a value.
            manner: names the operation for errors.
            limit_bytes: the most memory that a member that only adds takes for a step.
            adding: adds two chunks; by default those of this process.

        Raises:
            OperationMismatch: the root gives no value.
        """
        if not gives[root]:
            raise OperationMismatch(
                f"{flat.engine.names[root]} is to have the sum, and gives no value: the root of a coded sum "
                "decodes it, so it needs to know its form"
            )
        self.flat = flat
        self.root = root
        self.givers = sum(gives)
        self.array_bytes = 0  # of the summed array: the tree is the one that the dense sum would use
        self._gives = gives
        self._adder = next((rank for rank, has_value in enumerate(gives) if not has_value), None)
        self._options = options
        self._limit_bytes = limit_bytes
        self._adding = Adding() if adding is None else adding
        self._steps = 0

    @property
    def at_root(self) -> bool:
        return self.flat.engine.rank == self.root

    # -- for members that give a value, in the same order at all ---------------------------------------------

    async def total(self, scheme: int, element: Element, items: Array, agreed: bytes) -> Array | None:
        """Return the sum of all members' items at the root, None at the others.

        `agreed` is data that all members that give a value know to be equal; chunks are added only if it is.
        """
        chunks = await off_loop(items.nbytes, self._chunks, scheme, element, items, agreed)
        await self._begin(_RootCommand.UP, chunks.size)
        await self._up(chunks)
        if not self.at_root:
            return None
        read: Array = await off_loop(items.nbytes, self._read, scheme, element, items.size, agreed, chunks)
        return read

    async def broadcast(self, data: Array | None, sizes: Sequence[int]) -> Array:
        """Bring the root's bytes to all; the others give None, and expect one of `sizes` as their number."""
        size_bytes = await self._begin(_RootCommand.DOWN, *(sizes if data is None else [data.size]))
        out = np.empty(size_bytes, np.uint8) if data is None else data
        await self._down(out)
        return out

    async def heads(self, mine: Array) -> list[bytes]:
        """Gather bytes, equally many at each member, from all members that give a value."""
        await self._begin(_RootCommand.HEADS, mine.size)
        found = await self._gathered(mine)
        return [head for head, has_value in zip(found, self._gives, strict=True) if has_value]

    async def end(self) -> None:
        """Release the members that only add: there is no further step."""
        await self._begin(_RootCommand.END, 0)

    # -- for members that give no value ----------------------------------------------------------------------

    async def help(self) -> None:
        """Do every step that the root sends, until END; for a member that gives no value."""
        while True:
            step, size_bytes = await self._next_step(None)
            if step == _RootCommand.END:
                return
            work = np.zeros(size_bytes, np.uint8)
            if step == _RootCommand.UP:
                await self._up(work)
            elif step == _RootCommand.DOWN:
                await self._down(work)
            else:
                await self._gathered(work)

    # -- steps ---------------------------------------------------------------------------------------------

    async def _begin(self, step: _RootCommand, *sizes: int) -> int:
        """Agree on the next step, and return its size in bytes: one of `sizes`; at the root there is only
        one.

        Raises:
            RemoteProtocolError: the root has sent another step or size.
        """
        head = _STEP.pack(step, sizes[0]) if self.at_root else None
        found, found_bytes = await self._next_step(head)
        if found != step or found_bytes not in sizes:
            raise RemoteProtocolError(
                f"{self.flat.engine.names[self.root]} announced {found.name} with {found_bytes:,} bytes, "
                f"where {step.name} with {' or '.join(f'{size:,}' for size in sizes)} was to come"
            )
        return found_bytes

    async def _next_step(self, mine: bytes | None) -> tuple[_RootCommand, int]:
        head = np.zeros(_STEP.size, np.uint8) if mine is None else np.frombuffer(mine, np.uint8)
        self._steps += 1
        await self.flat.broadcast(head, UINT8, self.root, self._called("what is next"), restore=False)
        number, size_bytes = _STEP.unpack(head.tobytes())
        if number not in iter(_RootCommand):
            raise RemoteProtocolError(
                f"{self.flat.engine.names[self.root]} announced the unknown step {number}"
            )
        if size_bytes > self._limit_bytes:
            raise LimitExceeded(
                f"{self.flat.engine.names[self.root]} announced {size_bytes:,} bytes of chunks; this group "
                f"takes {self._limit_bytes:,} at once"
            )
        return _RootCommand(number), size_bytes

    async def _up(self, chunks: Array) -> None:
        engine = self.flat.engine
        schedule, algorithm, order = self._way()
        whole = Whole(chunks.size, 1, _chunk_bytes())
        called = self._called(f"{chunks.size} bytes of chunks")
        operation = Operation(
            called.name, called.what, "sum", self.root, algorithm, order, "", called.source_location
        )
        work = Work(operation, schedule, chunks, chunks, whole, whole, self._add)
        await engine.perform(work)

    def _way(self) -> tuple[Schedule, str, tuple[int, ...]]:
        rank, size = self.flat.engine.rank, self.flat.engine.size
        if self._adder is not None:
            return star(rank, self._gives, self._adder, self.root), f"by {self._adder}", tuple(range(size))
        order = self.flat.choice.best("reduce", self.array_bytes, self.root, "tree").order
        return algorithms.schedule("reduce", "tree", rank, order, self.root), "tree", order

    def _add(self, left: Array, right: Array, out: Array) -> None:
        """Add two pieces, each of which is one chunk."""
        total = self._adding.add(left.data, right.data)
        if len(total) != out.size:
            raise RemoteProtocolError(f"a sum of chunks has {len(total)} bytes instead of {out.size}")
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
        what = f"{self._options.what}: step {self._steps}, {what}"
        return CollectiveOptions(what, "reduce", self._options.source_location, codec=codec)

    # -- chunks --------------------------------------------------------------------------------------------

    def _chunks(self, scheme: int, element: Element, items: Array, agreed: bytes) -> Array:
        """Encode the items as chunks, at least one; all but the last have one length."""
        step = (_chunk_bytes() - HEAD_BYTES) // element.size_bytes
        contexts = _contexts(scheme, agreed)
        made = bytearray()
        for start in range(0, max(1, items.size), step):
            part = items[start : start + step]
            made += Aggregate(scheme, element, part, next(contexts), room_for=self.givers).to_wire()
        return np.frombuffer(made, np.uint8)

    def _read(self, scheme: int, element: Element, size: int, agreed: bytes, chunks: Array) -> Array:
        """Decode the sum. Raises RemoteProtocolError unless every chunk contains all members' values."""
        total = np.empty(size, element.storage)
        contexts = _contexts(scheme, agreed)
        done = 0
        for start in range(0, chunks.size, _chunk_bytes()):
            piece = chunks[start : start + _chunk_bytes()]
            read = Aggregate.from_wire(piece.data, piece.nbytes)
            if (read.scheme, read.element, read.context) != (scheme, element, next(contexts)):
                raise RemoteProtocolError(
                    "a sum of chunks has another scheme, kind of item or position than the one requested"
                )
            if read.members != self.givers:
                raise RemoteProtocolError(
                    f"a sum of chunks has those of {read.members} members, where {self.givers} gave some"
                )
            total[done : done + read.items.size] = read.items  # as long as this member's own chunk
            done += read.items.size
        return total


def _chunk_bytes() -> int:
    """Return the size of every chunk but the last. It is independent of the items, which adders do
    not know.
    """
    return HEAD_BYTES + (layout.FRAME_BYTES - HEAD_BYTES) // _MOST_ITEM_BYTES * _MOST_ITEM_BYTES


def _contexts(scheme: int, agreed: bytes) -> Iterator[bytes]:
    """Yield the context of each chunk of an array; it differs by position, so only equal positions can be
    added.
    """
    digest = context_of(bytes([scheme]), agreed)
    return (context_of(digest, index.to_bytes(8, "little")) for index in itertools.count())
