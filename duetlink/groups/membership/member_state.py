"""All that a member knows of its epoch, and who is left of one by that.

Who is alive. A link that is gone for good is a fact about a pair, which all tell to all. Of the members, the
one in the most such pairs is taken for lost (of several the one that more members have missed, then the
highest seat), until no pair is left. A member that died is in a pair with everybody. All who know of the same
facts reach the same list.

Who is missed. A member that hears nothing of another tells all that it misses it; one that finds that it was
stopped itself tells that it missed itself. A member that another one has waited for in vain is given up at
once where nobody contradicts: all others that can be heard miss it as well, as they do when it died. Else the
link between those two is late, and is waited for again; the same idea as the indirect probes of SWIM (Das,
Gupta and Motivala, 2002). That somebody was missed is remembered until the epoch ends: where a pair stays
without its link, it says which of the two is to go.

A newcomer is nobody's member until a Commit names it. It stops when whoever introduced it is gone, from the
group or out of its reach. Who has stopped stays stopped.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from duetlink.groups.membership.messages import Ballot, Epoch, Promise, Proposal


@dataclass(frozen=True, slots=True)
class AgreementRound:
    """A ballot of this member's."""

    ballot: Ballot
    alive: frozenset[int]  # whose promises are waited for
    members: tuple[int, ...]  # of the next epoch, unless an earlier proposer has had others accepted
    promises: tuple[tuple[int, Promise], ...] = ()
    chosen: Proposal | None = None  # what acceptance has been asked for
    accepted: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class MemberState:
    """All that a member knows. A founder begins as the only member of epoch 0; a newcomer outside."""

    me: int
    epoch: Epoch
    introducer: int = 0
    busy: bool = False
    revoked: bool = False
    stopped: str = ""
    broken: frozenset[frozenset[int]] = frozenset()  # pairs without a link
    accused: frozenset[int] = frozenset()  # of such a pair, the one that the other said was gone
    missing: frozenset[tuple[int, int]] = frozenset()  # who misses whom now
    missed: frozenset[tuple[int, int]] = frozenset()  # who has missed whom in this epoch
    waited: frozenset[int] = frozenset()  # who would be given up here, but others hear them
    leaving: frozenset[int] = frozenset()  # who have said so themselves
    expected: frozenset[int] = frozenset()  # of whom that is known, from them or others
    admitting: frozenset[int] = frozenset()
    due: bool = False  # the members wait for the next epoch, whoever is in it
    promised: Ballot = (0, 0)
    accepted: tuple[Ballot, Proposal] | None = None
    finished: int = 0  # operations of this epoch, here
    owed: Ballot | None = None  # a promise that waits for the end of an operation
    round: AgreementRound | None = field(default=None)

    @property
    def is_member(self) -> bool:
        return self.me in self.epoch.members

    @property
    def may_begin(self) -> bool:
        """Whether an operation may begin here."""
        return self.is_member and not (self.busy or self.revoked or self.stopped or self.promised[0])

    @property
    def is_settled(self) -> bool:
        """Whether nothing is to be waited for: stopped, or in an epoch that nobody changes."""
        return bool(self.stopped) or (self.is_member and not self.revoked and not self.promised[0])

    def hears(self, one: int, other: int) -> bool:
        """Whether that member hears the other one, as far as this one knows."""
        return (one, other) not in self.missing and frozenset((one, other)) not in self.broken


def alive(standing: MemberState, members: Iterable[int]) -> tuple[int, ...]:
    """Who is left of the members when of each pair without a link one is taken for lost."""
    left = set(members)
    while pairs := [pair for pair in standing.broken if pair <= left]:
        left.remove(
            max(
                left,
                key=lambda seat: (sum(seat in pair for pair in pairs), times_missed(standing, seat), seat),
            )
        )
    return tuple(sorted(left))


def times_missed(standing: MemberState, seat: int) -> int:
    """How many members have missed this one, itself included."""
    return sum(missed == seat for _, missed in standing.missed)
