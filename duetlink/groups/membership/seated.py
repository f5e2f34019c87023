"""What whoever launched tells a newcomer: its seat, and all who were there before it."""

from __future__ import annotations

from dataclasses import dataclass

from duetlink.errors import RemoteProtocolError
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import Epoch
from duetlink.groups.membership.roster import Entry, Roster


@dataclass(frozen=True, slots=True)
class Seated:
    """The newcomer has the last seat of the roster."""

    roster: Roster
    epoch: Epoch
    present: tuple[int, ...]  # seats to which the newcomer makes links
    grows: bool  # others may come later

    def to_wire(self) -> pb.Seated:
        return pb.Seated(
            entries=[pb.Entry(key=each.key, name=each.name) for each in self.roster.entries],
            epoch=self.epoch.number,
            members=self.epoch.members,
            present=self.present,
            grows=self.grows,
        )

    @classmethod
    def from_wire(cls, seated: pb.Seated, me: Entry) -> Seated:
        """Raises RemoteProtocolError: `me` has no seat of its own, or seats are named that nobody has."""
        roster = Roster()
        for entry in seated.entries:
            roster = roster.with_entry(Entry(entry.key, entry.name))
        seat = len(roster) - 1
        present = set(seated.present)
        members = tuple(seated.members)
        if seat < 1 or roster.entries[seat] != me:
            raise RemoteProtocolError("whoever launched gave this member no seat of its own")
        if not present <= set(range(1, seat)) or list(members) != sorted(set(members)):
            raise RemoteProtocolError("whoever launched named members that have no seat")
        if not members or members[-1] >= seat:
            raise RemoteProtocolError("whoever launched named an epoch of members that have no seat")
        return cls(roster, Epoch(seated.epoch, members), tuple(sorted(present)), seated.grows)
