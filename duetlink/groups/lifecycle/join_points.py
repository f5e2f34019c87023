"""Join points: newcomers enter the group between operations, at the same place of all members' programs.

Rank 0 broadcasts the seats that may enter. This is an operation like any other, so a member that calls
something else at this point raises OperationMismatch everywhere. Then all wait for the epoch that has the
newcomers.
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
    """The parts of a group that join points use; `GroupLife` has them."""

    member_state: MemberState | None
    links: MemberLinks

    async def wait_ready(self) -> None: ...
    async def wait_change(self) -> None: ...
    def check_open(self) -> None: ...
    def admit(self, seats: tuple[int, ...], /) -> None: ...


class JoinPoints:
    """The join points of one member. Used on the loop thread."""

    def __init__(self, group: JoiningGroup, running: Running) -> None:
        self._group = group
        self._running = running
        self._is_here = False  # this member waits at a join point
        self._is_passed = False  # the next point does nothing: the epoch has just admitted newcomers

    def entered(self, *, has_newcomers: bool) -> None:
        """Note that an epoch begins. If it admitted newcomers elsewhere, the next point does nothing."""
        self._is_passed = has_newcomers and not self._is_here

    async def admit_newcomers(self, call: str, admits: Callable[[int], bool] = lambda seat: True) -> None:
        """Let waiting newcomers in for whose seat `admits` returns True. All members call it.

        Returns in the new epoch, if there is one. Before the first epoch all newcomers enter. `call` names
        the caller in error messages. Raises as `Running.operate`.
        """

        async def nothing(collectives: Collectives) -> None:
            return

        if self._is_before_first_epoch:
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
        """Run a join point and the work after it as one operation.

        Returns None if newcomers entered; the work was then not done. As one operation, a loss cannot leave
        some members at the point and others in the work. Raises as `Running.operate`.
        """
        if self._is_before_first_epoch:
            await self._admit_first()
            return None
        group = self._group
        self._is_passed = False
        self._is_here = True
        try:
            number, admitted, result = await self._running.operate(
                lambda collectives: self._admit_or_work(collectives, work, call, admits)
            )
            assert group.member_state is not None
            epoch = group.member_state.epoch
            if admitted and epoch.number == number and epoch.members[0] == group.member_state.me:
                group.admit(tuple(admitted))
            while admitted and group.member_state.epoch.number == number:
                group.check_open()
                await group.wait_change()
            return result
        finally:
            self._is_here = False

    @property
    def _is_before_first_epoch(self) -> bool:
        now = self._group.member_state
        return now is not None and now.epoch.number == 0 and now.is_member

    async def _admit_first(self) -> None:
        """Begin the first epoch with all members that have joined so far."""
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
        """Return the epoch's number, the seats that rank 0 wants to admit, and the result of the work.

        If there are such seats, the work is not done, and its result is None.
        """
        assert self._group.member_state is not None
        number = self._group.member_state.epoch.number
        newcomers = bytes(seat for seat in self._group.links.newcomers() if admits(seat))
        admitted = await collectives.broadcast_bytes(newcomers, 0, call=call)
        return number, admitted, None if admitted else await work(collectives)
