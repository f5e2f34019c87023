"""A group's operations on the loop thread: checks that each is allowed, records it, and runs it in time."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import math
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from numbers import Real
from types import FunctionType, MethodType
from typing import Any, SupportsIndex

from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.errors import (
    AuditUnavailable,
    CallTimeout,
    DuetError,
    LinkClosed,
    OperationRefused,
    SettingError,
)
from duetlink.groups.api import model_copies, shared_state
from duetlink.groups.api.call import Call
from duetlink.groups.api.records import Records
from duetlink.groups.collectives import averaging
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution.engine import INTERRUPTED
from duetlink.groups.collectives.point_to_point import PointToPoint
from duetlink.groups.collectives.reduce_options import SUMS, ReduceOptions
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.groups.secure import averages
from duetlink.groups.secure.participants import Participants
from duetlink.groups.secure.sums import SecureSum

# operations that are one method of `Collectives` or `PointToPoint` with the same arguments
_PLAIN = (
    "all_gather",
    "all_to_all",
    "barrier",
    "broadcast",
    "gather",
    "recv",
    "reduce",
    "reduce_scatter",
    "scatter",
    "send",
)
OPERATIONS = tuple(sorted((*_PLAIN, "admit", "all_reduce", "average", "sync")))
_BY_ONE = ("recv", "send")  # operations between two members, which the others do not call
_REDUCTIONS = ("reduce", "reduce_scatter")
_ONE_OF_EACH = ("all_gather", "gather")  # these return a list with the value of each member
_ROOT_GIVES = {"broadcast": True, "scatter": True, "gather": False}  # in other operations every member sends


@functools.cache
def _signature(name: str) -> inspect.Signature:
    return inspect.signature(getattr(PointToPoint if name in _BY_ONE else Collectives, name))


class Operations:
    """The operations of `Group`, with the same arguments.

    Used on the loop thread; other threads may read `calls`. The methods that return a coroutine are called on
    the caller's thread, where tensors on accelerators begin to be copied to the CPU.
    """

    def __init__(self, life: GroupLife, records: Records, only: Sequence[str] | None) -> None:
        self.calls: list[Call] = []  # under way, the oldest first
        self._life = life
        self._records = records
        self._only = None if only is None else frozenset(only)
        self._beginning = asyncio.Lock()  # operations begin in the order of their calls
        self._entered = -1  # number of the last epoch that was written to the audit log

    async def admit(self, call: Call, *, timeout_s: float | None = None) -> None:
        async with self._timed(call, "admit", timeout_s):
            await self._in_order()
            await self._life.join_points.admit_newcomers(f"admit at {call.place}")

    def average(
        self,
        call: Call,
        value: Any,
        weight: float | None,
        options: ReduceOptions,
        *,
        timeout_s: float | None = None,
    ) -> Coroutine[Any, Any, Any]:
        given = model_copies.to_host(call.copies, value)
        return self._average(call, value, given, weight, options, timeout_s)

    async def _average(
        self,
        call: Call,
        value: Any,
        given: Any,
        weight: float | None,
        options: ReduceOptions,
        timeout_s: float | None,
    ) -> Any:
        self.check("average", "average", secure=options.secure)
        averaging.state_of(value)  # raises for a model that has no mean, before anything begins
        sums = SecureSum()
        async with self._timed(call, "average", timeout_s):
            await self._in_order()
            if self._life.grows:
                await self._life.join_points.admit_newcomers(f"average at {call.place}")
            attempts = self._life.running.attempts()
            while True:
                async with attempts as collectives:
                    async with self._begun(collectives, call):
                        await call.copies.arrived()
                        kind = "secure_average" if options.secure else "average"
                        await self.note(kind, averaging.state_of(given))
                    if not options.secure:
                        found = await averaging.average(collectives, given, weight, call.place)
                    else:
                        participants = Participants(*self._life.roll())
                        found = await averages.average(
                            sums, collectives, participants, given, weight, options, call=call.place
                        )
                    return await model_copies.to_device(call.copies, found, given, value)

    def sync(self, call: Call, state: Any, *, timeout_s: float | None = None) -> Coroutine[Any, Any, Any]:
        return self._sync(call, state, model_copies.to_host(call.copies, state), timeout_s)

    async def _sync(self, call: Call, state: Any, given: Any, timeout_s: float | None) -> Any:
        self.check("sync", "sync")
        noted = averaging.state_of(given)
        async with self._timed(call, "sync", timeout_s):
            attempts = self._life.running.attempts()
            while True:
                async with attempts as collectives:
                    async with self._begun(collectives, call):
                        await call.copies.arrived()
                        await self.note("sync", noted)
                    found, _ = await shared_state.sync(collectives, given, call.place)
                    return await model_copies.to_device(call.copies, found, given, state)

    def all_reduce(
        self, call: Call, value: Any, options: ReduceOptions, *, timeout_s: float | None = None
    ) -> Coroutine[Any, Any, Any]:
        return self._all_reduce(call, call.copies.to_host(value), options, timeout_s)

    async def _all_reduce(
        self, call: Call, value: Any, options: ReduceOptions, timeout_s: float | None
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
                            given = await asyncio.to_thread(_made, value, collectives, call.copies)
                        await call.copies.arrived()
                        await self.note("all_reduce" if sums is None else "secure_all_reduce", given)
                    if sums is None:
                        found = await collectives.all_reduce(given, options, call=call.place)
                    else:
                        participants = Participants(*self._life.roll())
                        found = await sums.run(collectives, participants, given, options, call=call.place)
                    if options.in_place:
                        await call.copies.write(given)
                    return await call.copies.to_device(found, given)

    def run(
        self, name: str, call: Call, /, *args: Any, timeout_s: float | None = None, **kwargs: Any
    ) -> Coroutine[Any, Any, Any]:
        """Run the operation `name` of `Collectives` or `PointToPoint`, which document its arguments.

        Raises SettingError for an invalid tag, OperationRefused if `only` does not allow the operation.
        """
        arguments = _signature(name).bind(None, *args, **kwargs).arguments
        return self._run(name, call, call.copies.to_host(arguments), timeout_s)

    async def _run(self, name: str, call: Call, given: dict[str, Any], timeout_s: float | None) -> Any:
        root, to = given.get("root", 0), given.get("to")
        if name in _BY_ONE:
            _check_tag(given.get("tag", 0))
            given["moved"] = call.note
        else:
            given["call"] = call.place
            call.codec = given.get("codec") or ""
        if name != "barrier":  # a barrier reveals nothing
            self.check(name, "sum" if name in _REDUCTIONS and given.get("op", "sum") in SUMS else name)
        value = given.get("value", given.get("values"))
        del given["self"]
        async with self._timed(call, name, timeout_s):
            attempts = self._life.running.attempts(counts=name not in _BY_ONE)
            while True:
                async with attempts as collectives:
                    # if this fails, only the receiver waits for the message, and it goes on waiting
                    async with self._beginning if name in _BY_ONE else self._begun(collectives, call):
                        await call.copies.arrived()
                        at_root = collectives.rank == root
                        gives = at_root == _ROOT_GIVES.get(name, at_root) and collectives.rank != to
                        if value is not None and gives:
                            await self.note(name, value, root if name == "gather" else to)
                    found = await getattr(collectives, name)(**given)
                    if given.get("in_place") and not at_root:
                        await call.copies.write(value)
                    like = [value] * collectives.size if name in _ONE_OF_EACH else value
                    return await call.copies.to_device(found, like)

    async def _in_order(self) -> None:
        """Wait until the operations that were called earlier have begun."""
        async with self._beginning:
            pass

    @contextlib.asynccontextmanager
    async def _timed(self, call: Call, name: str, timeout_s: float | None) -> AsyncIterator[None]:
        """List the call as under way in this block, for at most `timeout_s`.

        Raises CallTimeout after that, SettingError if `timeout_s` is not a number.
        """
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
                f"{name} has not finished within {timeout_s:g} s: see group.status() for slow members"
            ) from None
        finally:
            self.calls.remove(call)

    @contextlib.asynccontextmanager
    async def _begun(self, collectives: Collectives, call: Call) -> AsyncIterator[None]:
        """Enclose the preparation of a call, one call at a time and in their order.

        If the preparation fails, the other members, which wait for the first message, are notified.
        """
        async with self._beginning:
            try:
                yield
            except BaseException as error:
                collectives.engine.abandon(str(call), _reason(error))
                raise

    def check(self, name: str, as_what: str, *, secure: bool = False) -> None:
        """Raise OperationRefused if `only` does not allow the operation `name`.

        `as_what` is the entry of `only` that stands for operations that reveal as much. A `secure` operation
        is also allowed by "secure_sum".
        """
        allowed = self._only is None or as_what in self._only or (secure and "secure_sum" in self._only)
        if self._only is not None and not allowed:
            raise OperationRefused(
                f"{name} is not among what this group allows here: only={tuple(sorted(self._only))}"
            )

    async def note(
        self, name: str, value: Any, to: int | None = None, *, size_bytes: int | None = None
    ) -> None:
        """Record in the audit log that this member sends `value` to all members, or to rank `to`.

        `size_bytes` replaces the size of the value. Raises AuditUnavailable, LinkClosed.
        """
        life, now = self._life, self._life.member_state
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


def _made(make: Callable[[int, int], Any], collectives: Collectives, copies: HostCopies) -> Any:
    """Make the value of an `all_reduce`, on the thread whose streams then have the work for it."""
    return copies.to_host(make(collectives.rank, collectives.size))


def _reason(error: BaseException) -> str:
    """Return the reason for the other members why a call did not begin, without details of this member's
    data.
    """
    if isinstance(error, AuditUnavailable):
        return "its audit log cannot be written"
    if isinstance(error, asyncio.CancelledError):
        return INTERRUPTED
    return type(error).__name__


def _check_tag(tag: int) -> None:
    """Raise SettingError unless the tag is a whole number from 0 to 2**63 - 1; negative ones are reserved."""
    if not isinstance(tag, SupportsIndex) or not 0 <= tag < 2**63:
        raise SettingError(f"tag is {tag!r}: a whole number from 0 to 2**63 - 1, the same at both members")
