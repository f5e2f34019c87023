"""A secure sum of residues that survives losses: it is finished or begun again in the next epoch."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence

from duetlink.errors import SecureSumFailed
from duetlink.groups.secure.accountable_round import AccountableRound
from duetlink.groups.secure.introduction import Held
from duetlink.groups.secure.keystream import Residues
from duetlink.groups.secure.masked_round import MaskedRound, NextStep, RoundOperations, next_step
from duetlink.groups.secure.participants import Participants


class ResidueSum:
    """One secure sum at one member. It keeps a round that a loss has interrupted until it is finished."""

    def __init__(self) -> None:
        self._kept: MaskedRound | None = None

    def check(self, participants: Participants, colluding: int, *, is_noisy: bool = False) -> None:
        """Raise GroupError, before anything is sent, if the sum would not hide a member's value."""
        if self._kept is None:  # else a sum over more members may have to be finished
            participants.check(colluding, is_noisy=is_noisy)

    async def run(
        self,
        wire: RoundOperations,
        participants: Participants,
        terms: bytes,
        colluding: int,
        make: Callable[[], Awaitable[Sequence[Residues]]],
        *,
        is_noisy: bool = False,
        accountable: bool = False,
    ) -> list[Residues]:
        """Return the sums over all members modulo 2^32 or 2^64, the width of the items; equal at all members.

        Args:
            wire: the operations of the current epoch.
            party: the members of that epoch.
            terms: bytes that have to be equal at all members, as a description of the sum.
            colluding: the number of members that may share what they know.
            make: returns this member's arrays, which are overwritten. It is called once for each new attempt,
                and not when an interrupted attempt is finished.
            is_noisy: the arrays have noise, which hides the value of a single honest member.
            accountable: find out which member gave garbage; residues then have 64 bits.

        Raises:
            GroupError: there are fewer than three members, or all but one may collude.
            OperationMismatch: the members' calls differ.
            RemoteProtocolError: a member breaks the protocol; the text names it.
            SecureSumFailed: the sum was interrupted while it was being opened, and cannot be finished; or a
                member gave garbage, and the error names it.
            PeerLost: a member is lost; call this again in the next epoch.
        """
        self.check(participants, colluding, is_noisy=is_noisy)
        kept = self._kept
        kind = AccountableRound if accountable else MaskedRound
        attempt = kind(participants, wire.flat.engine.rank, terms)
        received = await attempt.introduce(wire, Held() if kept is None else kept.held)
        held = [each.held for each in received]
        decision = next_step(held, kept is not None and kept.can_finish(participants))
        if decision is NextStep.STOP:
            raise SecureSumFailed(
                "a member was lost while this sum was being opened, and those who are left cannot finish it. "
                "It is not repeated automatically: two sums of the same values over different members differ "
                "by a member's value, and a member may know the first one"
            )
        if decision is NextStep.FINISH:
            assert kept is not None
            found = await kept.finish(wire, participants)
        else:
            self._kept = kept = attempt  # a round that was kept before is never opened
            participants.check(colluding, is_noisy=is_noisy)
            await kept.mask(wire, await make())
            await kept.commit(wire)
            found = await kept.open(wire)
        self._kept = None
        return found
