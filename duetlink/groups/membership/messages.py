"""What members say to each other to agree on the next epoch, and its form on the control channel."""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import dataclass

from duetlink.base.wire.envelope import parsed
from duetlink.errors import LimitExceeded, RemoteProtocolError
from duetlink.groups.membership import schema_pb2 as pb

MOST_SEATS = 256  # that one group gives out in its life
MOST_MEMBERS = 16  # at once: each pair has a link, and 16 members have 120

Ballot = tuple[int, int]
"""Round, and the seat of whoever proposes; a later one is greater."""


@dataclass(frozen=True, slots=True)
class Epoch:
    """A number, and the seats of the members; a member's rank is its place among them."""

    number: int
    members: tuple[int, ...]

    def __post_init__(self) -> None:
        assert list(self.members) == sorted(set(self.members))


@dataclass(frozen=True, slots=True)
class Lost:
    """The link between these two is gone for good. Whoever hears of it first tells it on."""

    epoch: int
    one: int
    other: int


@dataclass(frozen=True, slots=True)
class Missing:
    """`by` hears nothing of `seat`, or with `back` hears it again; of itself: it was stopped for a while.

    That a member misses another one is told on; that it hears it again, it says itself.
    """

    epoch: int
    by: int
    seat: int
    back: bool = False


@dataclass(frozen=True, slots=True)
class Leaving:
    """The sender wants to go, and takes part until an epoch without it is agreed on.

    With a seat, the sender tells on that this member wants to go. Only the member's own word changes who
    stays; this one says how its end is to be understood.
    """

    epoch: int
    seat: int | None = None


@dataclass(frozen=True, slots=True)
class EpochAborted:
    """An operation of this epoch failed; the next one runs in the next epoch, of the same members."""

    epoch: int


@dataclass(frozen=True, slots=True)
class Proposal:
    """The members of the next epoch, and whether all had finished the same number of operations."""

    members: tuple[int, ...]
    even: bool = True


@dataclass(frozen=True, slots=True)
class Prepare:
    """Asks for a promise, to be given when no operation runs; `without` says who will be missing."""

    epoch: int
    ballot: Ballot
    without: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Promise:
    """No earlier ballot will be accepted; says what was, and how many operations have finished here."""

    epoch: int
    ballot: Ballot
    finished: int
    accepted: tuple[Ballot, Proposal] | None


@dataclass(frozen=True, slots=True)
class Refused:
    """`ballot` was asked for; a later one, `promised`, has been promised to somebody."""

    epoch: int
    ballot: Ballot
    promised: Ballot


@dataclass(frozen=True, slots=True)
class Accept:
    """Asks to accept this for the epoch after this one."""

    epoch: int
    ballot: Ballot
    proposal: Proposal


@dataclass(frozen=True, slots=True)
class Accepted:
    epoch: int
    ballot: Ballot


@dataclass(frozen=True, slots=True)
class Commit:
    """A majority has accepted: this is the epoch, from here on."""

    epoch: int
    proposal: Proposal


Message = Lost | Missing | Leaving | EpochAborted | Prepare | Promise | Refused | Accept | Accepted | Commit


def to_wire(message: Message) -> pb.Agreement:
    """The message as protobuf."""
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
    """The message; raises RemoteProtocolError for what no member may say."""
    epoch, ballot = wire.epoch, (wire.ballot.round, wire.ballot.seat)
    match wire.WhichOneof("body"):
        case "lost":
            one, other = _seats([wire.lost.one, wire.lost.other])
            if one == other:
                raise RemoteProtocolError(f"a member says that member {one} has lost its link to itself")
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
    raise RemoteProtocolError("a member sent a message on epochs of a kind unknown here")


def parse(data: bytes) -> pb.GroupMessage:
    """Raises RemoteProtocolError unless the bytes are a message of a group."""
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
