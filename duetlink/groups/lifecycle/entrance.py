"""How members come into a group: at its host, who has the door open and gives each newcomer a seat.

Whoever launched is the first host. When the host goes, the lowest seat of the next epoch takes over: every
member knows the code, and was told the key of the hall. Those who had a seat and were not admitted come to
the new host again. Not all members may have been told of their seats, so all tell the new host how far they
know, and it gives seats beyond that; those between are void.
"""

from __future__ import annotations

import struct
from collections.abc import Awaitable
from typing import Protocol

from duetlink.base.wire import schema_pb2 as wire_pb
from duetlink.errors import DuetError, LinkClosed, PairingTimeout, RemoteProtocolError, WrongCode
from duetlink.groups.links.meeting.door import Door
from duetlink.groups.links.meeting.wiring import Wiring
from duetlink.groups.links.member_links import MemberLinks
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.member_state import MemberState
from duetlink.groups.membership.messages import MOST_MEMBERS, MOST_SEATS, Epoch
from duetlink.groups.membership.roster import Entry, Roster
from duetlink.groups.membership.seat_assignment import SeatAssignment
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.signaling import SessionCode, SignalingServer

FOUNDER = 0  # the seat of whoever launched
_SEATS = "seats"  # a topic of words: the epoch, and the first seat that the sender knows nothing of
_PLACE = struct.Struct("<QQ")


class Entered(Protocol):
    """What the entrance needs of the group."""

    roster: Roster
    standing: MemberState | None
    links: MemberLinks
    grows: bool
    code: str | None

    @property
    def is_ready(self) -> bool: ...
    @property
    def is_host(self) -> bool: ...
    def admit(self, seats: tuple[int, ...], /) -> None: ...
    def serve(self, work: Awaitable[None], /) -> object: ...
    def stir(self) -> None: ...
    def has_gone(self, seat: int, /) -> bool: ...
    def is_member(self, seat: int, /) -> bool: ...
    async def wait_change(self) -> None: ...


class Entrance:
    """That of one group: at its host, the door; elsewhere, what is needed to become the host. The host is the
    lowest seat of the epoch. Belongs to the loop thread.
    """

    def __init__(self, group: Entered, wiring: Wiring, size: int | None) -> None:
        """`size`: how many members the group begins with; None: with those who are there once it is shut."""
        self.why_not_whole: DuetError | None = None  # and never will be; None while it may be
        self.arriving: set[Link] = set()  # who has not introduced itself
        self.is_hosting = False  # seats may be given here
        self._group = group
        self._wiring = wiring
        self._size = size
        self.most = MOST_MEMBERS if size is None else size  # members at once
        self.hall = b""  # opens seats under the code; empty where there is no door, or it was shut
        self._kept = 0  # the first seat that was void when this member took over, until that is told
        self._next_seat = 0  # no earlier one is free
        self._door: Door | None = None
        self._is_closed = False

    async def open(self, server: SignalingServer, lifetime_s: float) -> str | None:
        """Open the door; returns the code, if anybody is to come.

        Raises:
            SignalingUnavailable, SignalingRefused: as a door does.
        """
        self.is_hosting = True
        door = self._door = self._new_door()
        seats = self.most - 1
        code = str(await door.open(server, seats, lifetime_s)) if seats else None
        self.hall = door.hall
        if self._size == 1:
            self._group.admit(())
        return code

    def _new_door(self) -> Door:
        return Door(
            self._wiring, self._room, lambda: self._group.is_ready, self.seat, self._burnt, self.lost_one
        )

    def _room(self) -> int:
        """How many more may come."""
        group = self._group
        there = 0
        for seat, peer in group.links.peers.items():
            # a newcomer that is out of reach comes again, as another one
            is_there = peer.losing is None or group.is_member(seat)
            there += peer.link is not None and is_there and not group.has_gone(seat)
        return self.most - 1 - there - len(self.arriving)

    def refill(self) -> None:
        """Somebody has gone: others may come in their place."""
        if self._door is not None:
            self._door.refill()

    def shut(self) -> None:
        """Take nobody in any more, and begin with those who are there, if nothing has begun. At the host."""
        if not self._group.is_host:
            return
        self.why_not_whole = None
        self._size = None
        self._tell_shut()
        if self._door is not None:
            self._group.serve(self._shut(self._door))

    async def _shut(self, door: Door) -> None:
        await door.shut()
        self.begin_if_whole()

    def _tell_shut(self) -> None:
        self.hall = b""
        self._group.links.send_all(pb.GroupMessage(shut=pb.Shut()))

    async def close(self) -> None:
        """Safe to call twice, and where no door was opened."""
        self.is_hosting, self._is_closed = False, True
        if self._door is not None:
            await self._door.close()

    # -- another host ----------------------------------------------------------------------------------------

    def host_changed(self, epoch: Epoch) -> None:
        """This epoch is the first one with its lowest seat: the new host learns which seats are free."""
        self.is_hosting = False
        host = epoch.members[0]
        if not self._group.is_host:
            place = _PLACE.pack(epoch.number, self._group.roster.next_seat)
            self._group.links.say_to(host, _SEATS, place)
            return
        self._kept = epoch.members[-1] + 1
        self._group.serve(self._take_over(epoch))

    async def _take_over(self, since: Epoch) -> None:
        """Begin to give seats once all members have said which ones are free, and open the door."""
        group, free = self._group, [self._group.roster.next_seat]
        while True:
            now = group.standing
            if now is None or now.stopped or self._is_closed or not group.is_host:
                return
            told = [
                _PLACE.unpack(word)
                for seat in now.epoch.members
                if seat != now.me and len(word := group.links.heard(seat, _SEATS)) == _PLACE.size
            ]
            free = [group.roster.next_seat, *(seat for number, seat in told if number >= since.number)]
            if len(free) == len(now.epoch.members):
                break
            await group.wait_change()
        self._next_seat = min(max(free), MOST_SEATS)
        self.is_hosting = True
        group.stir()
        if self.hall and group.code is not None and self._door is None:
            self._door = self._new_door()
            self._door.take_over(group.links.url, SessionCode.parse(group.code), self.hall)

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

        def ended(error: LinkClosed) -> None:
            self.arriving.discard(link)
            self.lost_one(error)

        self.arriving.add(link)
        link.belong_to(LinkOwner(closed=ended))
        link.rpc.notice(wire_pb.GroupNotice, heard)
        link.start()

    def _take_in(self, link: Link, entry: Entry) -> None:
        group, now = self._group, self._group.standing
        assert now is not None
        self.arriving.discard(link)
        kept, self._kept = self._kept, 0
        seat = max(group.roster.next_seat, self._next_seat)
        group.roster = (group.roster.up_to(kept) if kept else group.roster).with_entry(entry, seat)
        present = [other for other, peer in group.links.peers.items() if peer.link is not None]
        told = pb.Entry(key=entry.key, name=entry.name, seat=seat, kept=kept)
        group.links.send_all(pb.GroupMessage(newcomer=told))
        group.links.adopt(seat, link, start=False)
        seated = SeatAssignment(
            group.roster, now.epoch, tuple(present), group.grows, now.me, self.hall, self.most
        )
        group.links.send(seat, pb.GroupMessage(seated=seated.to_wire()))
        group.stir()

    # -- whether all come ------------------------------------------------------------------------------------

    def _burnt(self, error: WrongCode) -> None:
        self.why_not_whole = error
        self._tell_shut()
        self._group.stir()

    def lost_one(self, error: DuetError) -> None:
        """A seat is lost. Another one is opened; where the door is shut, not all will ever be there."""
        group, door = self._group, self._door
        self.refill()
        there = 1 + len(self.arriving) + sum(peer.link is not None for peer in group.links.peers.values())
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
