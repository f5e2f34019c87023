"""The loop-thread side of a group at one member: its links, its epochs and its operations."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable

from duetlink.base.events import EpochBegan, GroupEnded, MemberLost, Sink
from duetlink.base.reraise import reraise
from duetlink.errors import (
    DuetError,
    GroupOver,
    LinkClosed,
    NoMajority,
    OperationAborted,
    PeerLost,
    PutOut,
    RemoteProtocolError,
)
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.lifecycle.departures import Departures
from duetlink.groups.lifecycle.entrance import FOUNDER, Entrance
from duetlink.groups.lifecycle.farewell import Farewell
from duetlink.groups.lifecycle.join_points import JoinPoints
from duetlink.groups.lifecycle.open_epoch import OpenEpoch
from duetlink.groups.lifecycle.running import Running
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.groups.links.member_links import MemberLinks
from duetlink.groups.membership import events, machine, messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.messages import Epoch
from duetlink.groups.membership.roster import Entry, Roster
from duetlink.groups.membership.seat_assignment import SeatAssignment
from duetlink.net.link.link import Link

# An operation that failed at another member normally ends here by the operation's own messages, which carry
# the reason. After this time it is ended without them.
_ENDING_S = 2.0
_LEAVING_S = 5.0  # wait for the announcement of a member that leaves according to others
_OVER = {"put out": PutOut, "no majority": NoMajority, "not admitted": GroupOver}
_CUT_S = 5.0  # a member that has gone may learn of the epoch without it, and close its links itself


class GroupLife:
    """One group at one member. Other threads may read attributes; only the loop thread calls methods."""

    def __init__(
        self, wiring: Wiring, *, on_loss: str, patience_s: float, size: int | None, code: str | None = None
    ) -> None:
        self.grows = size is None
        self.code = code
        self.roster = Roster()
        self.member_state: MemberState | None = None
        self.departures = Departures()
        self.not_admitted: DuetError | None = None  # why this member lost its seat before it was admitted
        self.why_closed: DuetError | None = None
        self.is_closing = False  # this member leaves
        self.is_ending = False  # it leaves, and serves the other members no longer
        self.sink = Sink()
        self.host = FOUNDER  # the seat that lets newcomers in
        self.links = MemberLinks(self, wiring)
        self.peers = self.links.peers
        self.farewell = Farewell(self.links)
        self.entrance = Entrance(self, wiring, size)
        self.running = Running(self, on_loss)
        self.patience_s = patience_s
        self.open_epoch: OpenEpoch | None = None  # the latest epoch that this member has entered
        self._were: frozenset[int] = frozenset()  # seats that were in any epoch
        self.join_points = JoinPoints(self, self.running)
        self._change = asyncio.Event()  # set at the next change, see `notify_change`
        self.tasks: set[asyncio.Task[None]] = set()  # background tasks, see `serve`

    # -- joining ---------------------------------------------------------------------------------------------

    async def wait_ready(self) -> None:
        """Wait until this member is in an epoch. Raises the reason if it never will be."""
        while not self.is_ready:
            self.check_open()
            if self.entrance.why_not_whole is not None:
                raise reraise(self.entrance.why_not_whole)
            await self.wait_change()

    @property
    def is_host(self) -> bool:
        """True if this member lets newcomers in; it also knows which newcomers have links to all."""
        return self.member_state is not None and self.member_state.me == self.host

    @property
    def collectives(self) -> Collectives | None:
        """The operations of the current epoch; None before the first epoch."""
        return self.open_epoch.collectives if self.open_epoch is not None else None

    @property
    def is_ready(self) -> bool:
        now = self.member_state
        return now is not None and now.is_member and (now.epoch.number > 0)

    @property
    def is_linked(self) -> bool:
        """True if this member has its seat, and a link to every other member."""
        return self.member_state is not None and self.links.has_greeted_all(self.member_state.me)

    def seated(self, link: Link, seated: SeatAssignment) -> None:
        """Take the seat that the host has given over this link, and make links to the other members."""
        self.roster = seated.roster
        self.host = seated.host
        self.member_state = MemberState(seated.roster.next_seat - 1, seated.epoch, seated.host)
        self.grows = seated.grows
        self.entrance.hall, self.entrance.most = seated.hall, seated.most
        self.links.adopt(seated.host, link, start=False)
        for seat in seated.present:
            self.links.make(seat)
        self.links.report_linked()
        self.notify_change()

    def lose_seat(self, error: DuetError) -> None:
        """Note that the host was lost before this member was admitted; it may join again at another host."""
        if self.is_closing:
            self.end(error)
        else:
            self.not_admitted = error
            self.notify_change()

    def reset(self) -> None:
        """Forget the seat, so that this member can ask for another one."""
        self.links.reset("it was not admitted, and joins again")
        self.roster, self.member_state, self.not_admitted = Roster(), None, None
        self.notify_change()

    def has_gone(self, seat: int) -> bool:
        """Return True if this seat was a member, and has left, announced that it leaves, or was put out.

        A member that breaks the protocol may still have a link then.
        """
        now = self.member_state
        assert now is not None
        return seat in now.leaving or (seat in self._were and seat not in now.epoch.members)

    # -- links -----------------------------------------------------------------------------------------------

    def gone(self, seat: int, error: LinkClosed) -> None:
        """Handle the end of the link to this seat, which does not come back."""
        if not self._part_from(seat, error):
            return
        if self.member_state is not None:
            self.feed(events.Gone(seat))
        self.entrance.refill()
        if self.member_state is not None and not self.member_state.epoch.number:
            self.entrance.lost_one(LinkClosed("one of them has left again"))
            self.entrance.begin_if_whole()

    def is_member(self, seat: int) -> bool:
        """Return True if this member and that seat are both in the current epoch."""
        now = self.member_state
        return now is not None and now.is_member and seat in now.epoch.members

    def note_reachability(self, event: events.Missed | events.Found | events.Waited) -> None:
        """Pass on that a member is silent, has been silent for `patience_s`, or is heard again."""
        if self.member_state is not None and not self.is_ending:
            self.feed(event)

    def _part_from(self, seat: int, error: LinkClosed) -> bool:
        """Close the link to this seat; returns False if there was none."""
        peer = self.peers.get(seat)
        if peer is None or peer.link is None or self.is_ending:
            return False
        self.sink.emit(MemberLost(seat, type(error)))
        self.departures.link_ended(seat, error)
        self.links.stop_counting(seat)
        self.links.end(seat, "out of reach for too long")
        self._regard_as_lost(seat)
        if self.member_state is not None and not self.member_state.is_member:
            self.links.report_linked()  # this member may have waited for that seat's greeting only
        return True

    def _close_former_link(self, seat: int) -> None:
        """Close the link to a former member, which must not use shared services any longer."""
        if not self.is_closing and self.links.end(seat, "it is no longer a member"):
            self.links.stop_counting(seat)

    def _expel(self, seat: int, error: RemoteProtocolError) -> None:
        """Close the link to a member that broke the protocol, and report it as lost to the others."""
        if self.links.end(seat, f"protocol violation: {error}"):
            self.departures.put_out(seat, error)
            self.feed(events.Gone(seat))

    # -- messages --------------------------------------------------------------------------------------------

    def receive(self, seat: int, message: pb.GroupMessage) -> None:
        """Process a message of this seat. Raises RemoteProtocolError, which ends the link to the sender."""
        match message.WhichOneof("body"):
            case "agreement" if self.member_state is not None:
                found = messages.from_wire(message.agreement)
                if isinstance(found, messages.Commit) and not (
                    self.roster.entries.keys() >= set(found.proposal.members)
                ):
                    raise RemoteProtocolError(
                        "a member committed an epoch with seats that are not in the roster"
                    )
                self.feed(events.MessageReceived(seat, found))
            case "newcomer" if seat == self.host and self.member_state is not None:
                told = message.newcomer
                roster = self.roster.up_to(told.kept) if told.kept else self.roster
                self.roster = roster.with_entry(Entry(told.key, told.name), told.seat or None)
                self.links.make(self.roster.next_seat - 1)
            case "shut" if seat == self.host:
                self.entrance.hall = b""
            case "greeting" if self.member_state is not None:
                self.peers[seat].is_greeted = True
                self.links.report_linked()
                self.notify_change()
            case "linked" if self.is_host:
                if message.linked.seat != seat:
                    raise RemoteProtocolError(f"member {seat} speaks for member {message.linked.seat}")
                self.peers[seat].is_linked = True
                self.notify_change()
                self.entrance.begin_if_whole()
            case "word":
                self.peers[seat].keep_status(message.word.topic, message.word.content)
                self.notify_change()
                self.answer_leavers()
            case other:
                raise RemoteProtocolError(
                    f"member {seat} sent {other or 'an empty message'}, which it must not send now"
                )

    # -- epochs ----------------------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        assert self.member_state is not None
        before = self.member_state.epoch
        self.member_state, actions = machine.step(self.member_state, event)
        for action in actions:
            match action:
                case events.SendToMember(seat, message):
                    self.links.send(seat, pb.GroupMessage(agreement=messages.to_wire(message)))
                case events.SendToAll(message):
                    self.links.send_all(pb.GroupMessage(agreement=messages.to_wire(message)))
                case events.GiveUp(seat):
                    self._part_from(seat, self.peers[seat].loss or PeerLost("out of reach for too long"))
                case events.Revoke(epoch, lost, leaves):
                    self._revoke(epoch, lost, leaves)
                case events.Enter(epoch, even):
                    self.sink.emit(EpochBegan(epoch.number, len(epoch.members)))
                    self._note_missing(before, epoch)
                    self._enter(epoch, even)
                case events.Stop(end="not admitted") as stop:
                    self.lose_seat(self._why_over(stop))
                case events.Stop() as stop:
                    self.end(self._why_over(stop))
        if self.member_state.leaving:
            self.running.losses.believe(self.member_state.leaving)
        if self.member_state.broken:
            self.links.give_up_lost(self.member_state)
        self.notify_change()

    def _revoke(self, epoch: Epoch, lost: int | None, leaves: bool) -> None:
        if lost is None:
            error: DuetError = OperationAborted("an operation failed at another member")
            asyncio.get_running_loop().call_later(_ENDING_S, self._fail, epoch.number, error)
            return
        assert self.member_state is not None
        if self.is_closing and lost == self.member_state.me:
            self._fail(
                epoch.number, LinkClosed("this side closed the group while it ran; launch or join a new one")
            )
            return
        rank = epoch.members.index(lost) if lost in epoch.members else None
        name = self.roster.entries[lost].name
        what = "has left the group" if leaves else "is lost"
        error = PeerLost(f"rank {rank} ({name}) {what}", rank=rank, name=name)
        self.departures.gone(lost, name, epoch, leaves=leaves)
        if not leaves:
            self.running.losses.lost(epoch.number, error)
        else:
            self.running.losses.left(epoch.number, error)
        if leaves and lost not in self.member_state.leaving:
            # either its own announcement follows, or the report of the others is false
            self.running.losses.doubt(lost, PeerLost(f"rank {rank} ({name}) is lost", rank=rank, name=name))
            asyncio.get_running_loop().call_later(_LEAVING_S, self._regard_as_lost, lost)
        self._fail(epoch.number, error)

    def _why_over(self, stop: events.Stop) -> DuetError:
        if self.is_closing or stop.end == "left":
            return LinkClosed(stop.why)
        assert self.member_state is not None
        members, entries = self.member_state.epoch.members, self.roster.entries
        lost = ", ".join(f"rank {members.index(seat)} ({entries[seat].name})" for seat in stop.without)
        why = f"lost {lost}: {stop.why}" if lost else stop.why
        return _OVER[stop.end](f"{why}. Come in again by group.rejoin(), or by duetlink.group(code)")

    def _note_missing(self, before: Epoch, now: Epoch) -> None:
        """Record all members that are missing from the new epoch; Revoke has named only one of them."""
        assert self.member_state is not None
        for seat in sorted(set(before.members) - set(now.members)):
            leaves = seat in self.member_state.leaving
            self.departures.gone(seat, self.roster.entries[seat].name, before, leaves=leaves)

    def _regard_as_lost(self, seat: int) -> None:
        """Regard a seat as lost that others reported to leave, since its own announcement did not come."""
        if self.running.losses.confirm(seat):
            self.notify_change()

    def _fail(self, epoch: int, error: DuetError) -> None:
        if self.open_epoch is not None and self.open_epoch.number == epoch:
            self.open_epoch.fail(error)

    def _enter(self, epoch: Epoch, even: bool) -> None:
        assert self.member_state is not None
        before = self.open_epoch
        met = before.members if before is not None else frozenset()
        self.join_points.entered(has_newcomers=not set(epoch.members) <= met)
        self._were |= frozenset(epoch.members)
        for seat in filter(self.has_gone, self.peers):
            asyncio.get_running_loop().call_later(_CUT_S, self._close_former_link, seat)
        if before is not None:
            before.fail(LinkClosed(f"epoch {before.number} is over"))
            self.serve(before.close())
        self.running.losses.began(epoch.number, even=even)
        if epoch.members[0] != self.host:
            self.host = epoch.members[0]
            for seat in self.peers.keys() - self._were:
                self.links.drop(seat, "the host that let it in has gone: join again at the new host")
            self.entrance.host_changed(epoch)
        self.entrance.refill()
        links = [self.peers[seat].link if seat != self.member_state.me else None for seat in epoch.members]
        names = [self.roster.entries[seat].name for seat in epoch.members]

        def violated(rank: int, error: RemoteProtocolError) -> None:
            self._expel(epoch.members[rank], error)

        self.open_epoch = OpenEpoch(epoch, epoch.members.index(self.member_state.me), links, names, violated)
        self.answer_leavers()

    # -- operations ------------------------------------------------------------------------------------------

    def roll(self) -> tuple[int, tuple[bytes, ...]]:
        """Return the number of this epoch and its members' keys by rank. Call it while an operation runs."""
        assert self.member_state is not None
        epoch = self.member_state.epoch
        return epoch.number, tuple(self.roster.entries[seat].key for seat in epoch.members)

    def admit(self, seats: tuple[int, ...]) -> None:
        """Propose an epoch with these newcomers. One member calls it, while all wait for that epoch."""
        self.feed(events.Admit(seats))

    # -- the end ---------------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raise the reason if the group has closed."""
        if self.why_closed is not None:
            raise reraise(self.why_closed)

    def end(self, error: DuetError) -> None:
        """Close the group here with this error: running and later operations raise it."""
        if self.why_closed is None:
            if not self.is_closing and (absence := self.links.own_absence()):
                error.args = (f"{absence}, and {error}",)
            self.why_closed = error
            self.sink.emit(GroupEnded(type(error)))
            if not self.is_closing:
                self.serve(self.entrance.close())
            if self.open_epoch is not None:
                self.open_epoch.fail(reraise(error))
            if not self.is_closing:
                for seat in self.peers:
                    self.links.end(seat, str(error))
            self.notify_change()

    def answer_leavers(self) -> None:
        if self.open_epoch is not None:
            self.farewell.answer(self.peers, self.open_epoch.number, self.open_epoch.ended)

    # -- background tasks and changes ------------------------------------------------------------------------

    def notify_change(self) -> None:
        """Wake every `wait_change`, and inform the watchers of the group."""
        change, self._change = self._change, asyncio.Event()
        change.set()
        asyncio.get_running_loop().call_soon(self.sink.changed)

    async def wait_change(self, within_s: float | None = None) -> None:
        """Wait until a status message arrives, or the members, links or epoch change, or for `within_s`."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._change.wait()

    def serve(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """Run a task in the background. It has to end when the group has closed: `close` waits for it."""
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task
