"""The links of one member to the others: makes them, watches them, sends over them, and closes them."""

from __future__ import annotations

import asyncio
import contextlib
import functools
from collections.abc import Awaitable, Callable
from typing import Protocol, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.errors import LinkClosed, PeerLost
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.groups.links.peer import MOST_TOPIC_CHARACTERS, MOST_WORD_BYTES, Peer
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.events import Found, Missed, Waited
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.roster import Entry, Roster
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.peer.deadline import Deadline

T = TypeVar("T")


class LinkedGroup(Protocol):
    """The parts of a group that its links use; `GroupLife` has them."""

    roster: Roster
    member_state: MemberState | None
    patience_s: float
    host: int  # the seat that lets newcomers in

    @property
    def is_host(self) -> bool: ...
    def receive(self, seat: int, message: pb.GroupMessage, /) -> None: ...
    def gone(self, seat: int, error: LinkClosed, /) -> None: ...
    def is_member(self, seat: int, /) -> bool: ...
    def note_reachability(self, event: Missed | Found | Waited, /) -> None: ...
    def serve(self, work: Awaitable[None], /) -> asyncio.Task[None]: ...
    def notify_change(self) -> None: ...


class MemberLinks:
    """All links of one member. Used on the loop thread; other threads may read `peers`."""

    def __init__(self, group: LinkedGroup, wiring: Wiring) -> None:
        self.peers: dict[int, Peer] = {}  # by seat
        self._servers: list[Callable[[int, Link], None]] = []
        self.url = ""  # of the signaling server at which two members make their link
        self._group = group
        self._wiring = wiring
        self._private = X25519PrivateKey.generate()
        self._absence = ""  # why this process was stopped when it last lost a link; empty if it was not

    @property
    def me(self) -> Entry:
        """This member's own entry of the roster."""
        return Entry(self._private.public_key().public_bytes_raw(), self._wiring.hello.name)

    # -- making links ----------------------------------------------------------------------------------------

    def adopt(self, seat: int, link: Link, *, start: bool = True) -> None:
        """Take over a new link to this seat, and handle its messages from now on."""
        peer = self.peers.setdefault(seat, Peer(seat))
        peer.link = link

        def unless_dropped(act: Callable[[T], None]) -> Callable[[T], None]:
            """Ignore the events of a link whose seat was dropped in the meantime."""
            return lambda value: act(value) if self.peers.get(seat) is peer else None

        def received(notice: wire_pb.GroupNotice) -> None:
            self._group.receive(seat, messages.parse(notice.content))

        def closed(error: LinkClosed) -> None:
            self._group.gone(seat, error)

        link.rpc.notice(wire_pb.GroupNotice, unless_dropped(received))
        link.belong_to(
            LinkOwner(
                unless_dropped(closed),
                unless_dropped(lambda why: self._out_of_reach(peer, why)),
                functools.partial(unless_dropped(self._found), seat),
                functools.partial(unless_dropped(self._was_stopped), seat),
            )
        )
        link.sink.watch(self._group.notify_change)
        for serve in self._servers:
            serve(seat, link)
        if start:
            link.start()
        self._group.notify_change()

    def serve(self, serve: Callable[[int, Link], None]) -> None:
        """Call `serve` with the seat and link of every member: the present ones now, later ones when they
        come.

        A later link is passed before it starts.
        """
        for seat, peer in self.peers.items():
            if peer.link is not None:
                serve(seat, peer.link)
        self._servers.append(serve)

    def make(self, seat: int) -> None:
        """Make a link to this seat by way of the signaling server, in the background, and greet it."""
        peer = self.peers.setdefault(seat, Peer(seat))
        peer.making = self._group.serve(self._meet(seat))

    async def _meet(self, seat: int) -> None:
        assert self._group.member_state is not None
        key = self._group.roster.pair_key(self._private, self._group.member_state.me, seat)
        link = await self._wiring.meet(key, self.url)
        self.peers[seat].making = None
        self.adopt(seat, link)
        self.send(seat, pb.GroupMessage(greeting=pb.Greeting()))

    # -- silent, recovered and closed links ------------------------------------------------------------------

    def own_absence(self) -> str:
        """Return a sentence that this process slept or was blocked, if it lost links by that; else ""."""
        live = (peer.link.own_absence for peer in self.peers.values() if peer.link is not None)
        return next(filter(None, live), self._absence)

    def _out_of_reach(self, peer: Peer, why: str) -> None:
        seat = peer.seat
        self._absence = peer.link.own_absence if peer.link is not None else ""
        if peer.losing is None:
            patience_s = self._group.patience_s
            peer.loss = PeerLost(f"{why}, and it did not come back within {patience_s:g} s (patience_s)")
            peer.losing = self._group.serve(self._wait_for(seat, peer.loss))
            self._group.note_reachability(Missed(seat))
        self._group.notify_change()

    async def _wait_for(self, seat: int, loss: PeerLost) -> None:
        """Wait for `patience_s`, and once more if another member still hears this seat; then it is lost."""
        await self._be_patient()
        if self._group.is_member(seat):
            self._group.note_reachability(Waited(seat))
            await self._be_patient()
        self.peers[seat].losing = None
        self._group.gone(seat, loss)

    async def _be_patient(self) -> None:
        with contextlib.suppress(TimeoutError):
            async with Deadline(self._group.patience_s):
                await asyncio.get_running_loop().create_future()

    def _found(self, seat: int) -> None:
        self._absence = ""
        self.stop_counting(seat)
        self._group.note_reachability(Found(seat))

    def _was_stopped(self, seat: int) -> None:
        if self._group.member_state is not None:
            self._group.note_reachability(Missed(self._group.member_state.me))

    def stop_counting(self, seat: int) -> None:
        """Stop counting the silence of this seat: it is heard again, or its link is closed."""
        if (losing := self.peers[seat].losing) is not None:
            losing.cancel()
            self.peers[seat].losing = None
        self._group.notify_change()

    def drop(self, seat: int, why: str) -> None:
        """Close the link to this seat, stop making one, and forget the peer."""
        peer = self.peers[seat]
        if peer.making is not None:
            peer.making.cancel()
        self.stop_counting(seat)
        self.end(seat, why)
        self.peers.pop(seat, None)

    def reset(self, why: str) -> None:
        """Drop all links and make a new key, so that this member can join again as another one."""
        for seat in list(self.peers):
            self.drop(seat, why)
        self._private = X25519PrivateKey.generate()
        self._absence = ""

    def end(self, seat: int, why: str) -> bool:
        """Close the link to this seat; returns False if there was none."""
        peer = self.peers.get(seat)
        if peer is None or peer.link is None:
            return False
        link, peer.link = peer.link, None
        self._absence = link.own_absence or self._absence
        self._group.serve(link.close(why))
        return True

    # -- messages --------------------------------------------------------------------------------------------

    def send(self, seat: int, message: pb.GroupMessage) -> None:
        peer = self.peers.get(seat)
        if peer is not None and peer.link is not None:
            peer.link.rpc.tell_nowait(wire_pb.GroupNotice(content=message.SerializeToString()))

    def send_all(self, message: pb.GroupMessage) -> None:
        for seat in list(self.peers):
            self.send(seat, message)

    def has_greeted_all(self, me: int) -> bool:
        """Return True if every earlier member that is still present has greeted the member with seat `me`."""
        earlier = [peer for seat, peer in self.peers.items() if seat < me and seat != self._group.host]
        return all(peer.is_greeted or (peer.link is None and peer.making is None) for peer in earlier)

    def newcomers(self) -> tuple[int, ...]:
        """Return the seats that have links to all members and wait for an epoch. Known at the host only."""
        assert self._group.member_state is not None
        members = self._group.member_state.epoch.members
        return tuple(
            seat
            for seat, peer in sorted(self.peers.items())
            if peer.is_linked and peer.link is not None and seat not in members
        )

    def report_linked(self) -> None:
        """Report to the host that this member has links to all, if every earlier member has greeted it."""
        now = self._group.member_state
        assert now is not None
        if self.has_greeted_all(now.me):
            self.send(self._group.host, pb.GroupMessage(linked=pb.Linked(seat=now.me)))

    def give_up_lost(self, now: MemberState) -> None:
        """Stop waiting for the link or the greeting of members that the host reports as lost."""
        for seat, peer in list(self.peers.items()):
            if frozenset((self._group.host, seat)) not in now.broken or self._group.is_host:
                continue
            if peer.making is not None:
                peer.making.cancel()
                del self.peers[seat]
                self.report_linked()
            elif peer.link is not None and not (peer.is_greeted or now.is_member):
                self.end(seat, "the host of the group has lost it")
                self.report_linked()

    # -- status messages, beside operations ------------------------------------------------------------------

    def send_status_to_all(self, topic: str, content: bytes) -> None:
        """Send a status message to all present members. A member that comes later does not get it."""
        assert len(topic) <= MOST_TOPIC_CHARACTERS
        assert len(content) <= MOST_WORD_BYTES
        self.send_all(pb.GroupMessage(word=pb.Word(topic=topic, content=content)))

    def send_status(self, seat: int, topic: str, content: bytes) -> None:
        self.send(seat, pb.GroupMessage(word=pb.Word(topic=topic, content=content)))

    def latest_status(self, seat: int, topic: str) -> bytes:
        """Return the latest status message of that seat on the topic; empty if there is none."""
        peer = self.peers.get(seat)
        return b"" if peer is None else peer.statuses.get(topic, b"")
