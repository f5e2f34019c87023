"""Collective operations on whole values: the methods that a group calls, and the values that it returns."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from duetlink.data.codecs.element import UINT8
from duetlink.errors import DuetError, OperationMismatch, UnsupportedValue
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.execution.engine import Engine
from duetlink.groups.collectives.figures_agreement import Figures, FiguresAgreement
from duetlink.groups.collectives.planning.choice import Explanation
from duetlink.groups.collectives.planning.costs import LinkFigures
from duetlink.groups.collectives.point_to_point import PointToPoint
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.sums import reduced, registry
from duetlink.groups.collectives.sums.automatic import with_codecs
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.collectives.values import operands
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations
from duetlink.groups.collectives.values.forms import Forms, joined, parted
from duetlink.groups.collectives.values.result_memory import ResultMemory
from duetlink.groups.collectives.values.trees import Tree, from_bytes, take_apart, to_bytes
from duetlink.groups.links.transport import Transport

_REMEMBERED_SUMS = 64
DEFAULT_LIMIT_BYTES = 4 * 1024**3
PLAIN_SUM = ReduceOptions()

P = ParamSpec("P")
T = TypeVar("T")


def in_turn(
    method: Callable[Concatenate[Collectives, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Collectives, P], Coroutine[Any, Any, T]]:
    """Run calls one after the other, since a call may be several operations of the engine.

    A call that ends in the middle ends the epoch's operations, as the others wait for the rest of it.
    """

    async def called(self: Collectives, /, *args: P.args, **kwargs: P.kwargs) -> T:
        where = kwargs.get("call")
        name = f"{method.__name__} at {where}" if where else method.__name__
        begun = False
        try:
            async with self._turn:
                before = self.engine.completed
                try:
                    self.engine.done_bytes = self.engine.total_bytes = 0
                    result = await method(self, *args, **kwargs)
                finally:
                    begun = self.engine.completed > before
                self.completed += 1
                return result
        except asyncio.CancelledError:
            self.engine.abandon(name, self.engine.interruption)
            raise
        except Exception as error:
            if begun:
                self.engine.abandon(name, error)
            raise

    functools.update_wrapper(called, method)
    return called


class Collectives:
    """The operations of one epoch, on values. Belongs to the loop thread, from construction until `close`.

    A value is a NumPy array or number, a torch tensor, an Arrow array of numbers, a Python number, or a dict,
    list or tuple of those. Operations run one at a time, beside `send` and `recv`. All raise

        OperationMismatch: members called different operations, or with different forms; it names both.
        OperationAborted: another member gave up; it names the member and the reason.
        PeerLost: a member is gone.
        UnsupportedValue: a group cannot use the value, or not for this operation. Nothing was sent.

    and leave the given values as they were, unless `in_place` was requested and the operation succeeded.
    After one of the first three this object is `broken`: a new epoch needs a new one.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        names: Sequence[str] = (),
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        figures: Figures | None = None,
        may_share: bool = True,
        sums: deque[SumReport] | None = None,
        alone: bool = False,
    ) -> None:
        """Start an engine on the transport.

        Args:
            names: the members' names by rank, for errors.
            limit_bytes: larger values are not received.
            figures: measures the links, at all members or at none: `agree` at calls 1, 2, 4, 8 and so on.
            may_share: use shared memory if all members are on one host, and say True here.
            sums: collects the reports of sums with a codec; by default a new deque of the last 64.
            alone: there is no membership; see `Engine`.
        """
        self.engine = Engine(transport, names, alone=alone)
        self.flat = FlatOperations(self.engine)
        self.rank = transport.rank
        self.size = transport.size
        self.sums = deque[SumReport](maxlen=_REMEMBERED_SUMS) if sums is None else sums  # the last ones
        self._limit_bytes = limit_bytes
        self._empty_like = ResultMemory()
        self.point_to_point = PointToPoint(self.engine, limit_bytes)
        self.send, self.recv = self.point_to_point.send, self.point_to_point.recv
        self._forms = Forms(self.flat, self.size, limit_bytes)
        self._agreement = FiguresAgreement(self.flat, self._forms, figures, may_share=may_share)
        self._turn = asyncio.Lock()  # fair: the order of the calls
        self.completed = 0  # calls that succeeded here; after a failure members may differ by one

    @property
    def broken(self) -> DuetError | None:
        """The error that ended the operations of this epoch; None while they go on."""
        return self.engine.broken

    async def close(self) -> None:
        """End what runs, with LinkClosed. Safe to call twice."""
        await self.engine.close()
        async with self._turn:  # a call between two operations could map memory after it was unmapped
            self.flat.close()

    @in_turn
    async def agree(self, figures: Mapping[int, LinkFigures] | None = None) -> None:
        """Exchange figures of the links, by rank, and find out which members share a host.

        Each member measures how fast bytes come from the others. All members call this, or none. If all of
        them are on one host, operations use shared memory from then on; otherwise the algorithm that is
        fastest by the figures of all.
        """
        await self._agreement.agree(figures)

    async def prepare(self) -> None:
        """Exchange figures if this call is due for it. Called when the arguments have been checked."""
        if self.completed & (self.completed + 1) == 0:  # at calls 0, 1, 3, 7 and so on
            await self._agreement.in_time(self.completed)

    def explain(self, kind: str, size_bytes: int, *, density: float | None = None) -> Explanation:
        """Explain which algorithm that operation would use on an array of that size, and why. Sends nothing.

        With `density`, the share of items that are not zero at any member, it also has the predicted time of
        each sum that `codec="auto"` chooses from, for float32, and its first choice.
        """
        found = self.flat.choice.explain(kind, size_bytes)
        return found if density is None else with_codecs(found, self.flat.choice, density)

    # -- sums ----------------------------------------------------------------------------------------------

    @in_turn
    async def all_reduce(
        self,
        value: object,
        options: ReduceOptions = PLAIN_SUM,
        *,
        memory: Array | None = None,
        restore: bool = True,
        call: str = "",
    ) -> object:
        """Combine all members' values; every member has the result, in the same bits.

        Args:
            value: of the same form at all members: nesting, keys, shapes and kinds of items.
            options: as for `group.all_reduce`, not secure. `sums` has the report of a sum with a codec.
            memory: what a codec left out before, and then leaves out now; flat, for one kind of items.
            restore: give a value that is summed in place its old content if the call fails.
            call: the line of the user's program, for errors.
        """
        assert not options.secure
        op, codec = options.op, options.codec
        tree = take_apart(value)
        operands.check(tree, op, in_place=options.in_place)
        if memory is not None and len(tree.elements) != 1:
            raise UnsupportedValue("a memory goes with a value of one kind of items")
        if codec is not None:
            registry.check(codec, tree.elements, op, options.algorithm)
        if options.algorithm is not None:
            self.flat.choice.check("all_reduce", options.algorithm)
        await self.prepare()
        coded = None if codec is None else registry.named(codec)
        # the value's own memory is used only if the whole value is one array
        direct = options.in_place and op != "mean" and tree.is_one_block
        flats: dict[str, Array] = {}
        for element in tree.elements:
            operand = await operands.Operand.of(
                tree, element, op, self.size, in_place=direct, fill=bool(codec), empty_like=self._empty_like
            )
            settings = CollectiveOptions(operand.what, "", call, options.algorithm, codec)
            array, wide, given = operand.array, operand.wide, operand.given
            if coded is None:
                restored = direct and restore
                await self.flat.all_reduce(array, wide, operand.op, settings, given=given, restore=restored)
            else:
                report = await registry.run(coded, self.flat, array, wide, operand.op, settings, memory)
                self.sums.append(report)
            if operand.op == "mean" and element.is_float:
                await self.flat.mend(array, tree.flat(element), element, replace(settings, codec=None))
            flats[element.name] = operand.items()
        if options.in_place:
            if not direct:
                tree.write(flats)
            return value
        return tree.with_items(flats)

    @in_turn
    async def reduce(
        self,
        value: object,
        root: int = 0,
        op: str = "sum",
        *,
        algorithm: str | None = None,
        codec: str | None = None,
        call: str = "",
    ) -> object:
        """Combine all members' values; the root returns the result, the others None.

        With a codec, members add chunks without decoding them; one whose value is None only adds those.
        """
        root = operands.checked_rank(root, self.size)
        if codec is not None and codec in reduced.CODECS:
            given = reduced.checked(value, op, codec)
            await self.prepare()
            settings = CollectiveOptions(f"{op}, codec {codec}", source_location=call)
            found, reports = await reduced.reduce_tree(
                self.flat, self._forms, given, root, op, codec, settings, self._limit_bytes
            )
            self.sums += reports
            return found
        tree = take_apart(value)
        operands.check(tree, op, in_place=False)
        operands.check_codec(codec, tree.elements, op)
        self.flat.choice.check("reduce", algorithm)
        await self.prepare()
        flats = {}
        for element in tree.elements:
            operand = await operands.Operand.of(tree, element, op, self.size)
            settings = CollectiveOptions(operand.what, "", call, algorithm, codec)
            await self.flat.reduce(operand.array, operand.wide, operand.op, root, settings, restore=False)
            flats[element.name] = operand.items()
        return tree.with_items(flats) if self.rank == root else None

    @in_turn
    async def reduce_scatter(
        self,
        values: Sequence[object],
        op: str = "sum",
        *,
        algorithm: str | None = None,
        codec: str | None = None,
        call: str = "",
    ) -> object:
        """Combine all members' `values[rank]` for every rank; each member returns the one of its rank."""
        trees = operands.one_for_each(values, self.size)
        for tree in trees:
            operands.check(tree, op, in_place=False)
        mine = trees[self.rank]
        elements = list(dict.fromkeys(element for tree in trees for element in tree.elements))
        operands.check_codec(codec, elements, op)
        self.flat.choice.check("reduce_scatter", algorithm)
        await self.prepare()
        flats = {}
        for element in elements:
            blocks = operands.MemberBlocks.of(trees, element, op)
            out = np.empty(blocks.sizes[self.rank], blocks.wide.storage)
            settings = CollectiveOptions(blocks.what, "", call, algorithm, codec)
            await self.flat.reduce_scatter(blocks.given, out, blocks.wide, blocks.sizes, blocks.op, settings)
            flats[element.name] = blocks.items(out)
        return mine.with_items({element.name: flats[element.name] for element in mine.elements})

    # -- copies --------------------------------------------------------------------------------------------

    @in_turn
    async def broadcast(
        self, value: object = None, root: int = 0, *, in_place: bool = False, call: str = ""
    ) -> object:
        """Bring the root's value to all. The others need none, unless it is written in place."""
        root = operands.checked_rank(root, self.size)
        at_root = self.rank == root
        tree = take_apart(value) if at_root or in_place else None
        if in_place and not at_root and tree is not None:
            operands.check_writable(tree)
        await self.prepare()
        mine = tree.to_wire() if at_root and tree is not None else None
        wire_form = await self._forms.broadcast(mine, root, "broadcast", call)
        form = Tree.from_wire(wire_form, self._limit_bytes)
        if at_root and tree is not None:
            await self._broadcast(to_bytes(tree), root, form, call)
            return value
        if in_place and tree is not None and tree.what != form.what:
            names, at = self.engine.names, f" at {call}" if call else ""
            why = (
                f"{names[root]} broadcasts {form.what}; {names[self.rank]} has {tree.what} to be written{at}"
            )
            raise OperationMismatch(why)
        data = np.empty(form.size_bytes, np.uint8)
        await self._broadcast(data, root, form, call)
        if in_place and tree is not None:
            tree.write(from_bytes(tree, data))
            return value
        return form.with_items(from_bytes(form, data))

    @in_turn
    async def all_gather(self, value: object, *, call: str = "") -> list[object]:
        """Bring every member's value to all, by rank. The values may differ in form."""
        tree = take_apart(value)
        await self.prepare()
        forms = await self._forms.all_gather_forms(tree, "all_gather", call)
        sizes = [form.size_bytes for form in forms]
        out = np.empty(sum(sizes), np.uint8)
        await self.flat.all_gather(to_bytes(tree), out, UINT8, sizes, CollectiveOptions(source_location=call))
        return operands.values_of(forms, sizes, out)

    @in_turn
    async def gather(self, value: object, root: int = 0, *, call: str = "") -> list[object] | None:
        """Bring every member's value to the root, by rank; the others return None. Forms may differ."""
        root = operands.checked_rank(root, self.size)
        tree = take_apart(value)
        await self.prepare()
        forms = await self._forms.all_gather_forms(tree, "gather", call)
        sizes = [form.size_bytes for form in forms]
        out = np.empty(sum(sizes), np.uint8) if self.rank == root else None
        await self.flat.gather(
            to_bytes(tree), out, UINT8, sizes, root, CollectiveOptions(source_location=call)
        )
        return None if out is None else operands.values_of(forms, sizes, out)

    @in_turn
    async def scatter(
        self, values: Sequence[object] | None = None, root: int = 0, *, call: str = ""
    ) -> object:
        """Bring `values[rank]` of the root to each; the others give none."""
        root = operands.checked_rank(root, self.size)
        trees: list[Tree] = []
        if self.rank == root:
            if values is None:
                raise UnsupportedValue("the root of a scatter gives one value for each member")
            trees = operands.one_for_each(values, self.size)
        await self.prepare()
        wire_form = await self._forms.broadcast(joined(trees) if trees else None, root, "scatter", call)
        forms = [Tree.from_wire(each, self._limit_bytes) for each in parted(wire_form, self.size)]
        sizes = [form.size_bytes for form in forms]
        given = np.concatenate([to_bytes(tree) for tree in trees]) if trees else None
        out = np.empty(sizes[self.rank], np.uint8)
        await self.flat.scatter(given, out, UINT8, sizes, root, CollectiveOptions(source_location=call))
        return forms[self.rank].with_items(from_bytes(forms[self.rank], out))

    @in_turn
    async def all_to_all(self, values: Sequence[object], *, call: str = "") -> list[object]:
        """Bring `values[j]` of each member to member j, which returns them by rank. Forms may differ."""
        trees = operands.one_for_each(values, self.size)
        await self.prepare()
        wire_form = await self._forms.all_gather(joined(trees), "all_to_all", call)
        forms = [Tree.from_wire(parted(each, self.size)[self.rank], self._limit_bytes) for each in wire_form]
        sizes = [form.size_bytes for form in forms]
        pieces = [to_bytes(tree) for tree in trees]
        out = np.empty(sum(sizes), np.uint8)
        given_sizes = [len(piece) for piece in pieces]
        await self.flat.all_to_all(
            np.concatenate(pieces), given_sizes, out, sizes, UINT8, CollectiveOptions(source_location=call)
        )
        return operands.values_of(forms, sizes, out)

    @in_turn
    async def barrier(self, *, call: str = "") -> None:
        """Return when every member has called this."""
        await self.prepare()
        await self.flat.barrier(CollectiveOptions(source_location=call))

    @in_turn
    async def broadcast_bytes(self, data: bytes | None, root: int = 0, *, call: str = "") -> bytes:
        """Bring the root's bytes, of any length up to 64 MiB, to all."""
        await self.prepare()
        return await self._forms.broadcast(data if self.rank == root else None, root, "broadcast_bytes", call)

    @in_turn
    async def all_gather_bytes(self, data: bytes, *, call: str = "") -> list[bytes]:
        """Bring every member's bytes, of any length up to 64 MiB, to all, by rank."""
        await self.prepare()
        return await self._forms.all_gather(data, "all_gather_bytes", call)

    async def _broadcast(self, data: Array, root: int, form: Tree, call: str) -> None:
        if len(data):
            await self.flat.broadcast(
                data, UINT8, root, CollectiveOptions(form.what, source_location=call), restore=False
            )
