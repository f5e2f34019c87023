"""The epochs of a group as a pure state machine: a state and an event in, the next state and actions out.

The package's docstring has its theory and its transition table.
"""

from __future__ import annotations

from collections.abc import Iterable

from msgspec.structs import replace

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


def step(state: MemberState, event: events.Event) -> tuple[MemberState, list[events.Action]]:
    """Apply one event; returns the next state, and the actions to perform in this order.

    Raises RemoteProtocolError for a message that breaks the protocol; the state is then unchanged.
    """
    under_way = _Step(state)
    under_way.take(event)
    return under_way.now, under_way.actions


class _Step:
    """One step under way: the state so far, and the actions so far."""

    def __init__(self, state: MemberState) -> None:
        self.now = state
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
                if self.now.owed_promise is not None and not self.now.stopped:
                    self._promise(self.now.owed_promise)
            case events.Gone(seat):
                self._note_broken_link(self.now.me, seat, lost=seat)
            case events.Missed(seat):
                self._note_missing(self.now.me, seat)
            case events.Found(seat):
                self._set(waited_for=self.now.waited_for - {seat})
                self._note_found(self.now.me, seat)
            case events.Waited(seat):
                self._set(waited_for=self.now.waited_for | {seat})
                self._give_up()
            case events.AbortEpoch():
                self._abort_epoch()
            case events.Leave():
                self._relay_leaving(self.now.me, Leaving(self.now.epoch.number))
                self._note_leaving(self.now.me)
            case events.Admit(seats):
                self._set(admitting=self.now.admitting | frozenset(seats), change_due=True)
                self._stop_or_propose()
            case events.MessageReceived(sender, message):
                self._receive(sender, message)

    def _set(self, **changes: object) -> None:
        self.now = replace(self.now, **changes)

    # -- messages --------------------------------------------------------------------------------------------

    def _receive(self, sender: int, message: Message) -> None:
        now = self.now
        match message:
            case Lost(one=one, other=other):  # a fact about two seats, valid in every epoch
                self._note_broken_link(one, other, lost=one if other in (now.me, sender) else other)
                return
            case Leaving(seat=None):
                self._relay_leaving(sender, Leaving(now.epoch.number, sender))
                self._note_leaving(sender)
                return
            case Leaving(seat=int(seat)):
                if seat != now.me:
                    self._relay_leaving(seat, Leaving(now.epoch.number, seat))
                return
            case Commit(epoch=number, proposal=proposal):
                members = proposal.members
                if number <= now.epoch.number or (now.is_member and number != now.epoch.number + 1):
                    return  # known already
                if now.is_member and sender not in {*now.epoch.members, *members}:
                    raise RemoteProtocolError(
                        f"member {sender} committed epoch {number}, but is not in it or in the one before"
                    )
                self._enter(Epoch(number, members), proposal.even)
                return
        if message.epoch != now.epoch.number or not now.is_member or sender not in now.epoch.members:
            return  # sent before the sender knew of this epoch
        match message:
            case Missing(by=by, seat=seat, back=back):
                if by == sender and back:
                    self._note_found(by, seat)
                elif by != now.me and {by, seat} <= set(now.epoch.members):
                    self._note_missing(by, seat, is_now=by == sender)
            case Prepare(ballot=ballot, without=without):
                self._check_ballot(sender, ballot)
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
                self._abort_epoch()
            case Promise():
                self._promised(sender, message)
            case Refused(ballot=ballot, promised=promised):
                if now.round is not None and now.round.ballot == ballot:
                    self._set(round=None)
                    self._stop_or_propose(after=promised)
            case Accept(ballot=ballot, proposal=proposal):
                self._check_ballot(sender, ballot)
                if ballot < now.promised:
                    self.actions.append(
                        events.SendToMember(sender, Refused(now.epoch.number, ballot, now.promised))
                    )
                    return
                self._set(promised=ballot, accepted=(ballot, proposal))
                self._send(sender, Accepted(now.epoch.number, ballot))
            case Accepted(ballot=ballot):
                self._accepted(sender, ballot)

    def _check_ballot(self, sender: int, ballot: Ballot) -> None:
        if ballot[1] != sender or ballot[0] < 1:
            raise RemoteProtocolError(f"member {sender} proposed under the ballot of member {ballot[1]}")

    def _send(self, to: int, message: Message) -> None:
        """Send to another member; a message to this member itself is processed at once."""
        if to == self.now.me:
            self._receive(to, message)
        else:
            self.actions.append(events.SendToMember(to, message))

    # -- members that are lost, silent or leaving ------------------------------------------------------------

    def _note_broken_link(self, one: int, other: int, lost: int) -> None:
        pair = frozenset((one, other))
        if pair in self.now.broken:
            return
        self._set(
            broken=self.now.broken | {pair},
            accused=self.now.accused | {lost},
            waited_for=self.now.waited_for - (pair if self.now.me in pair else frozenset()),
        )
        self.actions.append(events.SendToAll(Lost(self.now.epoch.number, one, other)))
        if pair <= set(self.now.epoch.members):
            self._revoke(max(pair, key=lambda seat: (times_missed(self.now, seat), seat == lost)))
        self._give_up()
        self._stop_or_propose()

    def _note_missing(self, by: int, seat: int, *, is_now: bool = True) -> None:
        now = self.now
        if is_now and by != seat:
            self._set(missing=now.missing | {(by, seat)})
        if {by, seat} <= set(now.epoch.members) and (is_now or (by, seat) not in now.missed):
            # other members forget reports when an epoch ends, so this member's own is always sent again
            is_new = by == now.me != seat or (by, seat) not in now.missed
            self._set(missed=now.missed | {(by, seat)})
            if is_new:
                self.actions.append(events.SendToAll(Missing(now.epoch.number, by, seat)))
            self._give_up()
            self._stop_or_propose()

    def _note_found(self, by: int, seat: int) -> None:
        if (by, seat) in self.now.missing:
            self._set(missing=self.now.missing - {(by, seat)})
            if by == self.now.me:
                self.actions.append(events.SendToAll(Missing(self.now.epoch.number, by, seat, back=True)))

    def _give_up(self) -> None:
        """Give up each seat that was waited for, unless a member that this one can hear still hears it."""
        for seat in sorted(self.now.waited_for):
            now = self.now
            members = now.epoch.members
            heard = {other for other in members if self.now.hears(now.me, other)} - {now.me, seat}
            if now.is_member and seat in members and any(self.now.hears(other, seat) for other in heard):
                continue
            self._set(waited_for=now.waited_for - {seat})
            self.actions.append(events.GiveUp(seat))
            self._note_broken_link(now.me, seat, lost=seat)

    def _relay_leaving(self, seat: int, word: Leaving) -> None:
        """Relay the departure, before any message that depends on it."""
        if seat not in self.now.announced:
            self._set(announced=self.now.announced | {seat})
            self.actions.append(events.SendToAll(word))

    def _note_leaving(self, seat: int) -> None:
        if seat in self.now.leaving:
            return
        self._set(leaving=self.now.leaving | {seat})
        if seat in self.now.epoch.members:
            self._revoke(seat)
        self._stop_or_propose()

    def _abort_epoch(self) -> None:
        if self.now.is_member and not self.now.change_due:
            self._set(change_due=True)
            self.actions.append(events.SendToAll(EpochAborted(self.now.epoch.number)))
            self._revoke(None)
            self._stop_or_propose()

    def _revoke(self, seat: int | None) -> None:
        if not self.now.revoked and self.now.is_member:
            self._set(revoked=True)
            self.actions.append(events.Revoke(self.now.epoch, seat, seat in self.now.announced))

    def _revoke_for(self, missing: Iterable[int]) -> None:
        """Revoke the epoch on account of one of these seats.

        It is preferably one that announced that it leaves, then one that was reported as lost, and this
        member itself last: a seat that is only cut off from the lost one is not the cause.
        """
        announced, accused = self.now.announced, self.now.accused
        seat = min(
            missing, key=lambda seat: (seat == self.now.me, seat not in announced, seat not in accused)
        )
        self._revoke(seat)

    def _stop_or_propose(self, after: Ballot = (0, 0)) -> None:
        """Stop if the group cannot go on here; propose the next epoch if that is this member's turn."""
        now = self.now
        if now.stopped:
            return
        members = now.epoch.members
        if not now.is_member:
            if now.me in now.leaving:
                self._stop("this side closed the group", "left")
            elif frozenset((now.me, now.introducer)) in now.broken:
                self._stop(
                    "the member that let this one in was lost before this one was admitted", "not admitted"
                )
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
        if wanted == members and not now.promised[0] and not now.change_due:
            return
        if now.round is not None and now.round.members == wanted and now.round.alive == set(there):
            return
        ballot = (max(now.promised, after)[0] + 1, now.me)
        self._set(round=AgreementRound(ballot, frozenset(there), wanted))
        without = tuple(seat for seat in members if seat not in staying)
        for seat in there:
            if self._is_current_ballot(ballot):
                self._send(seat, Prepare(now.epoch.number, ballot, without))

    def _is_current_ballot(self, ballot: Ballot) -> bool:
        return self.now.round is not None and self.now.round.ballot == ballot

    # -- one ballot ------------------------------------------------------------------------------------------

    def _promise(self, ballot: Ballot) -> None:
        if self.now.busy:
            self._set(owed_promise=ballot)
            return
        self._set(owed_promise=None)
        self._send(ballot[1], Promise(self.now.epoch.number, ballot, self.now.finished, self.now.accepted))

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
            if self._is_current_ballot(ballot):
                self._send(seat, Accept(self.now.epoch.number, ballot, chosen))

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
        if not before.revoked and (before.busy or missing):  # the others agreed without this member's promise
            lost = missing[0] if missing else before.me
            self._revoke(lost)
        self._set(
            epoch=epoch,
            revoked=False,
            promised=(0, 0),
            accepted=None,
            finished=0,
            owed_promise=None,
            round=None,
            admitting=before.admitting - set(epoch.members),
            change_due=False,
            missing=frozenset(pair for pair in before.missing if pair[0] == before.me),
            missed=frozenset(),
        )
        if self.now.is_member or before.is_member:
            # before anything that belongs to the new epoch, so that every member learns of the epoch first
            self.actions.append(events.SendToAll(Commit(epoch.number, Proposal(epoch.members, even))))
        if self.now.is_member:
            self.actions.append(events.Enter(epoch, even))
            there = alive(self.now, epoch.members)
            gone = [s for s in epoch.members if s not in there or s in self.now.leaving]
            if gone:
                self._revoke_for([*(self.now.accused & set(epoch.members)), *gone])
            for _, seat in sorted(self.now.missing):
                self._note_missing(self.now.me, seat)
        elif before.is_member:
            if before.me in before.leaving:
                self._stop("this side closed the group", "left")
            else:
                self._stop("the others go on without this member", "put out")
            return
        elif before.introducer not in epoch.members:
            self._stop(
                "the group went on without the member that let this one in, before this one was admitted",
                "not admitted",
            )
            return
        self._stop_or_propose()

    def _stop(self, why: str, end: events.End, without: tuple[int, ...] = ()) -> None:
        if self.now.is_member:
            self._revoke(self.now.me)
        self._set(stopped=why, round=None, owed_promise=None)
        self.actions.append(events.Stop(why, end, without))
