"""A group's operations on the loop thread: each is allowed here, written down, run, and ended in time."""

from __future__ import annotations

import asyncio
import contextlib
import math
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from numbers import Real
from types import FunctionType, MethodType
from typing import Any, SupportsIndex, TypeVar

from duetlink.errors import (
    AuditUnavailable,
    CallTimeout,
    DuetError,
    LinkClosed,
    OperationRefused,
    SettingError,
)
from duetlink.groups import averaging, shared_state
from duetlink.groups.call import Call
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.engine import INTERRUPTED
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.life import GroupLife
from duetlink.groups.records import Records
from duetlink.groups.secure import averages
from duetlink.groups.secure.party import Party
from duetlink.groups.secure.sums import SecureSum

T = TypeVar("T")

_SUMS = ("sum", "mean")
OPERATIONS = (
    "admit",
    "all_gather",
    "all_reduce",
    "all_to_all",
    "average",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
    "sync",
)


class Operations:
    """What `Group` runs, with the same arguments. Loop thread only, but for `calls`."""

    def __init__(self, life: GroupLife, records: Records, only: Sequence[str] | None) -> None:
        self.calls: list[Call] = []  # under way, the oldest first
        self._life = life
        self._records = records
        self._only = None if only is None else frozenset(only)
        self._beginning = asyncio.Lock()  # operations begin in the order of their calls
        self._entered = -1  # the last epoch that the audit log knows of

    async def admit(self, call: Call, *, timeout_s: float | None = None) -> None:
        async with self._timed(call, "admit", timeout_s):
            await self._in_order()
            await self._life.point(f"admit at {call.place}")

    async def average(
        self,
        call: Call,
        value: Any,
        weight: float | None,
        options: ReduceOptions,
        *,
        timeout_s: float | None = None,
    ) -> Any:
        self.check("average", "average", secure=options.secure)
        averaging.state_of(value)  # a model that has no mean is refused before anything begins
        sums = SecureSum()
        async with self._timed(call, "average", timeout_s):
            await self._in_order()
            if self._life.grows:
                await self._life.point(f"average at {call.place}")
            attempts = self._life.running.attempts()
            while True:
                async with attempts as collectives:
                    async with self._begun(collectives, call):
                        kind = "secure_average" if options.secure else "average"
                        await self.note(kind, averaging.state_of(value))
                    if not options.secure:
                        return await averaging.average(collectives, value, weight, call.place)
                    party = Party(*self._life.roll())
                    return await averages.average(
                        sums, collectives, party, value, weight, options, call=call.place
                    )

    async def sync(self, call: Call, state: Any, *, timeout_s: float | None = None) -> Any:
        given = averaging.state_of(state)
        found, _ = await self._run(
            call, "sync", given, lambda c: shared_state.sync(c, state, call.place), timeout_s
        )
        return found

    async def all_reduce(
        self, call: Call, value: Any, options: ReduceOptions, *, timeout_s: float | None = None
    ) -> Any:
        self.check("all_reduce", "sum" if options.is_sum else "all_reduce", secure=options.secure)
        call.codec = options.codec or ""
        sums = SecureSum() if options.secure else None
        async with self._timed(call, "all_reduce", timeout_s):
            attempts = self._life.running.attempts()
            while True:
                async with attempts as collectives:
                    async with self._begun(collectives, call):
                        given = value
                        if isinstance(value, FunctionType | MethodType):
                            given = await asyncio.to_thread(value, collectives.rank, collectives.size)
                        await self.note("all_reduce" if sums is None else "secure_all_reduce", given)
                    if sums is None:
                        return await collectives.all_reduce(given, options, call=call.place)
                    party = Party(*self._life.roll())
                    return await sums.run(collectives, party, given, options, call=call.place)

    async def reduce(
        self,
        call: Call,
        value: Any,
        root: int = 0,
        op: str = "sum",
        *,
        codec: str | None = None,
        timeout_s: float | None = None,
    ) -> Any:
        call.codec = codec or ""
        return await self._run(
            call,
            "reduce",
            value,
            lambda c: c.reduce(value, root, op, codec=codec, call=call.place),
            timeout_s,
            sums=op in _SUMS,
        )

    async def reduce_scatter(
        self, call: Call, values: Sequence[Any], op: str = "sum", *, timeout_s: float | None = None
    ) -> Any:
        return await self._run(
            call,
            "reduce_scatter",
            values,
            lambda c: c.reduce_scatter(values, op, call=call.place),
            timeout_s,
            sums=op in _SUMS,
        )

    async def broadcast(
        self,
        call: Call,
        value: Any = None,
        root: int = 0,
        *,
        in_place: bool = False,
        timeout_s: float | None = None,
    ) -> Any:
        return await self._run(
            call,
            "broadcast",
            value,
            lambda c: c.broadcast(value, root, in_place=in_place, call=call.place),
            timeout_s,
            root=root,
        )

    async def all_gather(self, call: Call, value: Any, *, timeout_s: float | None = None) -> Any:
        return await self._run(
            call, "all_gather", value, lambda c: c.all_gather(value, call=call.place), timeout_s
        )

    async def gather(
        self, call: Call, value: Any, root: int = 0, *, timeout_s: float | None = None
    ) -> list[Any] | None:
        return await self._run(
            call, "gather", value, lambda c: c.gather(value, root, call=call.place), timeout_s, to=root
        )

    async def scatter(
        self,
        call: Call,
        values: Sequence[Any] | None = None,
        root: int = 0,
        *,
        timeout_s: float | None = None,
    ) -> Any:
        return await self._run(
            call, "scatter", values, lambda c: c.scatter(values, root, call=call.place), timeout_s, root=root
        )

    async def all_to_all(self, call: Call, values: Sequence[Any], *, timeout_s: float | None = None) -> Any:
        return await self._run(
            call, "all_to_all", values, lambda c: c.all_to_all(values, call=call.place), timeout_s
        )

    async def barrier(self, call: Call, *, timeout_s: float | None = None) -> None:
        async with self._timed(call, "barrier", timeout_s):
            attempts = self._life.running.attempts()
            while True:
                async with attempts as collectives:
                    await self._in_order()
                    return await collectives.barrier(call=call.place)

    async def send(
        self, call: Call, value: Any, to: int, tag: int = 0, *, timeout_s: float | None = None
    ) -> None:
        _check_tag(tag)
        await self._run(
            call,
            "send",
            value,
            lambda c: c.send(value, to, tag, moved=call.note),
            timeout_s,
            to=to,
            counts=False,
        )

    async def recv(
        self, call: Call, of: int | None = None, tag: int = 0, *, timeout_s: float | None = None
    ) -> Any:
        _check_tag(tag)
        return await self._run(
            call, "recv", None, lambda c: c.recv(of, tag, moved=call.note), timeout_s, counts=False
        )

    async def _run(
        self,
        call: Call,
        name: str,
        value: Any,
        work: Callable[[Collectives], Awaitable[T]],
        timeout_s: float | None,
        *,
        sums: bool = False,
        root: int | None = None,
        to: int | None = None,
        counts: bool = True,
    ) -> T:
        """One operation: allowed, written down, run. Only `root` gives, only `to` gets a value, if given."""
        self.check(name, "sum" if sums else name)
        async with self._timed(call, name, timeout_s):
            attempts = self._life.running.attempts(counts=counts)
            while True:
                async with attempts as collectives:
                    # nobody but the one member waits for a message, and it goes on waiting
                    async with self._begun(collectives, call) if counts else self._beginning:
                        if value is not None and root in (None, collectives.rank) and to != collectives.rank:
                            await self.note(name, value, to)
                    return await work(collectives)

    async def _in_order(self) -> None:
        """Until those that were called before have begun."""
        async with self._beginning:
            pass

    @contextlib.asynccontextmanager
    async def _timed(self, call: Call, name: str, timeout_s: float | None) -> AsyncIterator[None]:
        """The call is under way in this block, for that long at most. Raises SettingError, CallTimeout."""
        if timeout_s is not None and (not isinstance(timeout_s, Real) or math.isnan(timeout_s)):
            raise SettingError(f"timeout_s is {timeout_s!r}: a number of seconds, or None to wait for ever")
        timeout = asyncio.timeout(timeout_s)
        call.name = name
        self.calls.append(call)
        try:
            async with timeout:
                yield
        except TimeoutError as error:
            if isinstance(error, DuetError) or not timeout.expired():
                raise
            raise CallTimeout(
                f"{name} has not finished within {timeout_s:g} s: see group.status() for who is slow"
            ) from None
        finally:
            self.calls.remove(call)

    @contextlib.asynccontextmanager
    async def _begun(self, collectives: Collectives, call: Call) -> AsyncIterator[None]:
        """What comes before the first message of a call, in the order of the calls. The others wait for that
        message: they are told where it does not come.
        """
        async with self._beginning:
            try:
                yield
            except BaseException as error:
                collectives.engine.abandon(str(call), _told(error))
                raise

    def check(self, name: str, as_what: str, *, secure: bool = False) -> None:
        """Raises OperationRefused: `only` does not allow what shows as much as that operation, or as a secure
        sum, which shows less.
        """
        allowed = self._only is None or as_what in self._only or (secure and "secure_sum" in self._only)
        if self._only is not None and not allowed:
            raise OperationRefused(
                f"{name} is not among what this group allows here: only={tuple(sorted(self._only))}"
            )

    async def note(
        self, name: str, value: Any, to: int | None = None, *, size_bytes: int | None = None
    ) -> None:
        """Write down that this member gives `value`, to all or to that rank. Raises AuditUnavailable."""
        life, now = self._life, self._life.standing
        if now is None:
            raise LinkClosed("the group is closed")
        names = [life.roster.entries[seat].name for seat in now.epoch.members]
        if now.epoch.number != self._entered:
            named = ", ".join(f"{rank} {member}" for rank, member in enumerate(names))
            await self._records.connected(named, life.roster.verifier())
            self._entered = now.epoch.number
        others = [
            f"{rank} {names[rank]}"
            for rank, seat in enumerate(now.epoch.members)
            if seat != now.me and to in (None, rank)
        ]
        await self._records.operation(name, ", ".join(others), value, now.epoch.number, size_bytes)


def _told(error: BaseException) -> str:
    """Why a call did not begin, for the other members: in no words that may hold what is this one's alone."""
    if isinstance(error, AuditUnavailable):
        return "its audit log cannot be written"
    if isinstance(error, asyncio.CancelledError):
        return INTERRUPTED
    return type(error).__name__


def _check_tag(tag: int) -> None:
    """Tags below 0 are duetlink's own."""
    if not isinstance(tag, SupportsIndex) or not 0 <= tag < 2**63:
        raise SettingError(f"tag is {tag!r}: a whole number from 0 to 2**63 - 1, the same at both members")
