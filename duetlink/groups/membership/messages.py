"""The messages by which members agree on the next epoch, and their protobuf form on the control channel."""

from __future__ import annotations

import itertools
from collections.abc import Iterable

import msgspec

from duetlink.base.wire.envelope import parsed
from duetlink.errors import LimitExceeded, RemoteProtocolError
from duetlink.groups.membership import schema_pb2 as pb

MOST_SEATS = 256  # seats that one group gives out during its whole life
MOST_MEMBERS = 16  # members at the same time: each pair has a link, and 16 members have 120 links

Ballot = tuple[int, int]
"""A round number and the proposer's seat; a later ballot compares greater."""


class Epoch(msgspec.Struct, frozen=True):
    """A number and the members' seats in ascending order; a member's rank is the index of its seat."""

    number: int
    members: tuple[int, ...]

    def __post_init__(self) -> None:
        assert list(self.members) == sorted(set(self.members))


class Lost(msgspec.Struct, frozen=True):
    """The link between these two seats is gone for good. Each member relays this once."""

    epoch: int
    one: int
    other: int


class Missing(msgspec.Struct, frozen=True):
    """The member `by` receives nothing from `seat`, or with `back` receives from it again.

    `by == seat` means that this member's process was stopped for a while. Other members relay the message
    without `back`; only `by` itself sends it with `back`.
    """

    epoch: int
    by: int
    seat: int
    back: bool = False


class Leaving(msgspec.Struct, frozen=True):
    """The sender wants to leave; it takes part until the members have agreed on an epoch without it.

    With a seat, the sender relays that this other member wants to leave. A relayed message does not remove
    the member (only its own message does); it says that the end of that member's links is not a loss.
    """

    epoch: int
    seat: int | None = None


class EpochAborted(msgspec.Struct, frozen=True):
    """An operation of this epoch failed; the next operation runs in a new epoch with the same members."""

    epoch: int


class Proposal(msgspec.Struct, frozen=True):
    """The seats of the next epoch; `even` if all members had finished the same number of operations."""

    members: tuple[int, ...]
    even: bool = True


class Prepare(msgspec.Struct, frozen=True):
    """Paxos prepare: asks for a promise, which a member gives once it runs no operation.

    `without` lists the members of this epoch that the next one will not have.
    """

    epoch: int
    ballot: Ballot
    without: tuple[int, ...]


class Promise(msgspec.Struct, frozen=True):
    """Paxos promise: the sender will accept no earlier ballot.

    `accepted` is the proposal that it has accepted before, `finished` how many operations of this epoch
    succeeded at the sender.
    """

    epoch: int
    ballot: Ballot
    finished: int
    accepted: tuple[Ballot, Proposal] | None


class Refused(msgspec.Struct, frozen=True):
    """Refuses `ballot`, because the sender has promised the later ballot `promised`."""

    epoch: int
    ballot: Ballot
    promised: Ballot


class Accept(msgspec.Struct, frozen=True):
    """Paxos accept: asks the receiver to accept this proposal for the next epoch."""

    epoch: int
    ballot: Ballot
    proposal: Proposal


class Accepted(msgspec.Struct, frozen=True):
    epoch: int
    ballot: Ballot


class Commit(msgspec.Struct, frozen=True):
    """A majority has accepted: `proposal` is the epoch with the number `epoch`, which begins now."""

    epoch: int
    proposal: Proposal


Message = Lost | Missing | Leaving | EpochAborted | Prepare | Promise | Refused | Accept | Accepted | Commit


def to_wire(message: Message) -> pb.Agreement:
    wire = pb.Agreement(epoch=message.epoch)
    match message:
        case Lost(one=one, other=other):
            wire.lost.one, wire.lost.other = one, other
        case Missing(by=by, seat=seat, back=back):
            wire.missing.by, wire.missing.seat, wire.missing.back = by, seat, back
        case Leaving(seat=seat):
            wire.leaving.SetInParent()
            if seat is not None:
                wire.leaving.seat = seat
        case EpochAborted():
            wire.spoiled.SetInParent()
        case Prepare(ballot=ballot, without=without):
            wire.prepare.without.extend(without)
            _put(wire.ballot, ballot)
        case Promise(ballot=ballot, finished=finished, accepted=accepted):
            _put(wire.ballot, ballot)
            wire.promise.finished = finished
            if accepted is not None:
                _put(wire.promise.accepted, accepted[0])
                wire.promise.proposal.CopyFrom(_proposal_to_wire(accepted[1]))
        case Refused(ballot=ballot, promised=promised):
            _put(wire.ballot, ballot)
            _put(wire.refused.promised, promised)
        case Accept(ballot=ballot, proposal=proposal):
            _put(wire.ballot, ballot)
            wire.accept.CopyFrom(_proposal_to_wire(proposal))
        case Accepted(ballot=ballot):
            _put(wire.ballot, ballot)
            wire.accepted.SetInParent()
        case Commit(proposal=proposal):
            wire.commit.CopyFrom(_proposal_to_wire(proposal))
    return wire


def from_wire(wire: pb.Agreement) -> Message:
    """Parse a message. Raises RemoteProtocolError if it is invalid, LimitExceeded for too many seats."""
    epoch, ballot = wire.epoch, (wire.ballot.round, wire.ballot.seat)
    match wire.WhichOneof("body"):
        case "lost":
            one, other = _seats([wire.lost.one, wire.lost.other])
            if one == other:
                raise RemoteProtocolError(f"a member reported a lost link between member {one} and itself")
            return Lost(epoch, one, other)
        case "missing":
            by, missed = _seats([wire.missing.by, wire.missing.seat])
            return Missing(epoch, by, missed, wire.missing.back)
        case "leaving":
            seat = _seats([wire.leaving.seat])[0] if wire.leaving.HasField("seat") else None
            return Leaving(epoch, seat)
        case "spoiled":
            return EpochAborted(epoch)
        case "prepare":
            return Prepare(epoch, ballot, _seats(wire.prepare.without))
        case "promise":
            promise = wire.promise
            if not promise.HasField("accepted"):
                return Promise(epoch, ballot, promise.finished, None)
            accepted = (promise.accepted.round, promise.accepted.seat)
            return Promise(epoch, ballot, promise.finished, (accepted, _proposal(promise.proposal)))
        case "refused":
            return Refused(epoch, ballot, (wire.refused.promised.round, wire.refused.promised.seat))
        case "accept":
            return Accept(epoch, ballot, _proposal(wire.accept))
        case "accepted":
            return Accepted(epoch, ballot)
        case "commit":
            return Commit(epoch, _proposal(wire.commit))
    raise RemoteProtocolError("a member sent an epoch message of a kind unknown here")


def parse(data: bytes) -> pb.GroupMessage:
    """Parse the bytes of a group message. Raises RemoteProtocolError if they are not one."""
    return parsed(pb.GroupMessage, data, f"a member sent {len(data)} bytes that are no message of a group")


def _put(wire: pb.Ballot, ballot: Ballot) -> None:
    wire.round, wire.seat = ballot


def _seats(seats: Iterable[int]) -> tuple[int, ...]:
    found = tuple(seats)
    if len(found) > MOST_MEMBERS or any(seat >= MOST_SEATS for seat in found):
        raise LimitExceeded(f"a member named {len(found)} seats; at most {MOST_MEMBERS}, below {MOST_SEATS}")
    return found


def _proposal_to_wire(proposal: Proposal) -> pb.Proposal:
    return pb.Proposal(members=proposal.members, even=proposal.even)


def _proposal(wire: pb.Proposal) -> Proposal:
    found = _seats(wire.members)
    if not found or any(one >= other for one, other in itertools.pairwise(found)):
        raise RemoteProtocolError(f"a member proposed an epoch of seats {found}, which are not in order")
    return Proposal(found, wire.even)
