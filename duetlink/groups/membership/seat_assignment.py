"""What the host tells a newcomer: its seat, all who were there before it, and how others are let in."""

from __future__ import annotations

from dataclasses import dataclass, field

from duetlink.errors import RemoteProtocolError
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import MOST_MEMBERS, Epoch
from duetlink.groups.membership.roster import Entry, Roster

_MOST_HALL_BYTES = 64


@dataclass(frozen=True, slots=True)
class SeatAssignment:
    """The newcomer has the last seat of the roster."""

    roster: Roster
    epoch: Epoch
    present: tuple[int, ...]  # seats to which the newcomer makes links
    grows: bool  # others may come later
    host: int = 0  # whose link this came by
    hall: bytes = field(default=b"", repr=False)  # opens more mailboxes; empty if the doors are shut
    most: int = MOST_MEMBERS  # that the group takes

    def to_wire(self) -> pb.Seated:
        return pb.Seated(
            entries=[
                pb.Entry(key=each.key, name=each.name, seat=seat)
                for seat, each in self.roster.entries.items()
            ],
            epoch=self.epoch.number,
            members=self.epoch.members,
            present=self.present,
            grows=self.grows,
            host=self.host,
            hall=self.hall,
            most=self.most,
        )

    @classmethod
    def from_wire(cls, seated: pb.Seated, me: Entry) -> SeatAssignment:
        """Raises RemoteProtocolError: `me` has no seat of its own, or seats are named that nobody has."""
        roster = Roster()
        for entry in seated.entries:
            roster = roster.with_entry(Entry(entry.key, entry.name), entry.seat or None)
        seat = roster.next_seat - 1
        present, others = set(seated.present), roster.entries.keys() - {seat}
        members = tuple(seated.members)
        if seat < 1 or roster.entries[seat] != me:
            raise RemoteProtocolError("the host gave this member no seat of its own")
        if not present <= others - {seated.host} or list(members) != sorted(set(members)):
            raise RemoteProtocolError("the host named members that have no seat")
        if not members or not set(members) <= others or seated.host != members[0]:
            raise RemoteProtocolError("the host named an epoch of members that have no seat")
        if len(seated.hall) > _MOST_HALL_BYTES:
            raise RemoteProtocolError(f"the key of a hall has {len(seated.hall)} bytes")
        most = min(seated.most or MOST_MEMBERS, MOST_MEMBERS)
        epoch = Epoch(seated.epoch, members)
        return cls(roster, epoch, tuple(sorted(present)), seated.grows, seated.host, seated.hall, most)
