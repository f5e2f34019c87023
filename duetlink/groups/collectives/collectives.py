"""Collective operations on whole values: what `Group` calls, and what it gives back."""

from __future__ import annotations

import asyncio
import functools
from collections import deque
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Concatenate, ParamSpec, TypeVar

import numpy as np

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.codecs.element import FLOAT32, UINT8, Element
from duetlink.errors import (
    DuetError,
    GroupError,
    LimitExceeded,
    OperationMismatch,
    SettingError,
    UnsupportedValue,
)
from duetlink.groups.collectives.choice import Explanation
from duetlink.groups.collectives.costs import LinkFigures
from duetlink.groups.collectives.elements import (
    Array,
    divide,
    halves,
    mean_of_halves,
    not_finite,
)
from duetlink.groups.collectives.engine import INTERRUPTED, Engine
from duetlink.groups.collectives.figures_agreement import Figures, FiguresAgreement
from duetlink.groups.collectives.flat import FlatOperations, Manner
from duetlink.groups.collectives.forms import Forms, joined, parted
from duetlink.groups.collectives.messages import Moved
from duetlink.groups.collectives.operands import (
    Operand,
    check,
    check_codec,
    check_writable,
    checked_rank,
    described,
    in_halves,
    one_for_each,
    values_of,
    widened,
)
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.sums import reduced, registry
from duetlink.groups.collectives.sums.adders import Adders
from duetlink.groups.collectives.sums.automatic import foreseen
from duetlink.groups.collectives.sums.base import SumReport
from duetlink.groups.collectives.trees import Tree, from_bytes, take_apart, to_bytes
from duetlink.groups.transport import Transport

_REMEMBERED_SUMS = 64

DEFAULT_LIMIT_BYTES = 4 * 1024**3
PLAIN_SUM = ReduceOptions()

P = ParamSpec("P")
T = TypeVar("T")


def in_turn(
    method: Callable[Concatenate[Collectives, P], Coroutine[Any, Any, T]],
) -> Callable[Concatenate[Collectives, P], Coroutine[Any, Any, T]]:
    """One call after the other, although a call may be several operations of the engine.

    A call that ends in the middle ends the epoch's operations: the others wait for the rest of it.
    """

    async def called(self: Collectives, /, *args: P.args, **kwargs: P.kwargs) -> T:
        name = f"{method.__name__} at {place}" if (place := kwargs.get("call")) else method.__name__
        begun = False
        try:
            async with self._turn:
                before = self.engine.completed
                try:
                    self.engine.done_bytes = self.engine.total_bytes = 0
                    result = await method(self, *args, **kwargs)
                finally:
                    begun = self.engine.completed > before
                self._completed += 1
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


@dataclass(frozen=True, slots=True)
class Received:
    """A value that one member has sent to this one."""

    value: object
    rank: int
    tag: int


class Collectives:
    """The operations of one epoch, on values. Belongs to the loop thread, from construction until `close`.

    A value is a NumPy array or number, a torch tensor, an Arrow array of numbers, a Python number, or a dict,
    list or tuple of those. Operations run one at a time in the order in which they are called; `send` and
    `recv` run beside them. All of them raise

        OperationMismatch: members called different operations, or with different forms; it names both.
        OperationAborted: another member gave up; it names who and why.
        PeerLost: a member is gone.
        UnsupportedValue: the value, or the operation on it, is none that a group knows. Nothing was sent.

    and leave the values that were given as they were, unless `in_place` was asked for and all went well.
    After one of the first three this object is `broken`: a new epoch needs a new one.
    """

    def __init__(
        self,
        transport: Transport,
        *,
        names: Sequence[str] = (),
        limit_bytes: int = DEFAULT_LIMIT_BYTES,
        figures: Figures | None = None,
        sums: deque[SumReport] | None = None,
        alone: bool = False,
    ) -> None:
        """`names` are the members' by rank, for errors; no larger value than `limit_bytes` is received.
        `alone` is the engine's.
        `sums` takes the reports of sums with a codec; by default they have a place of their own.

        With `figures`, at all members or at none, calls 1, 2, 4, 8 and so on begin with
        `agree(await figures())`: better paths come up, and are measured, while a group works.
        """
        self.engine = Engine(transport, names, alone=alone)
        self.flat = FlatOperations(self.engine)
        self.rank = transport.rank
        self.size = transport.size
        self.sums = deque[SumReport](maxlen=_REMEMBERED_SUMS) if sums is None else sums  # the last ones
        self._limit_bytes = limit_bytes
        self._forms = Forms(self.flat, self.size, limit_bytes)
        self._agreement = FiguresAgreement(self.flat, self._forms, figures)
        self._turn = asyncio.Lock()  # fair: the order of the calls
        self._completed = 0

    @property
    def broken(self) -> DuetError | None:
        """What ended the operations of this epoch; None while they go on."""
        return self.engine.broken

    @property
    def completed(self) -> int:
        """How many calls have ended well here. After a failure members may differ by one."""
        return self._completed

    async def close(self) -> None:
        """End what runs, with LinkClosed. Safe to call twice."""
        await self.engine.close()
        async with self._turn:  # a call that was between two operations might bring memory to be unmapped
            self.flat.close()

    async def within(
        self, limit_s: float, operation: Coroutine[Any, Any, T], call: str, lateness: str = ""
    ) -> T:
        """Await one of the operations, which ends at its deadline at the latest.

        Raises GroupError then, which says who is late: `lateness`, or who has not called the collective
        operation that runs. If it is a collective one, the others are told the same.
        """
        engine = self.engine
        why = ""

        def note() -> None:  # who is waited for, as long as somebody is
            nonlocal why
            engine.interruption = why = f"Timed out after {limit_s:g} s: {lateness or engine.lateness}"

        # an earlier deadline than that of the time-out below, so that it is kept first
        timer = asyncio.get_running_loop().call_later(limit_s, note)
        try:
            async with asyncio.timeout(limit_s):
                return await operation
        except TimeoutError as error:
            if isinstance(error, DuetError):  # an error of the operation itself
                raise
            raise GroupError(f"{call}: {why}") from None
        finally:
            timer.cancel()
            engine.interruption = INTERRUPTED

    @in_turn
    async def agree(self, figures: Mapping[int, LinkFigures] | None = None) -> None:
        """Tell all what this member has measured of its links, by rank, and find out who shares a host.

        Each measures how quickly bytes come from the others. All members call this, or none. Where all of
        them are on one host, operations go through memory that they share from then on; else by the algorithm
        that the figures of all predict to be the quickest.
        """
        await self._agreement.agree(figures)

    async def prepare(self) -> None:
        """Agree on figures, before the first message of a call, once nothing refuses it here."""
        if self._completed & (self._completed + 1) == 0:  # of calls 0, 1, 3, 7 and so on
            await self._agreement.in_time(self._completed)

    def explain(self, kind: str, size_bytes: int, *, density: float | None = None) -> Explanation:
        """How that operation would run on an array of that size, and why. Sends nothing.

        For an all-reduce of float32 with that density of the union of all supports, also what each way takes
        among which `codec="auto"` chooses, and which one it would take before it has measured them, and why.
        """
        found = self.flat.choice.explain(kind, size_bytes)
        if density is None:
            return found
        if kind != "all_reduce" or not 0 <= density <= 1:
            raise SettingError(f"{kind} with a density of {density}: all_reduce has one, from 0 to 1")
        items = size_bytes // FLOAT32.size_bytes
        times_s, way, why = foreseen(self.flat.choice, items, FLOAT32, density)
        return replace(found, codecs=times_s, auto=way, why_auto=why)

    # -- sums ----------------------------------------------------------------------------------------------

    @in_turn
    async def all_reduce(
        self,
        value: object,
        options: ReduceOptions = PLAIN_SUM,
        *,
        memory: Array | None = None,
        call: str = "",
    ) -> object:
        """Combine all members' values; everybody has the result, in the same bits.

        Args:
            value: of the same form at all members: nesting, keys, shapes and kinds of items.
            options: as for `group.all_reduce`, and not secure. `sums` tells how a sum with a codec of
                `sums/registry.py` went.
            memory: of a value of one kind of items, as one flat array: what a codec left out of it before,
                and after this what it leaves out now.
            call: where it was called, for errors.
        """
        assert not options.secure
        op, codec = options.op, options.codec
        tree = take_apart(value)
        check(tree, op, in_place=options.in_place)
        if memory is not None and len(tree.elements) != 1:
            raise UnsupportedValue("a memory goes with a value of one kind of items")
        if codec is not None:
            registry.check(codec, tree.elements, op, options.algorithm)
        if options.algorithm is not None:
            self.flat.choice.check("all_reduce", options.algorithm)
        await self.prepare()
        coded = None if codec is None else registry.named(codec)
        # a leaf's own memory is worked in only where that is all there is to be changed
        direct = options.in_place and op != "mean" and tree.is_one_block
        flats: dict[str, Array] = {}
        for element in tree.elements:
            operand = await Operand.of(tree, element, op, self.size, in_place=direct)
            manner = Manner(operand.what, "", call, options.algorithm, codec)
            array, wide = operand.array, operand.wide
            if coded is None:
                await self.flat.all_reduce(array, wide, operand.op, manner, restore=direct)
            else:
                self.sums.append(
                    await registry.run(coded, self.flat, array, wide, operand.op, manner, memory)
                )
            if operand.op == "mean" and element.is_float:
                await self._mend(array, tree, element, replace(manner, codec=None))
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

        With a codec of `sums/reduced.py`, members between add chunks that they do not decode, and a member
        whose value is None gives nothing: it only adds what the others send.
        """
        root = checked_rank(root, self.size)
        if codec is not None and codec in reduced.CODECS:
            return await self._reduce_coded(value, root, op, codec, call)
        tree = take_apart(value)
        check(tree, op, in_place=False)
        if codec is not None:
            check_codec(codec, tree.elements, op)
        if algorithm is not None:
            self.flat.choice.check("reduce", algorithm)
        await self.prepare()
        flats = {}
        for element in tree.elements:
            operand = await Operand.of(tree, element, op, self.size)
            manner = Manner(operand.what, "", call, algorithm, codec)
            await self.flat.reduce(operand.array, operand.wide, operand.op, root, manner, restore=False)
            flats[element.name] = operand.items()
        return tree.with_items(flats) if self.rank == root else None

    async def _reduce_coded(self, value: object, root: int, op: str, codec: str, call: str) -> object:
        tree = None if value is None else take_apart(value)
        if tree is not None:
            check(tree, op, in_place=False)
            reduced.check(tree.elements, op, codec)
        await self.prepare()
        form = b"" if tree is None else tree.what.encode()
        forms = await self._forms.tell_each(form, f"reduce to a {op} by {codec}", call)
        gives = reduced.check_forms(forms, self.engine.name)
        manner = Manner(f"{op}, codec {codec}", place=call)
        adders = Adders(self.flat, root, gives, manner, self._limit_bytes)
        if tree is None:
            await adders.help()
            return None
        flats = {}
        for element in tree.elements:
            operand = await Operand.of(tree, element, op, adders.givers)
            total, report = await reduced.reduce(adders, codec, operand.array, operand.wide, operand.op)
            self.sums.append(report)
            if total is not None:
                operand.array = total
                flats[element.name] = operand.items()
        await adders.end()
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
        """Combine all members' `values[rank]` for every rank; each returns the one of its own rank."""
        trees = one_for_each(values, self.size)
        for tree in trees:
            check(tree, op, in_place=False)
        mine = trees[self.rank]
        elements = list(dict.fromkeys(element for tree in trees for element in tree.elements))
        if codec is not None:
            check_codec(codec, elements, op)
        if algorithm is not None:
            self.flat.choice.check("reduce_scatter", algorithm)
        await self.prepare()
        flats = {}
        for element in elements:
            wide = widened(element, op)
            empty = np.empty(0, wide.storage)
            blocks = [tree.flat(element) if element in tree.elements else empty for tree in trees]
            halved = in_halves(element, op)
            if halved:
                blocks = [halves(block, self.size) for block in blocks]
            sizes = [len(block) for block in blocks]
            given = np.concatenate([block.astype(wide.storage, copy=False) for block in blocks])
            out = np.empty(sizes[self.rank], wide.storage)
            what = "; ".join(described(tree, element) for tree in trees) if len(trees) <= 9 else ""
            what = f"{len(sizes)} values {what}".rstrip() + (", in halves" if halved else "")
            manner = Manner(what, "", call, algorithm, codec)
            await self.flat.reduce_scatter(given, out, wide, sizes, "sum" if halved else op, manner)
            if halved:
                out = mean_of_halves(out, self.size)
            flats[element.name] = out.astype(element.storage, copy=False)
        return mine.with_items({element.name: flats[element.name] for element in mine.elements})

    # -- copies --------------------------------------------------------------------------------------------

    @in_turn
    async def broadcast(
        self,
        value: object = None,
        root: int = 0,
        *,
        in_place: bool = False,
        call: str = "",
    ) -> object:
        """Bring the root's value to all. The others need none, unless it is to be written in place."""
        root = checked_rank(root, self.size)
        at_root = self.rank == root
        tree = take_apart(value) if at_root or in_place else None
        if in_place and not at_root and tree is not None:
            check_writable(tree)
        await self.prepare()
        told = await self._forms.tell(
            tree.to_wire() if at_root and tree is not None else None, root, "broadcast", call
        )
        form = Tree.from_wire(told, self._limit_bytes)
        if at_root and tree is not None:
            await self._broadcast(to_bytes(tree), root, form, call)
            return value
        if in_place and tree is not None and tree.what != form.what:
            at = f" at {call}" if call else ""
            raise OperationMismatch(
                f"{self.engine.name(root)} broadcasts {form.what}; {self.engine.name(self.rank)} has "
                f"{tree.what} to be written{at}"
            )
        data = np.empty(sum(leaf.size_bytes for leaf in form.leaves), np.uint8)
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
        forms = await self._forms.tell_all(tree, "all_gather", call)
        sizes = [sum(leaf.size_bytes for leaf in form.leaves) for form in forms]
        out = np.empty(sum(sizes), np.uint8)
        manner = Manner(place=call)
        await self.flat.all_gather(to_bytes(tree), out, UINT8, sizes, manner)
        return values_of(forms, sizes, out)

    @in_turn
    async def gather(self, value: object, root: int = 0, *, call: str = "") -> list[object] | None:
        """Bring every member's value to the root, by rank; the others return None. Forms may differ."""
        root = checked_rank(root, self.size)
        tree = take_apart(value)
        await self.prepare()
        forms = await self._forms.tell_all(tree, "gather", call)
        sizes = [sum(leaf.size_bytes for leaf in form.leaves) for form in forms]
        out = np.empty(sum(sizes), np.uint8) if self.rank == root else None
        manner = Manner(place=call)
        await self.flat.gather(to_bytes(tree), out, UINT8, sizes, root, manner)
        return None if out is None else values_of(forms, sizes, out)

    @in_turn
    async def scatter(
        self,
        values: Sequence[object] | None = None,
        root: int = 0,
        *,
        call: str = "",
    ) -> object:
        """Bring `values[rank]` of the root to each; the others give none."""
        root = checked_rank(root, self.size)
        trees: list[Tree] = []
        if self.rank == root:
            if values is None:
                raise UnsupportedValue("the root of a scatter gives one value for each member")
            trees = one_for_each(values, self.size)
        await self.prepare()
        told = await self._forms.tell(joined(trees) if trees else None, root, "scatter", call)
        forms = [Tree.from_wire(each, self._limit_bytes) for each in parted(told, self.size)]
        sizes = [sum(leaf.size_bytes for leaf in form.leaves) for form in forms]
        given = np.concatenate([to_bytes(tree) for tree in trees]) if trees else None
        out = np.empty(sizes[self.rank], np.uint8)
        await self.flat.scatter(given, out, UINT8, sizes, root, Manner(place=call))
        return forms[self.rank].with_items(from_bytes(forms[self.rank], out))

    @in_turn
    async def all_to_all(self, values: Sequence[object], *, call: str = "") -> list[object]:
        """Bring `values[j]` of each member to member j, who returns them by rank. Forms may differ."""
        trees = one_for_each(values, self.size)
        await self.prepare()
        told = await self._forms.tell_each(joined(trees), "all_to_all", call)
        forms = [Tree.from_wire(parted(each, self.size)[self.rank], self._limit_bytes) for each in told]
        sizes = [sum(leaf.size_bytes for leaf in form.leaves) for form in forms]
        pieces = [to_bytes(tree) for tree in trees]
        out = np.empty(sum(sizes), np.uint8)
        given_sizes = [len(piece) for piece in pieces]
        manner = Manner(place=call)
        await self.flat.all_to_all(np.concatenate(pieces), given_sizes, out, sizes, UINT8, manner)
        return values_of(forms, sizes, out)

    @in_turn
    async def barrier(self, *, call: str = "") -> None:
        """Return when every member has called this."""
        await self.prepare()
        await self.flat.barrier(Manner(place=call))

    async def wait_begun(self, *, call: str = "") -> None:
        """Return when all others have begun the call that has just ended here. Only if this is `alone`."""
        await self.engine.wait_begun(call)

    # -- bytes ---------------------------------------------------------------------------------------------

    @in_turn
    async def broadcast_bytes(self, data: bytes | None, root: int = 0, *, call: str = "") -> bytes:
        """Bring the root's bytes, of any length up to 64 MiB, to all."""
        await self.prepare()
        return await self._forms.tell(data if self.rank == root else None, root, "broadcast_bytes", call)

    @in_turn
    async def all_gather_bytes(self, data: bytes, *, call: str = "") -> list[bytes]:
        """Bring every member's bytes, of any length up to 64 MiB, to all, by rank."""
        await self.prepare()
        return await self._forms.tell_each(data, "all_gather_bytes", call)

    # -- from one to one -----------------------------------------------------------------------------------

    async def send(self, value: object, to: int, tag: int = 0, *, moved: Moved | None = None) -> None:
        """Send a value to one member. A large one waits until it is received there.

        `moved` is told the bytes of a large one that have left.

        Raises:
            PeerLost: that member is gone.
            OperationMismatch: that member refused it.
        """
        to = checked_rank(to, self.size, but=self.rank)
        tree = take_apart(value)
        await self.engine.messages.send(to, tag, tree.to_wire(), to_bytes(tree).data, moved)

    async def recv(self, of: int | None = None, tag: int = 0, *, moved: Moved | None = None) -> Received:
        """The next value with that tag from that member, or from any. `moved` as for `send`.

        Raises:
            PeerLost: that member is gone.
            RemoteProtocolError: what came is no value, or too large.
        """
        if of is not None:
            of = checked_rank(of, self.size, but=self.rank)
        letter = await self.engine.messages.receive(of, tag)
        try:
            form = Tree.from_wire(letter.form, self._limit_bytes)
            if sum(leaf.size_bytes for leaf in form.leaves) != letter.size_bytes:
                raise LimitExceeded(f"a message of {letter.size_bytes} bytes for {form.what}")
        except DuetError:
            await self.engine.messages.refuse(letter)
            raise
        data = np.empty(letter.size_bytes, np.uint8)
        await self.engine.messages.accept(letter, data.data, moved)
        return Received(form.with_items(from_bytes(form, data)), letter.of, tag)

    # -- inside --------------------------------------------------------------------------------------------

    async def _mend(self, mean: Array, tree: Tree, element: Element, manner: Manner) -> None:
        """Take the mean anew, divided before it is summed, where it is no number: the sum may have been
        beyond the range. All members find the same places, since they have the same bits.
        """
        places: Array = await off_loop(mean.nbytes, not_finite, mean, element)
        if not len(places):
            return
        items = tree.flat(element)[places]
        divide(items, self.size, element)
        what = f"{len(places)} of {manner.what}, whose sum is no number"
        await self.flat.all_reduce(items, element, "sum", replace(manner, what=what))
        mean[places] = items

    async def _broadcast(self, data: Array, root: int, form: Tree, call: str) -> None:
        if len(data):
            manner = Manner(form.what, place=call)
            await self.flat.broadcast(data, UINT8, root, manner, restore=False)
