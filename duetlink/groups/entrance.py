"""How members come into a group: at whoever launched, who opens the door and gives each newcomer a seat."""

from __future__ import annotations

from collections.abc import Awaitable
from typing import Protocol

from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.errors import DuetError, PairingTimeout, RemoteProtocolError, WrongCode
from duetlink.groups.meeting.door import Door
from duetlink.groups.meeting.wiring import Wiring
from duetlink.groups.member_links import MemberLinks
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.machine import Standing
from duetlink.groups.membership.messages import MOST_MEMBERS
from duetlink.groups.membership.roster import Entry, Roster
from duetlink.groups.membership.seated import Seated
from duetlink.net.link.link import Link
from duetlink.net.signaling import SignalingServer

FOUNDER = 0  # the seat of whoever launched


class Entered(Protocol):
    """What the entrance needs of the group."""

    roster: Roster
    standing: Standing | None
    links: MemberLinks
    grows: bool

    @property
    def is_ready(self) -> bool: ...
    def admit(self, seats: tuple[int, ...], /) -> None: ...
    def serve(self, work: Awaitable[None], /) -> object: ...
    def stir(self) -> None: ...


class Entrance:
    """That of one group. It does nothing at members who did not launch. Belongs to the loop thread."""

    def __init__(self, group: Entered, wiring: Wiring, size: int | None) -> None:
        """`size`: how many members the group begins with; None: with those who are there once it is shut."""
        self.why_not_whole: DuetError | None = None  # and never will be; None while it may be
        self.arriving: set[Link] = set()  # who has not introduced itself
        self._group = group
        self._wiring = wiring
        self._size = size
        self._door: Door | None = None

    async def open(self, server: SignalingServer, lifetime_s: float) -> str | None:
        """Open the door; returns the code, if anybody is to come.

        Raises:
            SignalingUnavailable, SignalingRefused: as a door does.
        """
        door = self._door = Door(self._wiring, self.seat, self._burnt, self.lost_one)
        seats = MOST_MEMBERS - 1 if self._size is None else self._size - 1
        code = str(await door.open(server, seats, lifetime_s)) if seats else None
        if self._size == 1:
            self._group.admit(())
        return code

    def shut(self) -> None:
        """Take nobody in any more, and begin with those who are there, if nothing has begun."""
        self.why_not_whole = None
        self._size = None
        if self._door is not None:
            self._group.serve(self._shut(self._door))

    async def _shut(self, door: Door) -> None:
        await door.shut()
        self.begin_if_whole()

    async def close(self) -> None:
        """Safe to call twice, and where no door was opened."""
        if self._door is not None:
            await self._door.close()

    # -- newcomers -------------------------------------------------------------------------------------------

    def seat(self, link: Link) -> None:
        """Somebody who knew the code has a link; its first word is its key and name."""
        first = True

        def heard(notice: wire_pb.GroupNotice) -> None:
            nonlocal first
            message = messages.parse(notice.content)
            if first and message.WhichOneof("body") == "newcomer":
                first = False
                self._take_in(link, Entry(message.newcomer.key, message.newcomer.name))
                return
            raise RemoteProtocolError("a newcomer did not introduce itself to the group")

        self.arriving.add(link)
        link.on_closed = lambda error: self.arriving.discard(link)
        link.rpc.notice(wire_pb.GroupNotice, heard)
        link.start()

    def _take_in(self, link: Link, entry: Entry) -> None:
        group, now = self._group, self._group.standing
        assert now is not None
        group.roster = group.roster.with_entry(entry)
        self.arriving.discard(link)
        seat = len(group.roster) - 1
        present = [other for other, peer in group.links.peers.items() if peer.link is not None]
        group.links.send_all(pb.GroupMessage(newcomer=pb.Entry(key=entry.key, name=entry.name)))
        group.links.adopt(seat, link, start=False)
        seated = Seated(group.roster, now.epoch, tuple(present), group.grows)
        group.links.send(seat, pb.GroupMessage(seated=seated.to_wire()))
        group.stir()

    # -- whether all come ------------------------------------------------------------------------------------

    def _burnt(self, error: WrongCode) -> None:
        self.why_not_whole = error
        self._group.stir()

    def lost_one(self, error: DuetError) -> None:
        """A seat is lost. Where all of them are needed, the group will never be whole."""
        group, door = self._group, self._door
        there = 1 + sum(peer.link is not None for peer in group.links.peers.values())
        wanted = 0 if self._size is None or group.is_ready else self._size
        if door is not None and there + door.coming < wanted and self.why_not_whole is None:
            self.why_not_whole = PairingTimeout(
                f"only {there} of {wanted} members have come ({error}); go on with them by close_doors(), or "
                "launch anew"
            )
        group.stir()

    def begin_if_whole(self) -> None:
        """The first epoch of a group that waits for a number of members, or whose doors have been shut."""
        now, door, peers = self._group.standing, self._door, self._group.links.peers
        if now is None or now.epoch.number or now.due or door is None or now.me != FOUNDER:
            return
        linked = [seat for seat, peer in peers.items() if peer.link is not None and peer.is_linked]
        seated = [seat for seat, peer in peers.items() if peer.link is not None]
        if self._size is not None:
            whole = len(linked) + 1 >= self._size
        else:
            whole = not door.is_open and not door.coming and linked == seated
        if whole:
            self._group.admit(tuple(linked))
