"""The state of one member between two steps of `machine.py`, and the list of members that are alive.

Alive. A link that is gone for good is a fact about a pair of members, which all members tell each other. To
find out who is alive, the member with the most broken links is removed, again and again until no two that
are left have a broken link between them. Ties are decided against the member that more members have missed,
then against the higher seat. A member that died has a broken link to everybody, so it is removed first.
Members that know the same facts compute the same list.

Missing. A member that receives nothing from another one reports that it misses it; a process that finds out
that it was stopped itself reports itself. After `patience_s`, a silent member is given up at once if every
member that this one can hear misses it too, as they do when it died. Otherwise only the link between the two
is late, and is waited for once more. This is the idea of the indirect probes of SWIM (Das, Gupta and
Motivala, 2002). Reports are kept until the epoch ends: if a pair stays without its link, they decide which of
the two has to go.

Newcomers. A newcomer is outside the epoch until a Commit names it. It stops if the host that introduced it
leaves the group or is lost. A member that has stopped stays stopped.
"""

from __future__ import annotations

from collections.abc import Iterable

import msgspec

from duetlink.groups.membership.messages import Ballot, Epoch, Promise, Proposal


class AgreementRound(msgspec.Struct, frozen=True):
    """One ballot that this member proposes, with the answers so far."""

    ballot: Ballot
    alive: frozenset[int]  # seats whose promises are needed
    members: tuple[int, ...]  # to propose, unless a promise reports a proposal that was accepted before
    promises: tuple[tuple[int, Promise], ...] = ()  # by the sender's seat
    chosen: Proposal | None = None  # the proposal that was sent to be accepted
    accepted: frozenset[int] = frozenset()  # seats that accepted it


class MemberState(msgspec.Struct, frozen=True):
    """The state of one member. Members are named by their seats.

    A founder begins as the only member of epoch 0, a newcomer outside of the epoch that it was told.
    """

    me: int
    epoch: Epoch
    introducer: int = 0  # the host that let this member in
    busy: bool = False  # an operation runs here
    revoked: bool = False  # the operations of this epoch have been ended
    stopped: str = ""  # why this member is out of the group; empty while it is not
    broken: frozenset[frozenset[int]] = frozenset()  # pairs whose link is gone for good
    accused: frozenset[int] = frozenset()  # in each such pair, the member that the other one reported as lost
    missing: frozenset[tuple[int, int]] = frozenset()  # (a, b): a misses b now
    missed: frozenset[tuple[int, int]] = frozenset()  # (a, b): a has missed b in this epoch
    waited_for: frozenset[int] = frozenset()  # silent here for `patience_s`, but other members hear them
    leaving: frozenset[int] = frozenset()  # members that have announced themselves that they leave
    announced: frozenset[int] = frozenset()  # members that leave, by their own message or a relayed one
    admitting: frozenset[int] = frozenset()  # newcomers for the next epoch
    change_due: bool = False  # a new epoch is needed even if its members are the same
    promised: Ballot = (0, 0)  # the latest ballot that this member has promised
    accepted: tuple[Ballot, Proposal] | None = None  # the latest proposal that it has accepted
    finished: int = 0  # operations of this epoch that succeeded here
    owed_promise: Ballot | None = None  # a promise to be sent when the running operation has ended
    round: AgreementRound | None = None

    @property
    def is_member(self) -> bool:
        return self.me in self.epoch.members

    @property
    def may_begin(self) -> bool:
        """True while an operation may begin: none runs here, and no change of the epoch is under way."""
        return self.is_member and not (self.busy or self.revoked or self.stopped or self.promised[0])

    @property
    def is_settled(self) -> bool:
        """True if this member has stopped, or is in an epoch that is not about to change."""
        return bool(self.stopped) or (self.is_member and not self.revoked and not self.promised[0])

    def hears(self, one: int, other: int) -> bool:
        """Return True unless `one` is known to miss `other`, or to have no link to it."""
        return (one, other) not in self.missing and frozenset((one, other)) not in self.broken


def alive(state: MemberState, members: Iterable[int]) -> tuple[int, ...]:
    """Return those of `members` that are left after dropping the one with most broken links, repeatedly.

    No two of the returned seats have a broken link between them. This is a greedy vertex cover; ties go
    against the member that was missed by more members, then against the higher seat.
    """
    left = set(members)
    while pairs := [pair for pair in state.broken if pair <= left]:
        left.remove(
            max(
                left,
                key=lambda seat: (sum(seat in pair for pair in pairs), times_missed(state, seat), seat),
            )
        )
    return tuple(sorted(left))


def times_missed(state: MemberState, seat: int) -> int:
    """Count the members that have missed `seat` in this epoch, itself included."""
    return sum(missed == seat for _, missed in state.missed)
