"""The entrance of a group: its host keeps the door open and gives each newcomer a seat.

The founder is the first host. When the host goes, the lowest seat of the next epoch takes over: every member
knows the session code and the key with which more mailboxes are opened under it. Newcomers that had a seat
but were not yet in an epoch join again at the new host. Some members may not have been informed of these
seats, so each member sends the new host the first seat that it does not know; the host gives out seats from
the largest of these numbers on, and the seats between are void.
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

FOUNDER = 0  # the seat of the member that launched the group
_SEATS = "seats"  # topic of status messages: the epoch, and the first seat that the sender does not know
_PLACE = struct.Struct("<QQ")


class AdmittingGroup(Protocol):
    """The parts of a group that its entrance uses; `GroupLife` has them."""

    roster: Roster
    member_state: MemberState | None
    links: MemberLinks
    grows: bool
    code: str | None

    @property
    def is_ready(self) -> bool: ...
    @property
    def is_host(self) -> bool: ...
    def admit(self, seats: tuple[int, ...], /) -> None: ...
    def serve(self, work: Awaitable[None], /) -> object: ...
    def notify_change(self) -> None: ...
    def has_gone(self, seat: int, /) -> bool: ...
    def is_member(self, seat: int, /) -> bool: ...
    async def wait_change(self) -> None: ...


class Entrance:
    """The entrance as one member has it: the door at the host, elsewhere what is needed to become the host.

    Used on the loop thread.
    """

    def __init__(self, group: AdmittingGroup, wiring: Wiring, size: int | None) -> None:
        """`size` is the number of members that the group begins with. If it is None, the group begins with
        the members that are connected when the door is shut.
        """
        self.why_not_whole: DuetError | None = None  # why the group will never have all members; else None
        self.arriving: set[Link] = set()  # links to newcomers that have not introduced themselves yet
        self.is_hosting = False  # this member may give out seats
        self._group = group
        self._wiring = wiring
        self._size = size
        self.most = MOST_MEMBERS if size is None else size  # members at the same time
        self.hall = b""  # key that opens mailboxes under the code; empty if nobody may join
        # the first void seat since this member took over, until the entry of the next newcomer carries it
        self._first_void = 0
        self._next_seat = 0  # seats below this one have been given out
        self._door: Door | None = None
        self._is_closed = False

    async def open(self, server: SignalingServer, lifetime_s: float) -> str | None:
        """Open the door and return the session code, or None for a group of size 1.

        Raises:
            SignalingUnavailable, SignalingRefused: the signaling server gave no mailboxes.
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
            self._wiring,
            self._free_places,
            lambda: self._group.is_ready,
            self.seat,
            self._code_burnt,
            self.lost_one,
        )

    def _free_places(self) -> int:
        """Return how many more members the group has room for."""
        group = self._group
        present = 0
        for seat, peer in group.links.peers.items():
            # a newcomer whose link was lost joins again with another seat, so it is not counted
            is_there = peer.losing is None or group.is_member(seat)
            present += peer.link is not None and is_there and not group.has_gone(seat)
        return self.most - 1 - present - len(self.arriving)

    def refill(self) -> None:
        """Open more seats after a member has gone, so that others can take its place."""
        if self._door is not None:
            self._door.refill()

    def shut(self) -> None:
        """Let no more newcomers in; a group that has not begun begins with the members it has.

        Does nothing at a member that is not the host.
        """
        if not self._group.is_host:
            return
        self.why_not_whole = None
        self._size = None
        self._announce_shut()
        if self._door is not None:
            self._group.serve(self._shut(self._door))

    async def _shut(self, door: Door) -> None:
        await door.shut()
        self.begin_if_whole()

    def _announce_shut(self) -> None:
        self.hall = b""
        self._group.links.send_all(pb.GroupMessage(shut=pb.Shut()))

    async def close(self) -> None:
        """Close the door, if there is one. Safe to call twice."""
        self.is_hosting, self._is_closed = False, True
        if self._door is not None:
            await self._door.close()

    # -- another host ----------------------------------------------------------------------------------------

    def host_changed(self, epoch: Epoch) -> None:
        """Handle the first epoch with a new host: become the host, or send it the first unknown seat."""
        self.is_hosting = False
        host = epoch.members[0]
        if not self._group.is_host:
            place = _PLACE.pack(epoch.number, self._group.roster.next_seat)
            self._group.links.send_status(host, _SEATS, place)
            return
        self._first_void = epoch.members[-1] + 1
        self._group.serve(self._take_over(epoch))

    async def _take_over(self, since: Epoch) -> None:
        """Wait until all members have reported their first unknown seat, then give out seats and open the
        door.

        `since` is the epoch in which this member became the host; older reports do not count.
        """
        group, free = self._group, [self._group.roster.next_seat]
        while True:
            now = group.member_state
            if now is None or now.stopped or self._is_closed or not group.is_host:
                return
            reported = [
                _PLACE.unpack(word)
                for seat in now.epoch.members
                if seat != now.me and len(word := group.links.latest_status(seat, _SEATS)) == _PLACE.size
            ]
            free = [group.roster.next_seat, *(seat for number, seat in reported if number >= since.number)]
            if len(free) == len(now.epoch.members):
                break
            await group.wait_change()
        self._next_seat = min(max(free), MOST_SEATS)
        self.is_hosting = True
        group.notify_change()
        if self.hall and group.code is not None and self._door is None:
            self._door = self._new_door()
            self._door.take_over(group.links.url, SessionCode.parse(group.code), self.hall)

    # -- newcomers -------------------------------------------------------------------------------------------

    def seat(self, link: Link) -> None:
        """Wait for the newcomer on this link to send its key and name, then give it a seat.

        The peer has proved that it knows the code. Any other first message ends the link.
        """
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
        group, now = self._group, self._group.member_state
        assert now is not None
        self.arriving.discard(link)
        kept, self._first_void = self._first_void, 0
        seat = max(group.roster.next_seat, self._next_seat)
        group.roster = (group.roster.up_to(kept) if kept else group.roster).with_entry(entry, seat)
        # the links to former members stay for a moment, and the seats of some of them may have been voided
        peers = group.links.peers.items()
        present = [other for other, peer in peers if peer.link is not None and other in group.roster.entries]
        announced = pb.Entry(key=entry.key, name=entry.name, seat=seat, kept=kept)
        group.links.send_all(pb.GroupMessage(newcomer=announced))
        group.links.adopt(seat, link, start=False)
        seated = SeatAssignment(
            group.roster, now.epoch, tuple(present), group.grows, now.me, self.hall, self.most
        )
        group.links.send(seat, pb.GroupMessage(seated=seated.to_wire()))
        group.notify_change()

    # -- a group that waits for its members ------------------------------------------------------------------

    def _code_burnt(self, error: WrongCode) -> None:
        self.why_not_whole = error
        self._announce_shut()
        self._group.notify_change()

    def lost_one(self, error: DuetError) -> None:
        """Open another seat after a newcomer was lost.

        If the door is shut and the group will never have its `size` members, set `why_not_whole`.
        """
        group, door = self._group, self._door
        self.refill()
        present = 1 + len(self.arriving) + sum(peer.link is not None for peer in group.links.peers.values())
        wanted = 0 if self._size is None or group.is_ready else self._size
        if door is not None and present + door.coming < wanted and self.why_not_whole is None:
            self.why_not_whole = PairingTimeout(
                f"only {present} of {wanted} members have joined ({error}); begin with them by "
                "close_doors(), or launch a new group"
            )
        group.notify_change()

    def begin_if_whole(self) -> None:
        """Begin the first epoch once `size` members have links to all, or the door is shut and all have."""
        now, door, peers = self._group.member_state, self._door, self._group.links.peers
        if now is None or now.epoch.number or now.change_due or door is None or now.me != FOUNDER:
            return
        linked = [seat for seat, peer in peers.items() if peer.link is not None and peer.is_linked]
        seated = [seat for seat, peer in peers.items() if peer.link is not None]
        if self._size is not None:
            whole = len(linked) + 1 >= self._size
        else:
            whole = not door.is_open and not door.coming and linked == seated
        if whole:
            self._group.admit(tuple(linked))
