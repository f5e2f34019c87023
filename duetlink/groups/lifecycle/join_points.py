"""Points of a group: where newcomers come in, between operations and at the same place of all programs.

The lowest rank broadcasts who may come in, as an operation like any other, so that a member which calls
something else is found out. Then all wait for the epoch that has them.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.lifecycle.running import Running
from duetlink.groups.links.member_links import MemberLinks
from duetlink.groups.membership.member_state import MemberState

T = TypeVar("T")


class JoiningGroup(Protocol):
    """What a point needs of a group at one member."""

    standing: MemberState | None
    links: MemberLinks

    async def wait_ready(self) -> None: ...
    async def wait_change(self) -> None: ...
    def check_open(self) -> None: ...
    def admit(self, seats: tuple[int, ...], /) -> None: ...


class JoinPoints:
    """Those of one member. Belongs to the loop thread."""

    def __init__(self, group: JoiningGroup, running: Running) -> None:
        self._group = group
        self._running = running
        self._is_here = False  # this member is at a point
        self._is_passed = False  # the next point, with the epoch that has just admitted newcomers

    def entered(self, *, has_newcomers: bool) -> None:
        """An epoch begins."""
        self._is_passed = has_newcomers and not self._is_here

    async def point(self, call: str, admits: Callable[[int], bool] = lambda seat: True) -> None:
        """All members call this: newcomers who wait come in, of whom `admits` says yes. Returns in the epoch
        that follows, if any. Before the first epoch all come in.
        """

        async def nothing(collectives: Collectives) -> None:
            return

        if self._is_before_all:
            await self._admit_first()
            return
        await self._group.wait_ready()
        if self._is_passed:
            self._is_passed = False
            return
        await self.operate(nothing, call, admits)

    async def operate(
        self, work: Callable[[Collectives], Awaitable[T]], call: str, admits: Callable[[int], bool]
    ) -> T | None:
        """A point and the work after it, as one operation; None if somebody came in instead of the work.

        Where a loss interrupts a point and then an operation, some members may be at the one and some at the
        other. Here they are at the same, whatever happens. Raises as `Running.operate`.
        """
        if self._is_before_all:
            await self._admit_first()
            return None
        group = self._group
        self._is_passed = False
        self._is_here = True
        try:
            number, told, result = await self._running.operate(
                lambda collectives: self._admit_or_work(collectives, work, call, admits)
            )
            assert group.standing is not None
            epoch = group.standing.epoch
            if told and epoch.number == number and epoch.members[0] == group.standing.me:
                group.admit(tuple(told))
            while told and group.standing.epoch.number == number:
                group.check_open()
                await group.wait_change()
            return result
        finally:
            self._is_here = False

    @property
    def _is_before_all(self) -> bool:
        now = self._group.standing
        return now is not None and now.epoch.number == 0 and now.is_member

    async def _admit_first(self) -> None:
        """Begin the first epoch, with all who have come."""
        self._is_here = True
        try:
            self._group.admit(self._group.links.newcomers())
            await self._group.wait_ready()
        finally:
            self._is_here = False

    async def _admit_or_work(
        self,
        collectives: Collectives,
        work: Callable[[Collectives], Awaitable[T]],
        call: str,
        admits: Callable[[int], bool],
    ) -> tuple[int, bytes, T | None]:
        """The epoch, who may come in after it, as the lowest rank knows it, and what the work gave."""
        assert self._group.standing is not None
        number = self._group.standing.epoch.number
        newcomers = bytes(seat for seat in self._group.links.newcomers() if admits(seat))
        told = await collectives.broadcast_bytes(newcomers, 0, call=call)
        return number, told, None if told else await work(collectives)
