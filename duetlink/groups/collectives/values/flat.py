"""Collective operations on flat arrays whose sizes all members know. Trees and the torch backend build on
them.

Every array is one-dimensional, contiguous, of an element's storage type, and stays the caller's. Arguments
named `array` or `out` are written. If the operation fails, they have their old content where `restore` is
set, and undefined content otherwise. Every method raises what `Engine.perform` raises; an impossible
operation raises before anything is sent.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import UINT8, Element
from duetlink.groups.collectives.execution.elements import Array, combination, divide, not_finite
from duetlink.groups.collectives.execution.encoding import Encoding
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.groups.collectives.execution.layout import Blocks, Layout, Whole
from duetlink.groups.collectives.execution.operation import Operation
from duetlink.groups.collectives.execution.work import RunShared, Work
from duetlink.groups.collectives.planning.choice import SHARED, TWO_LEVELS, Candidate, Choice
from duetlink.groups.collectives.planning.costs import Costs
from duetlink.groups.collectives.same_host.hosts import Hosts
from duetlink.groups.collectives.same_host.two_levels import run_two_levels
from duetlink.groups.collectives.schedules import algorithms
from duetlink.groups.collectives.schedules.schedule import Schedule


@dataclass(frozen=True, slots=True)
class CollectiveOptions:
    """The arguments of an operation apart from its arrays."""

    what: str = ""  # the form of the value; by default that of the flat array
    name: str = ""  # the name of the call that this is a step of; by default the kind
    source_location: str = ""  # the line of the user's program: "train.py:12"
    algorithm: str | None = None  # None: the one that is predicted to be the fastest
    codec: str | None = None  # lossless, for pieces on the wire; unused through shared memory


PLAIN = CollectiveOptions()


@dataclass(frozen=True, slots=True)
class _Call:
    """One operation apart from its arrays."""

    kind: str
    element: Element
    op: str | None
    root: int | None
    options: CollectiveOptions
    restore: bool = False


class FlatOperations:
    """The operations of one epoch. Methods belong to the loop thread."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.choice = Choice(Costs.unknown(engine.size))
        # what coded sums remember between calls; its decisions are equal at all members
        self.remembered: dict[str, Any] = {}
        self._hosts: Hosts | None = None

    @property
    def is_shared(self) -> bool:
        """True if all members map each other's memory."""
        return self._hosts is not None and self._hosts.is_one

    def agree(self, costs: Costs, hosts: Hosts | None) -> None:
        """Use these figures and that memory from now on; all members do so between the same two
        operations. Without `hosts`, those that were agreed on before remain.
        """
        if hosts is not None:
            self.close()
            self._hosts = hosts
        self.choice = Choice(replace(costs, hosts=self._hosts.ranks if self._hosts is not None else ()))

    def close(self) -> None:
        """Unmap shared memory; no operation may run any more. Safe to call twice."""
        if self._hosts is not None and self._hosts.shared is not None:
            self._hosts.shared.close()

    # -- one array of all members -------------------------------------------------------------------------

    async def all_reduce(
        self,
        array: Array,
        element: Element,
        op: str,
        options: CollectiveOptions = PLAIN,
        *,
        restore: bool = True,
        given: Array | None = None,
    ) -> None:
        """Combine all members' arrays; every member has the result, in the same bits.

        With `given`, this member's items are those of `given`, which stays as it is, and `array` is only
        written.
        """
        await self._whole(_Call("all_reduce", element, op, None, options, restore), array, given)
        await _finish(array, element, op, self.engine.size)

    async def reduce(
        self,
        array: Array,
        element: Element,
        op: str,
        root: int,
        options: CollectiveOptions = PLAIN,
        *,
        restore: bool = True,
    ) -> None:
        """Combine all members' arrays at the root. The others' arrays stay as they are."""
        at_root = self.engine.rank == root
        work = array if at_root else array.copy()
        await self._whole(_Call("reduce", element, op, root, options, restore and at_root), work)
        if at_root:
            await _finish(array, element, op, self.engine.size)

    async def broadcast(
        self,
        array: Array,
        element: Element,
        root: int,
        options: CollectiveOptions = PLAIN,
        *,
        restore: bool = True,
    ) -> None:
        restore = restore and self.engine.rank != root
        await self._whole(_Call("broadcast", element, None, root, options, restore), array)
        _as_bool(array, element)

    async def barrier(self, options: CollectiveOptions = PLAIN) -> None:
        """Return when every member has called this."""
        nothing = np.empty(0, np.uint8)
        sizes = [0] * self.engine.size
        await self._by_member(_Call("barrier", UINT8, None, None, options), nothing, nothing, sizes, sizes)

    def order_of(self, items: int, element: Element, algorithm: str | None) -> tuple[Candidate, Whole]:
        """Return the algorithm and blocks by which an array of that many items would be summed by messages.

        The order in which the members' items are added depends on the block alone.
        """
        chosen = self.choice.best_by_messages("all_reduce", items * element.size_bytes, algorithm)
        if chosen.algorithm == SHARED:
            raise ValueError("only an algorithm that sends messages has an order of additions by blocks")
        schedule = self._schedule("all_reduce", chosen, None)
        return chosen, Whole.of(items, element.size_bytes, schedule.blocks)

    def sent_of(self, items: int, element: Element, algorithm: str | None) -> int:
        """Return the bytes that this member would send to sum such an array; 0 through shared memory."""
        size_bytes = items * element.size_bytes
        chosen = self.choice.best("all_reduce", size_bytes, 0, algorithm)
        schedule = self._schedule("all_reduce", chosen, None)
        blocks = sum(len(send.blocks) for round_ in schedule.rounds for send in round_.sends)
        return size_bytes * blocks // schedule.blocks

    async def all_reduce_blocks(
        self,
        array: Array,
        sizes: Sequence[int],
        element: Element,
        op: str,
        chosen: Candidate,
        options: CollectiveOptions = PLAIN,
    ) -> None:
        """Combine arrays that hold some items of each block of a larger one, in its order of additions.

        `sizes` are the numbers of items by block; `chosen` is what `order_of` returned for the larger array.
        """
        layout = Blocks.of(sizes, element.size_bytes)
        what = f"{element.name}[{_sizes(sizes)}]"
        call = _Call("all_reduce", element, op, None, options)
        await self._perform(call, chosen, what, array, array, layout, layout)
        await _finish(array, element, op, self.engine.size)

    async def mend(self, mean: Array, given: Array, element: Element, options: CollectiveOptions) -> None:
        """Compute the mean of `given` again where it is infinite or NaN, since the sum may have overflowed.

        This time each item is divided before the sum. All members find the same items, since they have the
        same bits.
        """
        places: Array = await off_loop(mean.nbytes, not_finite, mean, element)
        if not len(places):
            return
        items = given[places]
        divide(items, self.engine.size, element)
        what = f"{len(places)} of {options.what}, whose sum is not finite"
        await self.all_reduce(items, element, "sum", replace(options, what=what))
        mean[places] = items

    # -- one block for each member -------------------------------------------------------------------------

    async def all_gather(
        self,
        mine: Array,
        out: Array,
        element: Element,
        sizes: Sequence[int],
        options: CollectiveOptions = PLAIN,
    ) -> None:
        """Bring each member's array, of `sizes[rank]` items, to all: `out` holds them by rank."""
        _block(out, sizes, self.engine.rank)[...] = mine
        await self._by_member(_Call("all_gather", element, None, None, options), out, out, sizes, sizes)
        _as_bool(out, element)

    async def gather(
        self,
        mine: Array,
        out: Array | None,
        element: Element,
        sizes: Sequence[int],
        root: int,
        options: CollectiveOptions = PLAIN,
    ) -> None:
        """Bring each member's array to the root's `out`, by rank; the others pass None as `out`."""
        work = np.empty(sum(sizes), element.storage) if out is None else out
        _block(work, sizes, self.engine.rank)[...] = mine
        await self._by_member(_Call("gather", element, None, root, options), work, work, sizes, sizes)
        _as_bool(work, element)

    async def scatter(
        self,
        given: Array | None,
        out: Array,
        element: Element,
        sizes: Sequence[int],
        root: int,
        options: CollectiveOptions = PLAIN,
    ) -> None:
        """Bring block `rank` of the root's array to that member's `out`; the others pass None as `given`."""
        at_root = self.engine.rank == root
        assert (given is not None) == at_root
        work = np.empty(sum(sizes), element.storage) if given is None else given
        await self._by_member(_Call("scatter", element, None, root, options), work, work, sizes, sizes)
        out[...] = _block(work, sizes, self.engine.rank)
        _as_bool(out, element)

    async def reduce_scatter(
        self,
        given: Array,
        out: Array,
        element: Element,
        sizes: Sequence[int],
        op: str,
        options: CollectiveOptions = PLAIN,
    ) -> None:
        """Combine all members' arrays, and keep block `rank` of the result in `out`."""
        work = await off_loop(given.nbytes, given.copy)
        await self._by_member(_Call("reduce_scatter", element, op, None, options), work, work, sizes, sizes)
        out[...] = _block(work, sizes, self.engine.rank)
        await _finish(out, element, op, self.engine.size)

    async def all_to_all(
        self,
        given: Array,
        given_sizes: Sequence[int],
        out: Array,
        out_sizes: Sequence[int],
        element: Element,
        options: CollectiveOptions = PLAIN,
    ) -> None:
        """Bring block j of each member's array to member j, whose `out` holds them by rank."""
        rank = self.engine.rank
        _block(out, out_sizes, rank)[...] = _block(given, given_sizes, rank)
        call = _Call("all_to_all", element, None, None, options)
        await self._by_member(call, given, out, given_sizes, out_sizes)
        _as_bool(out, element)

    # -- shared by all operations --------------------------------------------------------------------------

    async def _whole(self, call: _Call, array: Array, given: Array | None = None) -> None:
        chosen = self.choice.best(call.kind, array.nbytes, call.root or 0, call.options.algorithm)
        if given is None:
            given = array
        elif chosen.algorithm not in (SHARED, TWO_LEVELS):  # messages are added to what `array` holds
            await off_loop(array.nbytes, np.copyto, array, given)
            given = array
        blocks = self._schedule(call.kind, chosen, call.root).blocks
        layout = Whole.of(len(array), call.element.size_bytes, blocks)
        what = f"{call.element.name}[{len(array)}]"
        await self._perform(call, chosen, what, given, array, layout, layout)

    async def _by_member(
        self,
        call: _Call,
        given: Array,
        taken: Array,
        given_sizes: Sequence[int],
        taken_sizes: Sequence[int],
    ) -> None:
        # members of an all-to-all know different sizes, and still have to choose the same algorithm
        knows_all, element = call.kind != "all_to_all", call.element
        size_bytes = sum(given_sizes) * element.size_bytes if knows_all else 0
        chosen = self.choice.best(call.kind, size_bytes, call.root or 0, call.options.algorithm)
        what = f"{element.name}[{_sizes(given_sizes)}]" if knows_all else element.name
        given_layout = Blocks.of(given_sizes, element.size_bytes)
        taken_layout = Blocks.of(taken_sizes, element.size_bytes)
        await self._perform(call, chosen, what, given, taken, given_layout, taken_layout)

    async def _perform(
        self,
        call: _Call,
        chosen: Candidate,
        what: str,
        given: Array,
        taken: Array,
        given_layout: Layout,
        taken_layout: Layout,
    ) -> None:
        options = call.options
        operation = Operation(
            options.name or call.kind,
            options.what or what,
            call.op or "",
            call.root,
            chosen.name,
            chosen.order,
            options.codec or "",
            options.source_location,
        )
        work = Work(
            operation,
            self._schedule(call.kind, chosen, call.root),
            given,
            taken,
            given_layout,
            taken_layout,
            combination(call.op, call.element) if call.op is not None else None,
            self._run_shared(call.kind, chosen, call.root),
            call.restore,
            Encoding.of(options.codec, call.element) if options.codec is not None else None,
        )
        await self.engine.perform(work)

    def _run_shared(self, kind: str, chosen: Candidate, root: int | None) -> RunShared | None:
        """Return the function that runs the operation through shared memory; None if messages were chosen."""
        shared = self._hosts.shared if self._hosts is not None else None
        if chosen.algorithm == TWO_LEVELS:
            return functools.partial(run_two_levels, self.engine, shared)
        if chosen.algorithm != SHARED:
            return None
        assert shared is not None
        return shared.runner(kind, root)

    def _schedule(self, kind: str, chosen: Candidate, root: int | None) -> Schedule:
        if chosen.algorithm == SHARED:
            return Schedule(1, ())
        if chosen.algorithm == TWO_LEVELS:
            rank = self.engine.rank
            leader = rank if rank in chosen.order else chosen.order[0]
            made = algorithms.schedule(kind, chosen.between, leader, chosen.order)
            return made if leader == rank else Schedule(made.blocks, ())
        return algorithms.schedule(kind, chosen.algorithm, self.engine.rank, chosen.order, root or 0)


def _block(array: Array, sizes: Sequence[int], rank: int) -> Array:
    start = sum(sizes[:rank])
    return array[start : start + sizes[rank]]


def _sizes(sizes: Sequence[int]) -> str:
    return str(sizes[0]) if len(set(sizes)) == 1 else ", ".join(map(str, sizes))


async def _finish(array: Array, element: Element, op: str, size: int) -> None:
    if op == "mean":
        await off_loop(array.nbytes, divide, array, size, element)
    _as_bool(array, element)


def _as_bool(array: Array, element: Element) -> None:
    """Normalise bytes of bool to 0 and 1: a peer may send others, with which NumPy computes nonsense."""
    if element.name == "bool":
        np.not_equal(array.view(np.uint8), 0, out=array)
