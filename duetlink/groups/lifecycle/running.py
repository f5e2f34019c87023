"""A member's operations: each runs in one epoch, and is repeated in the next one if a loss interrupts it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Protocol, TypeVar

from duetlink.base.reraise import reraise
from duetlink.errors import DuetError, PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.lifecycle.losses import Losses
from duetlink.groups.lifecycle.open_epoch import OpenEpoch
from duetlink.groups.membership.events import AbortEpoch, Begun, Ended, Event
from duetlink.groups.membership.member_state import MemberState

T = TypeVar("T")


class OperatingMember(Protocol):
    """The parts of a group that running operations use; `GroupLife` has them."""

    member_state: MemberState | None
    why_closed: DuetError | None
    open_epoch: OpenEpoch | None

    @property
    def is_ready(self) -> bool: ...
    async def wait_ready(self) -> None: ...
    async def wait_change(self) -> None: ...
    def feed(self, event: Event, /) -> None: ...
    def answer_leavers(self) -> None: ...


class Running:
    """All operations of one member. Used on the loop thread."""

    def __init__(self, member: OperatingMember, on_loss: str) -> None:
        self.on_loss = on_loss
        self.losses = Losses()
        self._member = member
        self._count = 0

    def attempts(self, *, counts: bool = True) -> Attempts:
        """Return the attempts of one operation.

        `counts` is True for an operation that all members call, False for `send`, `recv` and queries.
        """
        return Attempts(self, counts=counts)

    async def operate(self, work: Callable[[Collectives], Awaitable[T]], *, counts: bool = True) -> T:
        """Run one operation, in as many attempts as it needs. Raises as `Attempts`, and as `work`."""
        attempts = self.attempts(counts=counts)
        while True:
            async with attempts as collectives:
                return await work(collectives)

    async def begin(self) -> OpenEpoch:
        """Begin one operation, as soon as the epoch is not about to change.

        Raises a loss that no operation has raised yet, or the reason why the group has closed.
        """
        member, losses = self._member, self.losses
        if not member.is_ready:
            await member.wait_ready()
        while True:
            now = member.member_state
            assert now is not None
            if member.why_closed is not None:
                raise reraise(member.why_closed)
            if losses.are_known and (unraised := losses.take_unraised(self.on_loss)) is not None:
                raise unraised
            joined = self._count and not now.revoked
            epoch = member.open_epoch
            if (
                (now.may_begin or joined)
                and not losses.is_in_doubt
                and epoch is not None
                and not epoch.collectives.broken
            ):
                break
            await member.wait_change()
        if losses.are_known and (uneven := losses.take_uneven()) is not None:
            raise uneven
        if not self._count:
            member.feed(Begun())
        self._count += 1
        return epoch

    def ended(self, epoch: OpenEpoch, error: BaseException | None, *, counts: bool) -> None:
        """Note that an operation has ended here; it succeeded if `error` is None."""
        member = self._member
        assert member.member_state is not None
        if isinstance(error, Exception):
            self.losses.raised()  # this error covers the loss: a member that was put out raises the reason
        self._count -= 1
        if epoch.needs_new_epoch and member.member_state.epoch.number == epoch.number:
            member.feed(AbortEpoch())
        if not self._count:
            member.feed(Ended(int(counts and error is None)))
        member.answer_leavers()

    async def may_try_again(self, epoch: OpenEpoch) -> bool:
        """Wait for the next epoch, and return True if the interrupted operation is to be run again.

        Returns False at once with `on_loss="raise"`. Raises the reason if there will be no next epoch.
        """
        member = self._member
        if self.on_loss == "raise":
            return False
        while member.member_state is not None and member.member_state.epoch.number == epoch.number:
            if member.why_closed is not None:
                raise reraise(member.why_closed)
            await member.wait_change()
        return self.losses.may_try_again(epoch.number)


class Attempts:
    """The attempts of one operation: `while True: async with attempts as collectives: return await …`.

    An attempt runs in the current epoch, or in the next one if the epoch is about to change. With
    `on_loss="continue"`, an operation that a loss has interrupted is tried again among the members that are
    left, if all of them were interrupted in the same operation: the block swallows the error, and the loop
    goes on. If some members had finished it, it is not tried again; those members raise PeerLost from their
    next operation.

    Raises:
        PeerLost: a member is lost; raised once for each loss, at every other member. Or a member has left
            that an operation still needed; raised once at every other member.
        GroupOver: this member is no longer in the group.
    """

    def __init__(self, running: Running, *, counts: bool) -> None:
        self._running = running
        self._counts = counts
        self._epoch: OpenEpoch | None = None

    async def __aenter__(self) -> Collectives:
        self._epoch = await self._running.begin()
        return self._epoch.collectives

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        epoch, self._epoch = self._epoch, None
        assert epoch is not None
        self._running.ended(epoch, error, counts=self._counts)
        if not isinstance(error, PeerLost):
            return False
        try:
            return await self._running.may_try_again(epoch)
        except DuetError as over:
            raise over from None
