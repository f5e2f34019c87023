"""The host's first message to a newcomer: its seat, the members before it, and how others can join."""

from __future__ import annotations

from dataclasses import dataclass, field

from duetlink.errors import RemoteProtocolError
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import MOST_MEMBERS, Epoch
from duetlink.groups.membership.roster import Entry, Roster

_MOST_HALL_BYTES = 64


@dataclass(frozen=True, slots=True)
class SeatAssignment:
    """The host's answer to a newcomer, whose seat is the last one of `roster`."""

    roster: Roster
    epoch: Epoch
    present: tuple[int, ...]  # seats to which the newcomer has to make links
    grows: bool  # other members may join later
    host: int = 0  # seat of the sender
    hall: bytes = field(default=b"", repr=False)  # key that opens more mailboxes; empty if nobody may join
    most: int = MOST_MEMBERS  # members that the group takes at the same time

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
        """Parse and check the message; `me` is the entry that this member sent to the host.

        Raises RemoteProtocolError if `me` is not the last entry, or a seat is not in the roster.
        """
        roster = Roster()
        for entry in seated.entries:
            roster = roster.with_entry(Entry(entry.key, entry.name), entry.seat or None)
        seat = roster.next_seat - 1
        present, others = set(seated.present), roster.entries.keys() - {seat}
        members = tuple(seated.members)
        if seat < 1 or roster.entries[seat] != me:
            raise RemoteProtocolError("the host gave this member no seat of its own")
        if not present <= others - {seated.host} or list(members) != sorted(set(members)):
            raise RemoteProtocolError("the host listed present members that have no seat")
        if not members or not set(members) <= others or seated.host != members[0]:
            raise RemoteProtocolError("the host sent an epoch with members that have no seat")
        if len(seated.hall) > _MOST_HALL_BYTES:
            raise RemoteProtocolError(
                f"the host sent a hall key of {len(seated.hall)} bytes, more than {_MOST_HALL_BYTES}"
            )
        most = min(seated.most or MOST_MEMBERS, MOST_MEMBERS)
        epoch = Epoch(seated.epoch, members)
        return cls(roster, epoch, tuple(sorted(present)), seated.grows, seated.host, seated.hall, most)
