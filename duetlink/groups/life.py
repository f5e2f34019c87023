"""Loop side of a group: its links, its epochs, and the operations of the one that it is in."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import TypeVar

from duetlink.base.again import again
from duetlink.base.events import EpochBegan, GroupEnded, MemberLost, Sink
from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.errors import (
    DuetError,
    GroupFull,
    GroupOver,
    LinkClosed,
    NoMajority,
    OperationAborted,
    PeerLost,
    PutOut,
    RemoteProtocolError,
)
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.departures import LEFT, Departures
from duetlink.groups.entrance import FOUNDER, Entrance
from duetlink.groups.farewell import Farewell
from duetlink.groups.meeting.wiring import Wiring
from duetlink.groups.member_links import MemberLinks
from duetlink.groups.membership import events, machine, messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import Epoch
from duetlink.groups.membership.roster import Entry, Roster
from duetlink.groups.membership.seated import Seated
from duetlink.groups.membership.standing import Standing
from duetlink.groups.open_epoch import OpenEpoch
from duetlink.groups.peer import MOST_TOPIC_CHARACTERS, MOST_WORD_BYTES
from duetlink.groups.points import Points
from duetlink.groups.running import Running
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.signaling import SignalingServer
from duetlink.settings import Settings

T = TypeVar("T")

# An operation that failed elsewhere ends here by its own messages, which know why. This is for late ones.
_ENDING_S = 2.0
_LEAVING_S = 5.0  # for the others to agree on going on without this member
_OVER = {"put out": PutOut, "no majority": NoMajority, "not admitted": GroupOver}
_MOST_KNOCKS = 5  # times that a member comes again which was not admitted
_MOST_TRIES, _FULL_PAUSE_S = 8, 5.0  # where the group is full then
_CUT_S = 5.0  # for whoever has gone to hear of the epoch without it, and to end its links itself


class GroupLife:
    """State of one group at one member. Other threads read its attributes, only the loop calls methods."""

    def __init__(
        self, settings: Settings, wiring: Wiring, *, on_loss: str, patience_s: float, size: int | None
    ) -> None:
        self.settings = settings
        self.grows = size is None
        self.code: str | None = None
        self.roster = Roster()
        self.standing: Standing | None = None
        self.departures = Departures()
        self._farewell = Farewell(self)
        self.why_closed: DuetError | None = None
        self.sink = Sink()
        self._link_servers: list[Callable[[int, Link], None]] = []
        # joins by the code, as this member did; None at whoever launched
        self.knock: Callable[[], Awaitable[tuple[Link, str]]] | None = None
        self._knocks = 0
        self._wiring = wiring
        self._host = FOUNDER  # the seat that lets newcomers in
        self.links = MemberLinks(self, wiring)
        self.peers = self.links.peers
        self.entrance = Entrance(self, wiring, size)
        self.running = Running(self, on_loss)
        self.patience_s = patience_s
        self.open_epoch: OpenEpoch | None = None  # the last one that this member has entered
        self._were: frozenset[int] = frozenset()  # seats that were in any epoch
        self.points = Points(self, self.running)
        self._stirred = asyncio.Event()  # by every change of the standing
        self._tasks: set[asyncio.Task[None]] = set()
        self._coming_again: asyncio.Task[None] | None = None
        self._closing: asyncio.Task[None] | None = None
        self._is_ending = False  # closes, and serves nobody any more
        # awaited first when it closes: they end what uses the links, such as a torch job
        self.before_close: list[Callable[[], Awaitable[None]]] = []
        # runs last, such as what ends this kernel's own signaling server
        self.at_end: Callable[[], Awaitable[None]] | None = None

    # -- how it begins ---------------------------------------------------------------------------------------

    @property
    def me(self) -> Entry:
        return self.links.me

    async def launch(self, server: SignalingServer) -> None:
        """Open the door. Raises SignalingUnavailable, SignalingRefused."""
        self.links.url = server.url
        self.roster = self.roster.with_entry(self.me)
        self.standing = Standing(FOUNDER, Epoch(0, (FOUNDER,)), FOUNDER)
        self.code = await self.entrance.open(server, self.settings.code_lifetime_s)

    def join(self, link: Link, url: str) -> None:
        """Ask the host, over the link that the code has made, for a seat."""
        self.links.url = url

        def heard(notice: wire_pb.GroupNotice) -> None:
            message = messages.parse(notice.content)
            if message.WhichOneof("body") != "seated":
                raise RemoteProtocolError("the host of the group did not give this member a seat")
            self._seated(link, Seated.from_wire(message.seated, self.me))

        is_lost = False

        def lost(why: str) -> None:
            nonlocal is_lost
            if not is_lost:
                is_lost = True
                self.serve(link.close(why))
                self._not_admitted(GroupOver(f"the host of the group was lost before it gave a seat: {why}"))

        link.rpc.notice(wire_pb.GroupNotice, heard)
        link.belong_to(LinkOwner(closed=lambda error: lost(str(error)), lost=lost))
        link.start()
        entry = pb.Entry(key=self.me.key, name=self.me.name)
        link.rpc.tell_nowait(wire_pb.GroupNotice(content=pb.GroupMessage(newcomer=entry).SerializeToString()))

    def _not_admitted(self, error: DuetError) -> None:
        """Come again: the host was lost before this member was in, and another one may take over."""
        if self.knock is None or self._closing is not None or self._knocks >= _MOST_KNOCKS:
            self._end(error)
        elif self._coming_again is None:
            self._knocks += 1
            self._coming_again = self.serve(self._come_again(self.knock))

    async def _come_again(self, knock: Callable[[], Awaitable[tuple[Link, str]]]) -> None:
        self.links.leave("it was not admitted, and comes again")
        self.links = MemberLinks(self, self._wiring)
        self.peers = self.links.peers
        self.roster, self.standing = Roster(), None
        self.stir()
        for tries_left in reversed(range(_MOST_TRIES)):
            try:
                link, url = await knock()
                break
            except GroupFull as error:  # perhaps with the seat that this member had, until that is missed
                if not tries_left:
                    self._end(error)
                    return
                await asyncio.sleep(_FULL_PAUSE_S)
            except DuetError as error:
                self._end(error)
                return
        if self.why_closed is not None:
            await link.close(str(self.why_closed))
        else:
            self._coming_again = None
            self.join(link, url)

    async def wait_ready(self) -> None:
        """Until this member is in an epoch with all who are expected. Raises why it never will."""
        while not self.is_ready:
            self.check_open()
            if self.entrance.why_not_whole is not None:
                raise again(self.entrance.why_not_whole)
            await self.wait_change()

    async def wait_seated(self) -> None:
        """Until there is a link to everybody who is there. Raises why it never will."""
        while self.standing is None or not self._has_greeted_all(self.standing.me):
            self.check_open()
            await self.wait_change()

    @property
    def is_host(self) -> bool:
        """Whether this member lets newcomers in, and knows who has links to all."""
        return self.standing is not None and self.standing.me == self._host

    @property
    def collectives(self) -> Collectives | None:
        """Those of the epoch that there is; None before the first."""
        return self.open_epoch.collectives if self.open_epoch is not None else None

    @property
    def is_ready(self) -> bool:
        now = self.standing
        return now is not None and now.is_member and (now.epoch.number > 0)

    def has_gone(self, seat: int) -> bool:
        """Whether it was a member, and has left or was put out. It may still have a link, if it breaks the
        protocol.
        """
        now = self.standing
        assert now is not None
        return seat in now.leaving or (seat in self._were and seat not in now.epoch.members)

    # -- links -----------------------------------------------------------------------------------------------

    def gone(self, seat: int, error: LinkClosed) -> None:
        """The link to this seat has ended, or its time has: it does not come back."""
        if not self._part_from(seat, error):
            return
        if self.standing is not None:
            self.feed(events.Gone(seat))
        self.entrance.refill()
        if self.standing is not None and not self.standing.epoch.number:
            self.entrance.lost_one(LinkClosed("one of them has gone again"))
            self.entrance.begin_if_whole()

    def serve_links(self, serve: Callable[[int, Link], None]) -> None:
        """Call it with the seat and the link of each member that there is, and of all to come before they
        start."""
        for seat, peer in self.peers.items():
            if peer.link is not None:
                serve(seat, peer.link)
        self._link_servers.append(serve)

    def linked(self, seat: int, link: Link) -> None:
        """There is a link to this seat, which has not started yet."""
        for serve in self._link_servers:
            serve(seat, link)

    def is_member(self, seat: int) -> bool:
        """Whether this member and that seat are in the same epoch."""
        now = self.standing
        return now is not None and now.is_member and seat in now.epoch.members

    def reach(self, event: events.Missed | events.Found | events.Waited) -> None:
        """This member, or one that it has a link to, is out of reach for a while, or in reach again."""
        if self.standing is not None and not self._is_ending:
            self.feed(event)

    def _part_from(self, seat: int, error: LinkClosed) -> bool:
        """End what is left of the link to this seat; returns whether there was one."""
        peer = self.peers.get(seat)
        if peer is None or peer.link is None or self._is_ending:
            return False
        self.sink.emit(MemberLost(seat, type(error)))
        self.departures.link_ended(seat, error)
        self.links.back(seat)
        self.links.end(seat, "out of reach for too long")
        self._lost_after_all(seat)
        if self.standing is not None and not self.standing.is_member:
            self._say_linked()  # perhaps its greeting was the last one to be waited for
        return True

    def _cut(self, seat: int) -> None:
        """Whoever was a member has no further use of a link, and of what others share over it."""
        if self._closing is None and self.links.end(seat, "it is no member any more"):
            self.links.back(seat)

    def _expel(self, seat: int, error: RemoteProtocolError) -> None:
        """This member breaks the protocol: no link to it, and the others are told."""
        if self.links.end(seat, f"protocol violation: {error}"):
            self.departures.put_out(seat, error)
            self.feed(events.Gone(seat))

    def _has_greeted_all(self, me: int) -> bool:
        """Whether all who were there before this member, and still are, have their end of the link to it."""
        earlier = [peer for seat, peer in self.peers.items() if seat < me and seat != self._host]
        return all(peer.is_greeted or (peer.link is None and peer.making is None) for peer in earlier)

    def _say_linked(self) -> None:
        """To the host, once every earlier member has its end of the link: operations may begin."""
        now = self.standing
        assert now is not None
        if self._has_greeted_all(now.me):
            self.links.send(self._host, pb.GroupMessage(linked=pb.Linked(seat=now.me)))

    # -- messages --------------------------------------------------------------------------------------------

    def hear(self, seat: int, message: pb.GroupMessage) -> None:
        """Raises RemoteProtocolError, which ends the link to whoever said this."""
        match message.WhichOneof("body"):
            case "agreement" if self.standing is not None:
                found = messages.from_wire(message.agreement)
                if isinstance(found, messages.Commit) and not (
                    self.roster.entries.keys() >= set(found.proposal.members)
                ):
                    raise RemoteProtocolError("a member committed an epoch of seats that nobody has")
                self.feed(events.Heard(seat, found))
            case "newcomer" if seat == self._host and self.standing is not None:
                told = message.newcomer
                roster = self.roster.up_to(told.kept) if told.kept else self.roster
                self.roster = roster.with_entry(Entry(told.key, told.name), told.seat or None)
                self.links.make(self.roster.next_seat - 1)
            case "shut" if seat == self._host:
                self.entrance.hall = b""
            case "greeting" if self.standing is not None:
                self.peers[seat].is_greeted = True
                self._say_linked()
                self.stir()
            case "linked" if self.is_host:
                if message.linked.seat != seat:
                    raise RemoteProtocolError(f"member {seat} speaks for member {message.linked.seat}")
                self.peers[seat].is_linked = True
                self.stir()
                self.entrance.begin_if_whole()
            case "word":
                self._keep_word(seat, message.word)
            case other:
                raise RemoteProtocolError(
                    f"member {seat} sent {other or 'nothing'}, which is not for it to say"
                )

    def _keep_word(self, seat: int, word: pb.Word) -> None:
        self.peers[seat].keep_word(word.topic, word.content)
        self.stir()
        self.answer_leavers()

    # -- words: what a member says to all beside operations --------------------------------------------------

    def say(self, topic: str, content: bytes) -> None:
        """Tell all who have a link to this member. Who comes later has to be told again."""
        assert len(topic) <= MOST_TOPIC_CHARACTERS
        assert len(content) <= MOST_WORD_BYTES
        self.links.send_all(pb.GroupMessage(word=pb.Word(topic=topic, content=content)))

    def say_to(self, seat: int, topic: str, content: bytes) -> None:
        """Tell that member alone."""
        self.links.send(seat, pb.GroupMessage(word=pb.Word(topic=topic, content=content)))

    def heard(self, seat: int, topic: str) -> bytes:
        """That member's latest word on the topic; empty if there is none."""
        peer = self.peers.get(seat)
        return b"" if peer is None else peer.words.get(topic, b"")

    def _seated(self, link: Link, seated: Seated) -> None:
        self.roster = seated.roster
        self._host = seated.host
        self.standing = Standing(seated.roster.next_seat - 1, seated.epoch, seated.host)
        self.grows = seated.grows
        self.entrance.hall, self.entrance.most = seated.hall, seated.most
        self.links.adopt(seated.host, link, start=False)
        for seat in seated.present:
            self.links.make(seat)
        self._say_linked()
        self.stir()

    # -- epochs ----------------------------------------------------------------------------------------------

    def feed(self, event: events.Event) -> None:
        assert self.standing is not None
        before = self.standing.epoch
        self.standing, actions = machine.step(self.standing, event)
        for action in actions:
            match action:
                case events.Send(seat, message):
                    self.links.send(seat, pb.GroupMessage(agreement=messages.to_wire(message)))
                case events.Tell(message):
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
                    self._not_admitted(self._why_over(stop))
                case events.Stop() as stop:
                    self._end(self._why_over(stop))
        if self.standing.leaving:
            self.running.losses.believe(self.standing.leaving)
        if self.standing.broken:
            self._give_up_lost()
        self.stir()

    def _give_up_lost(self) -> None:
        """Wait no longer for a link to those whom the host has lost, nor for their greeting."""
        if self.standing is None:
            return
        for seat, peer in list(self.peers.items()):
            if frozenset((self._host, seat)) not in self.standing.broken or self.is_host:
                continue
            if peer.making is not None:
                peer.making.cancel()
                del self.peers[seat]
                self._say_linked()
            elif peer.link is not None and not (peer.is_greeted or self.standing.is_member):
                self.links.end(seat, "the host of the group has lost it")
                self._say_linked()

    def _revoke(self, epoch: Epoch, lost: int | None, leaves: bool) -> None:
        if lost is None:
            error: DuetError = OperationAborted("an operation failed at another member")
            asyncio.get_running_loop().call_later(_ENDING_S, self._fail, epoch.number, error)
            return
        assert self.standing is not None
        if self._closing is not None and lost == self.standing.me:
            self._fail(
                epoch.number, LinkClosed("this side closed the group while it ran; launch or join a new one")
            )
            return
        rank = epoch.members.index(lost) if lost in epoch.members else None
        name = self.roster.entries[lost].name
        what = "has left the group" if leaves else "is lost"
        error = PeerLost(f"rank {rank} ({name}) {what}", rank=rank, name=name)
        self._note_gone(epoch, lost, leaves=leaves)
        if not leaves:
            self.running.losses.lost(epoch.number, error)
        else:
            self.running.losses.left(epoch.number, error)
        if leaves and lost not in self.standing.leaving:
            # its own word follows, or what others say is not true
            self.running.losses.doubt(lost, PeerLost(f"rank {rank} ({name}) is lost", rank=rank, name=name))
            asyncio.get_running_loop().call_later(_LEAVING_S, self._lost_after_all, lost)
        self._fail(epoch.number, error)

    def _why_over(self, stop: events.Stop) -> DuetError:
        if self._closing is not None or stop.end == "left":
            return LinkClosed(stop.why)
        assert self.standing is not None
        members, entries = self.standing.epoch.members, self.roster.entries
        lost = ", ".join(f"rank {members.index(seat)} ({entries[seat].name})" for seat in stop.without)
        why = f"lost {lost}: {stop.why}" if lost else stop.why
        return _OVER[stop.end](f"{why}. Come in again by group.rejoin(), or by duetlink.group(code)")

    def _note_gone(self, epoch: Epoch, seat: int, *, leaves: bool) -> None:
        rank = epoch.members.index(seat) if seat in epoch.members else None
        self.departures.gone(seat, self.roster.entries[seat].name, rank, epoch.number, leaves=leaves)

    def _note_missing(self, before: Epoch, now: Epoch) -> None:
        """A revoked epoch names one member; more may have gone by its end."""
        assert self.standing is not None
        for seat in sorted(set(before.members) - set(now.members)):
            self._note_gone(before, seat, leaves=seat in self.standing.leaving)

    def _lost_after_all(self, seat: int) -> None:
        """It has not said itself that it leaves, and will not."""
        if self.running.losses.confirm(seat):
            self.stir()

    def _fail(self, epoch: int, error: DuetError) -> None:
        if self.open_epoch is not None and self.open_epoch.number == epoch:
            self.open_epoch.fail(error)

    def _enter(self, epoch: Epoch, even: bool) -> None:
        assert self.standing is not None
        before = self.open_epoch
        met = before.members if before is not None else frozenset()
        self.points.entered(has_newcomers=not set(epoch.members) <= met)
        self._were |= frozenset(epoch.members)
        for seat in filter(self.has_gone, self.peers):
            asyncio.get_running_loop().call_later(_CUT_S, self._cut, seat)
        if before is not None:
            before.fail(LinkClosed(f"epoch {before.number} is over"))
            self.serve(before.close())
        self.running.losses.began(epoch.number, even=even)
        if epoch.members[0] != self._host:
            self._host = epoch.members[0]
            for seat in self.peers.keys() - self._were:
                self.links.drop(seat, "whoever let it in has gone: it comes again")
            self.entrance.host_changed(epoch)
        self.entrance.refill()
        links = [self.peers[seat].link if seat != self.standing.me else None for seat in epoch.members]
        names = [self.roster.entries[seat].name for seat in epoch.members]

        def violated(rank: int, error: RemoteProtocolError) -> None:
            self._expel(epoch.members[rank], error)

        self.open_epoch = OpenEpoch(epoch, epoch.members.index(self.standing.me), links, names, violated)
        self.answer_leavers()

    # -- operations ------------------------------------------------------------------------------------------

    def roll(self) -> tuple[int, tuple[bytes, ...]]:
        """The number of this epoch, and its members' keys by rank. Call it where an operation runs."""
        assert self.standing is not None
        epoch = self.standing.epoch
        return epoch.number, tuple(self.roster.entries[seat].key for seat in epoch.members)

    def admit(self, seats: tuple[int, ...]) -> None:
        """These come in with the next epoch, for which all wait; a single member calls it."""
        self.feed(events.Admit(seats))

    def newcomers(self) -> tuple[int, ...]:
        """Seats of those who have links to all and wait for an epoch; known to the host."""
        assert self.standing is not None
        members = self.standing.epoch.members
        return tuple(
            seat
            for seat, peer in sorted(self.peers.items())
            if peer.is_linked and peer.link is not None and seat not in members
        )

    # -- how it ends -----------------------------------------------------------------------------------------

    def check_open(self) -> None:
        """Raises why the group has closed."""
        if self.why_closed is not None:
            raise again(self.why_closed)

    def _end(self, error: DuetError) -> None:
        """No operation runs here any more."""
        if self.why_closed is None:
            if self._closing is None and (absence := self.links.own_absence()):
                error.args = (f"{absence}, and {error}",)
            self.why_closed = error
            self.sink.emit(GroupEnded(type(error)))
            if self._closing is None:
                self.serve(self.entrance.close())
            if self.open_epoch is not None:
                self.open_epoch.fail(again(error))
            if self._closing is None:
                for seat in self.peers:
                    self.links.end(seat, str(error))
            self.stir()

    async def close(self, reason: str = "", *, serving_s: float | None = None) -> None:
        """Leave: the others are told, and go on. Returns when everything is freed. Safe to call twice.

        Members that are in an operation which this one has ended are served for `serving_s` at most, by
        default for `patience_s`.
        """
        if self._closing is None:
            limit_s = self.patience_s if serving_s is None else serving_s
            self._closing = asyncio.ensure_future(self._close(reason, limit_s))
        await asyncio.shield(self._closing)

    def cut(self, reason: str) -> None:
        """End without waiting for the other members; `close` then returns soon."""
        self._is_ending = True
        for link in self._links():
            link.cut(reason)
        self._end(LinkClosed(f"this side closed the group: {reason}"))

    def _links(self) -> list[Link]:
        links = [peer.link for peer in self.peers.values() if peer.link is not None]
        return links + list(self.entrance.arriving)

    async def _close(self, reason: str, serving_s: float) -> None:
        for end in reversed(self.before_close):
            await end()
        if self._coming_again is not None:
            self._coming_again.cancel()
        await self.entrance.close()
        await self._serve_out(serving_s)
        self._is_ending = True
        if self.standing is not None and self.why_closed is None:
            self.feed(events.Leave())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_LEAVING_S):
                    while self.why_closed is None:
                        await self.wait_change()
        words = f": {reason}" if reason else ""
        self._end(LinkClosed(f"this side closed the group{words}; launch or join a new one"))
        for peer in self.peers.values():
            if peer.making is not None:
                peer.making.cancel()
        if self.open_epoch is not None:
            await self.open_epoch.close()
        for peer in self.peers.values():
            if peer.losing is not None:
                peer.losing.cancel()
        await asyncio.gather(*(link.close(reason or LEFT) for link in self._links()))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self.at_end is not None:
            await self.at_end()

    def answer_leavers(self) -> None:
        if self.open_epoch is not None:
            self._farewell.answer(self.peers, self.open_epoch.number, self.open_epoch.ended)

    async def _serve_out(self, limit_s: float) -> None:
        """Before this member leaves: until the others have ended what it has, or the time is over."""
        now, epoch = self.standing, self.open_epoch
        if now is None or epoch is None or not now.is_member:
            return

        def needing() -> list[int]:
            then = self.standing
            if then is None or then.epoch != now.epoch or then.revoked or self.why_closed is not None:
                return []
            return [
                seat for seat in now.epoch.members if seat != now.me and self.peers[seat].link is not None
            ]

        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit_s):
                completed = epoch.collectives.completed
                await self._farewell.wait(needing, now.epoch.number, completed, self.wait_change)

    # -- what goes on beside operations ----------------------------------------------------------------------

    def stir(self) -> None:
        """Have whoever waits for a change look again."""
        stirred, self._stirred = self._stirred, asyncio.Event()
        stirred.set()
        asyncio.get_running_loop().call_soon(self.sink.changed)

    async def wait_change(self, within_s: float | None = None) -> None:
        """Until a word has come, or the members, links or epoch have changed, or the time is over."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(within_s):
                await self._stirred.wait()

    def serve(self, work: Awaitable[None]) -> asyncio.Task[None]:
        """Run it beside operations; `close` waits for it, so it has to end when the group has closed."""
        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
