"""Epochs of a group as a pure state machine: a standing and an event in, the next standing and actions out.

Theory. An epoch is a number and its members. The next one is agreed on by the members of this one with
single-decree Paxos (Lamport, "Paxos Made Simple", 2001), one instance an epoch: a proposer asks for promises,
then for acceptance, and commits what a majority **of the members of this epoch** has accepted. Two
majorities share a member, so there is one next epoch at most, and two halves never both go on. Two rules are
added. A member promises only while it runs no operation, and begins none afterwards; and a proposer waits for
the promise of every member that is alive: an epoch changes between operations. There is no master. The
proposer is the lowest seat among those that are alive and stay, so a proposer that dies is replaced like
anybody else, and the next one finds out what it may have had accepted.

| event                    | what happens                                                                    |
|--------------------------|---------------------------------------------------------------------------------|
| Begun, Ended             | an operation runs here, or has ended; a promise that waited for that is given   |
| Gone, Heard Lost, if new | tell all; the epoch is revoked, which ends what runs; *consider*                |
| Missed, Found            | tell all                                                                        |
| Waited                   | give it up, as if Gone, once nobody contradicts                                 |
| Heard Missing            | remember it and tell it on, if new; look again whom nobody contradicts to be    |
|                          | given up                                                                        |
| Leave, Heard Leaving     | tell all; the epoch is revoked, which ends what runs; *consider*                |
| Heard Leaving of another | tell all, if new; its end is no loss, whichever message tells of it first       |
| AbortEpoch, EpochAborted | the same, with the same members: an operation failed, and left messages behind  |
| Admit                    | *consider* with these newcomers; all members wait for it, between operations    |
| Heard Prepare            | Refused, if the ballot is old. Else Promise, once nothing runs; one that says   |
|                          | who is lost revokes the epoch                                                   |
| Heard Promise            | from all that are alive: Accept, with what was accepted before, or ours         |
| Heard Refused            | a later ballot, if it is still this one's turn                                  |
| Heard Accept             | Refused, if the ballot is old. Else Accepted                                    |
| Heard Accepted           | from a majority: *enter*                                                        |
| Heard Commit             | of the next epoch: *enter*                                                      |

*Consider*: stop, if no majority is alive or in reach, or if all leave. If it is this one's turn, and the
members should change, or a ballot was begun, begin a later one.
*Enter*: revoke the last epoch, if a member of it is missing of whom nothing was said here. Tell Commit to
all, before anything of the new epoch. Stop, if no longer a member. Revoke it at once, if a member of it
leaves or is lost already. *Consider*.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from duetlink.errors import RemoteProtocolError
from duetlink.groups.membership import events
from duetlink.groups.membership.member_state import AgreementRound, MemberState, alive, times_missed
from duetlink.groups.membership.messages import (
    MOST_MEMBERS,
    Accept,
    Accepted,
    Ballot,
    Commit,
    Epoch,
    EpochAborted,
    Leaving,
    Lost,
    Message,
    Missing,
    Prepare,
    Promise,
    Proposal,
    Refused,
)


def step(standing: MemberState, event: events.Event) -> tuple[MemberState, list[events.Action]]:
    """One step. Raises RemoteProtocolError for a message that no member sends, before anything changes."""
    turn = _Turn(standing)
    turn.take(event)
    return turn.now, turn.actions


class _Turn:
    """The working of one step."""

    def __init__(self, standing: MemberState) -> None:
        self.now = standing
        self.actions: list[events.Action] = []

    def take(self, event: events.Event) -> None:
        if self.now.stopped and not isinstance(event, events.Ended):
            return
        match event:
            case events.Begun():
                assert self.now.may_begin
                self._set(busy=True)
            case events.Ended(finished):
                self._set(busy=False, finished=self.now.finished + finished)
                if self.now.owed is not None and not self.now.stopped:
                    self._promise(self.now.owed)
            case events.Gone(seat):
                self._separate(self.now.me, seat, lost=seat)
            case events.Missed(seat):
                self._miss(self.now.me, seat)
            case events.Found(seat):
                self._set(waited=self.now.waited - {seat})
                self._find(self.now.me, seat)
            case events.Waited(seat):
                self._set(waited=self.now.waited | {seat})
                self._give_up()
            case events.AbortEpoch():
                self._spoil()
            case events.Leave():
                self._expect(self.now.me, Leaving(self.now.epoch.number))
                self._part(self.now.me)
            case events.Admit(seats):
                self._set(admitting=self.now.admitting | frozenset(seats), due=True)
                self._consider()
            case events.MessageReceived(sender, message):
                self._hear(sender, message)

    def _set(self, **changes: object) -> None:
        self.now = replace(self.now, **changes)  # type: ignore[arg-type]

    # -- messages --------------------------------------------------------------------------------------------

    def _hear(self, sender: int, message: Message) -> None:
        now = self.now
        match message:
            case Lost(one=one, other=other):  # a fact, in whichever epoch
                self._separate(one, other, lost=one if other in (now.me, sender) else other)
                return
            case Leaving(seat=None):
                self._expect(sender, Leaving(now.epoch.number, sender))
                self._part(sender)
                return
            case Leaving(seat=int(seat)):
                if seat != now.me:
                    self._expect(seat, Leaving(now.epoch.number, seat))
                return
            case Commit(epoch=number, proposal=proposal):
                members = proposal.members
                if number <= now.epoch.number or (now.is_member and number != now.epoch.number + 1):
                    return  # heard before
                if now.is_member and sender not in {*now.epoch.members, *members}:
                    raise RemoteProtocolError(f"member {sender} committed an epoch that it has no part in")
                self._enter(Epoch(number, members), proposal.even)
                return
        if message.epoch != now.epoch.number or not now.is_member or sender not in now.epoch.members:
            return  # said before the sender knew of this epoch
        match message:
            case Missing(by=by, seat=seat, back=back):
                if by == sender and back:
                    self._find(by, seat)
                elif by != now.me and {by, seat} <= set(now.epoch.members):
                    self._miss(by, seat, is_now=by == sender)
            case Prepare(ballot=ballot, without=without):
                self._own(sender, ballot)
                if ballot < now.promised:
                    self.actions.append(
                        events.SendToMember(sender, Refused(now.epoch.number, ballot, now.promised))
                    )
                    return
                self._set(promised=ballot)
                if without:
                    self._revoke_for(without)
                self._promise(ballot)
            case EpochAborted():
                self._spoil()
            case Promise():
                self._promised(sender, message)
            case Refused(ballot=ballot, promised=promised):
                if now.round is not None and now.round.ballot == ballot:
                    self._set(round=None)
                    self._consider(after=promised)
            case Accept(ballot=ballot, proposal=proposal):
                self._own(sender, ballot)
                if ballot < now.promised:
                    self.actions.append(
                        events.SendToMember(sender, Refused(now.epoch.number, ballot, now.promised))
                    )
                    return
                self._set(promised=ballot, accepted=(ballot, proposal))
                self._say(sender, Accepted(now.epoch.number, ballot))
            case Accepted(ballot=ballot):
                self._accepted(sender, ballot)

    def _own(self, sender: int, ballot: Ballot) -> None:
        if ballot[1] != sender or ballot[0] < 1:
            raise RemoteProtocolError(f"member {sender} proposed under the ballot of member {ballot[1]}")

    def _say(self, to: int, message: Message) -> None:
        """To another member, or to this one, which hears it at once."""
        if to == self.now.me:
            self._hear(to, message)
        else:
            self.actions.append(events.SendToMember(to, message))

    # -- who is there ----------------------------------------------------------------------------------------

    def _separate(self, one: int, other: int, lost: int) -> None:
        pair = frozenset((one, other))
        if pair in self.now.broken:
            return
        self._set(
            broken=self.now.broken | {pair},
            accused=self.now.accused | {lost},
            waited=self.now.waited - (pair if self.now.me in pair else frozenset()),
        )
        self.actions.append(events.Tell(Lost(self.now.epoch.number, one, other)))
        if pair <= set(self.now.epoch.members):
            self._revoke(max(pair, key=lambda seat: (times_missed(self.now, seat), seat == lost)))
        self._give_up()
        self._consider()

    def _miss(self, by: int, seat: int, *, is_now: bool = True) -> None:
        now = self.now
        if is_now and by != seat:
            self._set(missing=now.missing | {(by, seat)})
        if {by, seat} <= set(now.epoch.members) and (is_now or (by, seat) not in now.missed):
            # others' state ends with an epoch or with their next word, so this member's own is always said
            is_new = by == now.me != seat or (by, seat) not in now.missed
            self._set(missed=now.missed | {(by, seat)})
            if is_new:
                self.actions.append(events.Tell(Missing(now.epoch.number, by, seat)))
            self._give_up()
            self._consider()

    def _find(self, by: int, seat: int) -> None:
        if (by, seat) in self.now.missing:
            self._set(missing=self.now.missing - {(by, seat)})
            if by == self.now.me:
                self.actions.append(events.Tell(Missing(self.now.epoch.number, by, seat, back=True)))

    def _give_up(self) -> None:
        """Those whom this member has waited for, and whom nobody hears that it hears itself."""
        for seat in sorted(self.now.waited):
            now = self.now
            members = now.epoch.members
            heard = {other for other in members if self.now.hears(now.me, other)} - {now.me, seat}
            if now.is_member and seat in members and any(self.now.hears(other, seat) for other in heard):
                continue
            self._set(waited=now.waited - {seat})
            self.actions.append(events.GiveUp(seat))
            self._separate(now.me, seat, lost=seat)

    def _expect(self, seat: int, word: Leaving) -> None:
        """That this seat leaves is told on, before anything that follows from it."""
        if seat not in self.now.expected:
            self._set(expected=self.now.expected | {seat})
            self.actions.append(events.Tell(word))

    def _part(self, seat: int) -> None:
        if seat in self.now.leaving:
            return
        self._set(leaving=self.now.leaving | {seat})
        if seat in self.now.epoch.members:
            self._revoke(seat)
        self._consider()

    def _spoil(self) -> None:
        if self.now.is_member and not self.now.due:
            self._set(due=True)
            self.actions.append(events.Tell(EpochAborted(self.now.epoch.number)))
            self._revoke(None)
            self._consider()

    def _revoke(self, seat: int | None) -> None:
        if not self.now.revoked and self.now.is_member:
            self._set(revoked=True)
            self.actions.append(events.Revoke(self.now.epoch, seat, seat in self.now.expected))

    def _revoke_for(self, missing: Iterable[int]) -> None:
        """For one of these: where it can be known, one that is gone and not one that is cut off from it."""
        expected, accused = self.now.expected, self.now.accused
        seat = min(missing, key=lambda seat: (seat == self.now.me, seat not in expected, seat not in accused))
        self._revoke(seat)

    def _consider(self, after: Ballot = (0, 0)) -> None:
        """Stop, or propose, if it is for this member to do."""
        now = self.now
        if now.stopped:
            return
        members = now.epoch.members
        if not now.is_member:
            if now.me in now.leaving:
                self._stop("this side closed the group", "left")
            elif frozenset((now.me, now.introducer)) in now.broken:
                self._stop("whoever let this member in was lost before it was admitted", "not admitted")
            return
        there = alive(now, members)
        staying = tuple(seat for seat in there if seat not in now.leaving)
        reached = [seat for seat in members if frozenset((now.me, seat)) not in now.broken]
        most = min(len(there), len(reached))
        if 2 * most <= len(members):
            self._stop(
                f"{most} of the {len(members)} members of epoch {now.epoch.number} are left in reach, which "
                "is no majority: the others may be going on without them",
                "no majority",
                tuple(seat for seat in members if seat not in there or seat not in reached),
            )
            return
        if not staying:
            self._stop("all members leave", "left")
            return
        fit = [
            seat
            for seat in sorted(now.admitting - set(members) - now.leaving)
            if not any(frozenset((seat, other)) in now.broken for other in staying)
        ]
        wanted = tuple(sorted((*staying, *fit[: MOST_MEMBERS - len(staying)])))
        if staying[0] != now.me:
            self._set(round=None)
            return
        if wanted == members and not now.promised[0] and not now.due:
            return
        if now.round is not None and now.round.members == wanted and now.round.alive == set(there):
            return
        ballot = (max(now.promised, after)[0] + 1, now.me)
        self._set(round=AgreementRound(ballot, frozenset(there), wanted))
        without = tuple(seat for seat in members if seat not in staying)
        for seat in there:
            if self._is_mine(ballot):
                self._say(seat, Prepare(now.epoch.number, ballot, without))

    def _is_mine(self, ballot: Ballot) -> bool:
        """Whether it is still the ballot that this member counts."""
        return self.now.round is not None and self.now.round.ballot == ballot

    # -- one ballot ------------------------------------------------------------------------------------------

    def _promise(self, ballot: Ballot) -> None:
        if self.now.busy:
            self._set(owed=ballot)
            return
        self._set(owed=None)
        self._say(ballot[1], Promise(self.now.epoch.number, ballot, self.now.finished, self.now.accepted))

    def _promised(self, sender: int, promise: Promise) -> None:
        mine, ballot = self.now.round, promise.ballot
        if mine is None or mine.ballot != ballot or mine.chosen is not None:
            return
        promises = dict(mine.promises) | {sender: promise}
        self._set(round=replace(mine, promises=tuple(promises.items())))
        if not mine.alive <= promises.keys():
            return
        earlier = [found.accepted for found in promises.values() if found.accepted is not None]
        even = len({found.finished for found in promises.values()}) == 1
        chosen = max(earlier, key=lambda found: found[0])[1] if earlier else Proposal(mine.members, even)
        assert self.now.round is not None
        self._set(round=replace(self.now.round, chosen=chosen))
        for seat in sorted(mine.alive):
            if self._is_mine(ballot):
                self._say(seat, Accept(self.now.epoch.number, ballot, chosen))

    def _accepted(self, sender: int, ballot: Ballot) -> None:
        mine = self.now.round
        if mine is None or mine.ballot != ballot or mine.chosen is None:
            return
        accepted = mine.accepted | {sender}
        self._set(round=replace(mine, accepted=accepted))
        if 2 * len(accepted) > len(self.now.epoch.members):
            self._enter(Epoch(self.now.epoch.number + 1, mine.chosen.members), mine.chosen.even)

    # -- the next epoch --------------------------------------------------------------------------------------

    def _enter(self, epoch: Epoch, even: bool) -> None:
        before = self.now
        missing = [seat for seat in before.epoch.members if seat not in epoch.members]
        if not before.revoked and (before.busy or missing):  # others went on without asking this one
            lost = missing[0] if missing else before.me
            self._revoke(lost)
        self._set(
            epoch=epoch,
            revoked=False,
            promised=(0, 0),
            accepted=None,
            finished=0,
            owed=None,
            round=None,
            admitting=before.admitting - set(epoch.members),
            due=False,
            missing=frozenset(pair for pair in before.missing if pair[0] == before.me),
            missed=frozenset(),
        )
        if self.now.is_member or before.is_member:
            # before anything that belongs to the new epoch, so that nobody hears of that first
            self.actions.append(events.Tell(Commit(epoch.number, Proposal(epoch.members, even))))
        if self.now.is_member:
            self.actions.append(events.Enter(epoch, even))
            there = alive(self.now, epoch.members)
            gone = [s for s in epoch.members if s not in there or s in self.now.leaving]
            if gone:
                self._revoke_for([*(self.now.accused & set(epoch.members)), *gone])
            for _, seat in sorted(self.now.missing):
                self._miss(self.now.me, seat)
        elif before.is_member:
            if before.me in before.leaving:
                self._stop("this side closed the group", "left")
            else:
                self._stop("the others go on without this member", "put out")
            return
        elif before.introducer not in epoch.members:
            self._stop(
                "the group went on without whoever let this member in, before it was admitted", "not admitted"
            )
            return
        self._consider()

    def _stop(self, why: str, end: events.End, without: tuple[int, ...] = ()) -> None:
        if self.now.is_member:
            self._revoke(self.now.me)
        self._set(stopped=why, round=None, owed=None)
        self.actions.append(events.Stop(why, end, without))
