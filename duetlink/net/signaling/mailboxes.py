"""The state of a signaling server: nameplates, seats and waiting frames.

No sockets, and no message content.

A mailbox exists from the owner's claim until either side leaves or its time is over. A nameplate can be
joined once. After its mailbox has gone, it is remembered as used, and not assigned again, for as long as a
code may live. So a late or second scientist gets the reason, and does not meet a stranger.

A hall is one nameplate with several mailboxes, for a group. Each is joined once, by a different member, in
the order in which they were opened. The client that opened the first one gets the key to open more, and may
pass it on. Once a member has joined, the hall outlives its mailboxes until a minute after its time, so that
another member can open more, which restarts its time. It does not if a wrong code was tried, or if its owner
says that no more members may join.

Two sides that were paired before, and have lost each other, know a meeting place: 32 secret bytes. Either
side may come first, and as often as it likes. The server remembers nothing about a place.
"""

from __future__ import annotations

import asyncio
import ipaddress
import secrets
from collections.abc import Callable, Sequence

from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import Role
from duetlink.net.signaling.code import MAX_NAMEPLATE
from duetlink.net.signaling.limits import Limits, TokenBucket

Refusal = pb.Refusal

PLACE_BYTES = 32
HALL_BYTES = 32
HALL_KEPT_S = 60.0  # after its time: longer than a group takes to notice that its host has gone

Key = int | bytes | tuple[int, int]
"""A nameplate, a meeting place, or one mailbox of a hall: its nameplate and a number."""


class Refused(Exception):
    """A refusal by the server. It stays inside the server; clients get its frame."""

    def __init__(self, reason: pb.Refusal.Reason, text: str) -> None:
        super().__init__(text)
        self.reason = reason
        self.text = text

    def frame(self) -> pb.ServerFrame:
        return pb.ServerFrame(refusal=Refusal(reason=self.reason, text=self.text))


class Seat:
    """One side's end of a mailbox: a queue of frames to send to that client, then None at the end."""

    def __init__(self, number: Key, role: Role) -> None:
        self.number = number
        self.role = role
        self.outbox: asyncio.Queue[pb.ServerFrame | None] = asyncio.Queue()
        self._ended = False

    def put(self, frame: pb.ServerFrame) -> None:
        if not self._ended:
            self.outbox.put_nowait(frame)

    def end(self, frame: pb.ServerFrame) -> None:
        """Queue the last frame; later ones are dropped."""
        if not self._ended:
            self._ended = True
            self.outbox.put_nowait(frame)
            self.outbox.put_nowait(None)


class _Mailbox:
    def __init__(self, number: Key, deadline_s: float) -> None:
        self.seats = {role: Seat(number, role) for role in Role}
        self.deadline_s = deadline_s
        self.used = False
        self.waits_for: Role | None = None  # at a meeting place: the role whose seat is free
        self.messages = 0
        self.size_bytes = 0


class _Hall:
    def __init__(self, seats: int, lifetime_s: float, now_s: float) -> None:
        self.key = secrets.token_bytes(HALL_BYTES)
        self.seats = seats
        self.lifetime_s = lifetime_s
        self.deadline_s = now_s + lifetime_s
        self.opened = 0
        self.used = False
        self.over = False  # no more mailboxes may be opened; it is removed with its last one
        self.mailboxes: dict[tuple[int, int], _Mailbox] = {}  # oldest first


class Mailboxes:
    """All mailboxes of a server. Every method is fast and synchronous; the clock is passed in."""

    def __init__(
        self,
        limits: Limits,
        clock: Callable[[], float],
        choose: Callable[[Sequence[int]], int] = secrets.choice,
    ) -> None:
        self._limits = limits
        self._clock = clock
        self._choose = choose
        self._open: dict[Key, _Mailbox] = {}
        self._halls: dict[int, _Hall] = {}
        self._nameplates: dict[bytes, int] = {}  # nameplates of halls, by the hall's key
        self._gone: dict[int, float] = {}  # nameplates of used mailboxes -> when to forget, oldest first
        self._buckets: dict[str, TokenBucket] = {}

    def __len__(self) -> int:
        return len(self._open)

    def admit(self, address: str, *, known: bool = False) -> None:
        """Count one claim or join from this address, or (`known`) one meeting.

        Raises Refused above the rate.
        """
        limits = self._limits
        if known:
            per_minute, what = limits.meetings_per_address_per_minute, "meetings"
        else:
            per_minute, what = limits.arrivals_per_address_per_minute, "claims and joins"
        now_s = self._clock()
        key = f"{what} {network_of(address)}"
        bucket = self._buckets.setdefault(key, TokenBucket(per_minute, per_minute / 60, now_s))
        if not bucket.take(now_s):
            text = f"more than {per_minute} {what} in a minute from one address; try again in a minute"
            raise Refused(Refusal.LIMIT, text)

    def claim(self, lifetime_s: float = 0, seats: int = 0) -> Seat:
        """Make a mailbox and return the owner's seat; with `seats`, it is the first of a hall.

        `lifetime_s` is limited to what the server allows; 0 means that limit.
        """
        if seats > self._limits.seats:
            raise Refused(Refusal.LIMIT, f"a nameplate has at most {self._limits.seats} seats, not {seats}")
        self._make_room()
        nameplate = self._free_nameplate()
        lifetime_s = min(lifetime_s or self._limits.lifetime_s, self._limits.lifetime_s)
        deadline_s = self._clock() + lifetime_s
        granted = pb.Claimed(nameplate=nameplate, lifetime_s=max(1, int(lifetime_s)))
        if seats:
            hall = self._halls[nameplate] = _Hall(seats, lifetime_s, self._clock())
            self._nameplates[hall.key] = nameplate
            granted.hall = hall.key
            return self._set_up(self._in_hall(nameplate, hall), granted)
        mailbox = self._open[nameplate] = _Mailbox(nameplate, deadline_s)
        return self._set_up(mailbox, granted)

    def claim_seat(self, key: bytes) -> Seat:
        """Make one more mailbox of the hall with this key, and return the owner's seat."""
        self._make_room()
        nameplate = self._nameplates.get(key)
        if nameplate is None or self._halls[nameplate].over:
            raise Refused(Refusal.UNKNOWN_NAMEPLATE, "no hall has this key")
        hall = self._halls[nameplate]
        if len(hall.mailboxes) >= hall.seats:
            raise Refused(Refusal.LIMIT, f"the {hall.seats} seats of nameplate {nameplate} have been opened")
        if hall.used:  # a running group keeps its code while it opens mailboxes
            hall.deadline_s = self._clock() + hall.lifetime_s
        lifetime_s = max(1, int(hall.deadline_s - self._clock()))
        granted = pb.Claimed(nameplate=nameplate, lifetime_s=lifetime_s, hall=key)
        return self._set_up(self._in_hall(nameplate, hall), granted)

    def _in_hall(self, nameplate: int, hall: _Hall) -> _Mailbox:
        number = nameplate, hall.opened
        hall.opened += 1
        mailbox = self._open[number] = hall.mailboxes[number] = _Mailbox(number, hall.deadline_s)
        return mailbox

    def _set_up(self, mailbox: _Mailbox, granted: pb.Claimed) -> Seat:
        mailbox.seats[Role.OWNER].put(pb.ServerFrame(claimed=granted))
        # the scientist's first frame, before the owner's messages
        mailbox.seats[Role.SCIENTIST].put(pb.ServerFrame(joined=pb.Joined()))
        return mailbox.seats[Role.OWNER]

    def join(self, nameplate: int) -> Seat:
        """Return the scientist's seat, which is given only once; in a hall, that of the next free mailbox."""
        self.expire()
        mailbox = self._open.get(nameplate)
        if (hall := self._halls.get(nameplate)) is not None:
            mailbox = next((each for each in hall.mailboxes.values() if not each.used), None)
            if mailbox is None and hall.over:
                raise Refused(Refusal.USED, f"the code with number {nameplate} has been used")
            if mailbox is None:
                raise Refused(
                    Refusal.UNATTENDED,
                    f"no member waits under the code with number {nameplate} at this moment",
                )
            hall.used = True
        if (mailbox and mailbox.used) or nameplate in self._gone:
            raise Refused(Refusal.USED, f"the code with number {nameplate} has been used")
        if mailbox is None:
            raise Refused(Refusal.UNKNOWN_NAMEPLATE, f"no code with number {nameplate} waits here")
        mailbox.used = True
        mailbox.deadline_s = self._clock() + self._limits.pairing_s
        return mailbox.seats[Role.SCIENTIST]

    def meet(self, place: bytes, role: Role) -> Seat:
        """Return this side's seat at a meeting place, where the other side waits or may come."""
        if len(place) != PLACE_BYTES:
            raise Refused(Refusal.MALFORMED, f"a place has {PLACE_BYTES} bytes, this has {len(place)}")
        waiting = self._open.get(place)
        if waiting is not None and waiting.waits_for == role:
            waiting.waits_for = None
            waiting.deadline_s = self._clock() + self._limits.pairing_s
            return waiting.seats[role]
        if waiting is not None:  # this side was here before, and its connection broke without notice
            self.leave(waiting.seats[role], pb.ERRORY)
        self._make_room()
        mailbox = self._open[place] = _Mailbox(place, self._clock() + self._limits.lifetime_s)
        mailbox.waits_for = role.other
        for seat in mailbox.seats.values():
            seat.put(pb.ServerFrame(joined=pb.Joined()))
        return mailbox.seats[role]

    def deliver(self, seat: Seat, message: bytes) -> None:
        """Queue a message for the other side; drop it if the mailbox has gone."""
        mailbox = self._find(seat)
        if mailbox is None:
            return
        limits = self._limits
        if len(message) > limits.message_bytes:
            raise too_large(len(message), limits)
        if mailbox.messages >= limits.mailbox_messages:
            raise Refused(Refusal.LIMIT, f"a mailbox relays at most {limits.mailbox_messages} messages")
        if mailbox.size_bytes + len(message) > limits.mailbox_bytes:
            raise Refused(Refusal.LIMIT, f"a mailbox relays at most {limits.mailbox_bytes} bytes")
        mailbox.messages += 1
        mailbox.size_bytes += len(message)
        mailbox.seats[seat.role.other].put(pb.ServerFrame(message=message))

    def leave(self, seat: Seat, mood: pb.Mood) -> None:
        """Close the mailbox for this side, and notify the other one. Safe to call twice."""
        mailbox = self._find(seat)
        if mailbox is not None:
            if isinstance(seat.number, tuple) and mood in (pb.WRONG_CODE, pb.LONELY):
                self._halls[seat.number[0]].over = True
            mailbox.seats[seat.role.other].end(pb.ServerFrame(left=mood))
            seat.end(pb.ServerFrame(left=mood))
            self._remove(seat.number)

    def expire(self) -> None:
        """Remove everything that is over. Called before every claim and join, and regularly by the server."""
        now_s = self._clock()
        for number, mailbox in [item for item in self._open.items() if item[1].deadline_s <= now_s]:
            name = "the place"
            if not isinstance(number, bytes):
                name = f"mailbox {number if isinstance(number, int) else number[0]}"
            for seat in mailbox.seats.values():
                seat.end(Refused(Refusal.EXPIRED, f"the time of {name} is over").frame())
            self._remove(number)
        for nameplate, hall in list(self._halls.items()):
            if not hall.mailboxes and hall.deadline_s + HALL_KEPT_S <= now_s:
                self._remove_hall(nameplate, hall)
        self._gone = {nameplate: end_s for nameplate, end_s in self._gone.items() if end_s > now_s}
        self._buckets = {key: bucket for key, bucket in self._buckets.items() if not bucket.is_full(now_s)}

    def _find(self, seat: Seat) -> _Mailbox | None:
        mailbox = self._open.get(seat.number)
        return mailbox if mailbox is not None and mailbox.seats[seat.role] is seat else None

    def _make_room(self) -> None:
        self.expire()
        empty = sum(not hall.mailboxes for hall in self._halls.values())
        if len(self._open) + empty >= self._limits.mailboxes:
            raise Refused(
                Refusal.LIMIT, f"the server holds {self._limits.mailboxes} mailboxes already; try again later"
            )

    def _remove(self, number: Key) -> None:
        used = self._open.pop(number).used
        if isinstance(number, tuple):
            nameplate = number[0]
            hall = self._halls[nameplate]
            del hall.mailboxes[number]
            is_kept = hall.used and not hall.over and self._clock() < hall.deadline_s + HALL_KEPT_S
            if not (hall.mailboxes or is_kept):
                self._remove_hall(nameplate, hall)
        elif used and isinstance(number, int):
            self._remember(number)

    def _remove_hall(self, nameplate: int, hall: _Hall) -> None:
        del self._halls[nameplate], self._nameplates[hall.key]
        if hall.used:
            self._remember(nameplate)

    def _remember(self, nameplate: int) -> None:
        """Remember a used nameplate, so that it is not assigned again."""
        self._gone[nameplate] = self._clock() + self._limits.lifetime_s
        while len(self._gone) > self._limits.mailboxes:
            del self._gone[next(iter(self._gone))]

    def _free_nameplate(self) -> int:
        # short numbers first, because people say them aloud: 1-99, then 1-999, …
        top = 99
        while top < MAX_NAMEPLATE:
            free = [
                number
                for number in range(1, top + 1)
                if number not in self._open and number not in self._halls and number not in self._gone
            ]
            if free:
                return self._choose(free)
            top = top * 10 + 9
        raise Refused(Refusal.LIMIT, "all nameplates are taken; try again later")


def too_large(size_bytes: int, limits: Limits) -> Refused:
    return Refused(Refusal.LIMIT, f"a message of {size_bytes} bytes; the server takes {limits.message_bytes}")


def network_of(address: str) -> str:
    """Return what counts as one address: an IPv4 address, or an IPv6 /64, all of which one host can use."""
    try:
        ip = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address
    if isinstance(ip, ipaddress.IPv6Address):
        if ip.ipv4_mapped is not None:
            return str(ip.ipv4_mapped)
        return str(ipaddress.IPv6Network((ip, 64), strict=False))
    return str(ip)
