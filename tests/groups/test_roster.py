"""The roster: the words that all see, and the keys that only a pair has."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from duetlink.errors import LimitExceeded, RemoteProtocolError
from duetlink.groups.membership import messages
from duetlink.groups.membership import schema_pb2 as pb
from duetlink.groups.membership.messages import (
    Accept,
    Accepted,
    Commit,
    EpochAborted,
    Leaving,
    Lost,
    Prepare,
    Promise,
    Proposal,
    Refused,
)
from duetlink.groups.membership.roster import Entry, Roster
from duetlink.net.signaling.reunion import meeting_place


def private(number: int) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes([number]) * 32)


def entry(number: int, name: str = "") -> Entry:
    return Entry(private(number).public_key().public_bytes_raw(), name or f"site {number}")


def roster(*entries: Entry) -> Roster:
    made = Roster()
    for each in entries:
        made = made.with_entry(each)
    return made


def test_the_words_stand_for_keys_names_and_order() -> None:
    words = roster(entry(1), entry(2), entry(3)).verifier()
    assert words == roster(entry(1), entry(2), entry(3)).verifier()
    assert len(words.split("-")) == 3
    others = [
        roster(entry(1), entry(3), entry(2)),
        roster(entry(1), entry(2), entry(4, "site 3")),
        roster(entry(1), entry(2), entry(3, "site 4")),
        roster(entry(1, "site 9"), entry(2), entry(3)),
        roster(entry(1), entry(2)),
    ]
    assert words not in {other.verifier() for other in others}


def test_names_cannot_be_shifted_into_keys() -> None:
    one = roster(Entry(b"k" * 32, "ab"), Entry(b"l" * 32, ""))
    other = roster(Entry(b"k" * 32, "a"), Entry(b"l" * 32, ""))
    assert one.verifier() != other.verifier()


def test_a_pair_meets_where_nobody_else_does() -> None:
    told = roster(entry(1), entry(2), entry(3))
    places = {
        (mine, theirs): meeting_place(told.pair_key(private(mine + 1), mine, theirs))
        for mine in range(3)
        for theirs in range(3)
        if mine != theirs
    }
    assert places[0, 1] == places[1, 0]
    assert len(set(places.values())) == 3
    # a newcomer changes nothing for the pairs before it
    assert meeting_place(told.with_entry(entry(4)).pair_key(private(1), 0, 1)) == places[0, 1]


def test_whoever_was_told_another_roster_meets_nobody() -> None:
    told = roster(entry(1), entry(2), entry(3))
    otherwise = roster(entry(1, "somebody else"), entry(2), entry(3))
    assert meeting_place(told.pair_key(private(2), 1, 2)) != meeting_place(
        otherwise.pair_key(private(3), 2, 1)
    )


def test_a_key_that_gives_no_secret_is_refused() -> None:
    for point in (bytes(32), b"\1" + bytes(31)):  # of low order: RFC 7748 §6.1
        with pytest.raises(RemoteProtocolError, match="the key of 'zero' gives no secret"):
            Entry(point, "zero")


def test_a_key_has_one_seat_and_the_right_length() -> None:
    with pytest.raises(RemoteProtocolError, match="same key"):
        roster(entry(1), entry(1, "again"))
    with pytest.raises(RemoteProtocolError, match="32 bytes"):
        Entry(b"short", "")


@pytest.mark.parametrize(
    "message",
    [
        Lost(3, 1, 2),
        Leaving(3),
        Leaving(3, 0),
        Prepare(3, (1, 2), (4,)),
        Promise(3, (1, 2), 7, None),
        Promise(3, (1, 2), 0, ((1, 0), Proposal((0, 1), False))),
        Refused(3, (1, 2), (4, 0)),
        Accept(3, (1, 2), Proposal((0, 2))),
        Accepted(3, (1, 2)),
        Commit(4, Proposal((0, 2), False)),
        EpochAborted(3),
    ],
)
def test_messages_arrive_as_they_were(message: messages.Message) -> None:
    wire = pb.GroupMessage(agreement=messages.to_wire(message)).SerializeToString()
    assert messages.from_wire(messages.parse(wire).agreement) == message


@pytest.mark.parametrize(
    ("wire", "error", "words"),
    [
        (pb.Agreement(commit=pb.Proposal(members=[2, 1])), RemoteProtocolError, "not in order"),
        (pb.Agreement(commit=pb.Proposal(members=[1, 1])), RemoteProtocolError, "not in order"),
        (pb.Agreement(commit=pb.Proposal()), RemoteProtocolError, "not in order"),
        (pb.Agreement(commit=pb.Proposal(members=range(17))), LimitExceeded, "17 seats"),
        (pb.Agreement(accept=pb.Proposal(members=[300])), LimitExceeded, "below 256"),
        (pb.Agreement(lost=pb.Lost(one=1, other=1)), RemoteProtocolError, "itself"),
        (pb.Agreement(lost=pb.Lost(one=1, other=4_000_000_000)), LimitExceeded, "below 256"),
        (pb.Agreement(epoch=1), RemoteProtocolError, "kind unknown"),
    ],
)
def test_what_no_member_says_is_refused(wire: pb.Agreement, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        messages.from_wire(wire)


def test_bytes_that_are_no_message_are_refused() -> None:
    with pytest.raises(RemoteProtocolError, match="3 bytes"):
        messages.parse(b"\xff\xff\xff")
