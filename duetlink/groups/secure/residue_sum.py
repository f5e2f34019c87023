"""A secure sum of residues over as many epochs as it takes."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from duetlink.errors import SecureSumFailed
from duetlink.groups.secure.accountable_round import AccountableRound
from duetlink.groups.secure.introduction import Held
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.masked_round import MaskedRound, NextStep, RoundOperations, way_on
from duetlink.groups.secure.participants import Participants


class ResidueSum:
    """One call of one member. It keeps what a loss has interrupted, until the next epoch finishes it."""

    def __init__(self) -> None:
        self._kept: MaskedRound | None = None

    def check(self, party: Participants, colluding: int, *, is_noisy: bool = False) -> None:
        """Raise GroupError, before anything is sent, where nobody's value would be hidden."""
        if self._kept is None:  # else there may be a sum over more members to be finished
            party.check(colluding, is_noisy=is_noisy)

    async def run(
        self,
        wire: RoundOperations,
        party: Participants,
        terms: bytes,
        colluding: int,
        make: Callable[[], Awaitable[Sequence[Residues]]],
        *,
        is_noisy: bool = False,
        accountable: bool = False,
    ) -> list[Residues]:
        """The sums over all members, modulo the width of the items; the same at all of them.

        Args:
            wire: of the epoch that there is now.
            party: its members.
            terms: whatever all have to have called alike.
            colluding: how many members may put together what they have.
            make: gives this member's arrays, which are used up; called once for each attempt, and not where
                an attempt is finished.
            is_noisy: whether they have noise, which hides the value of a single honest member.
            accountable: whether who gave garbage is found out; residues then have 64 bits.

        Raises:
            GroupError: there are fewer than three members, or all but one may collude.
            OperationMismatch: the members have not called the same.
            RemoteProtocolError: a member does not keep to the protocol; it names the member.
            SecureSumFailed: the sum was interrupted while it was being opened, and cannot be finished; or
                a member gave garbage, and it names the member.
            PeerLost: a member is gone; call this again in the next epoch.
        """
        self.check(party, colluding, is_noisy=is_noisy)
        kept = self._kept
        kind = AccountableRound if accountable else MaskedRound
        attempt = kind(party, wire.flat.engine.rank, terms)
        told = await attempt.introduce(wire, Held() if kept is None else kept.held)
        held = [each.held for each in told]
        way = way_on(held, kept is not None and kept.can_finish(party))
        if way is NextStep.STOP:
            raise SecureSumFailed(
                "a member was lost while this sum was being opened, and those who are left cannot finish it. "
                "It is not made again by itself: two sums of the same values over different members differ "
                "by a member's value, and somebody may know the first one"
            )
        if way is NextStep.FINISH:
            assert kept is not None
            found = await kept.finish(wire, party)
        else:
            self._kept = kept = attempt  # whatever was kept before is burnt
            party.check(colluding, is_noisy=is_noisy)
            await kept.mask(wire, await make())
            await kept.commit(wire)
            found = await kept.open(wire)
        self._kept = None
        return found
