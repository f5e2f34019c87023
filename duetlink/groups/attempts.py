"""One operation of a member, run in one epoch after the other where losses interrupt it."""

from __future__ import annotations

from types import TracebackType
from typing import Protocol

from duetlink.errors import DuetError, PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.open_epoch import OpenEpoch


class Operating(Protocol):
    """What an operation needs of the group."""

    async def begin(self) -> OpenEpoch: ...
    def ended(self, epoch: OpenEpoch, error: BaseException | None, /, *, counts: bool) -> None: ...
    async def may_try_again(self, epoch: OpenEpoch, /) -> bool: ...


class Attempts:
    """`while True: async with attempts as collectives: return await …`, in the epoch that there is, or in the
    next one, where it is about to change.

    With `on_loss="continue"` what a loss has interrupted is tried again among those who are left, where
    all of them were interrupted in the same operation: the error ends with the block, and not the loop. Where
    some had finished it, nobody tries again: those raise PeerLost from their next operation.

    Raises:
        PeerLost: a member is lost, once for each at every other member. Also where a member has left
            that an operation still needed, once at every other member.
        GroupOver: this member is in the group no more.
    """

    def __init__(self, group: Operating, *, counts: bool) -> None:
        """`counts` where all members call the operation, and have to have finished the same ones."""
        self._group = group
        self._counts = counts
        self._epoch: OpenEpoch | None = None

    async def __aenter__(self) -> Collectives:
        self._epoch = await self._group.begin()
        return self._epoch.collectives

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        epoch, self._epoch = self._epoch, None
        assert epoch is not None
        self._group.ended(epoch, error, counts=self._counts)
        if not isinstance(error, PeerLost):
            return False
        try:
            return await self._group.may_try_again(epoch)
        except DuetError as over:
            raise over from None
