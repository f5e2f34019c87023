from __future__ import annotations

import contextlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.errors import RemoteProtocolError, SettingError
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.frames import mood_from_wire, mood_to_wire, read_client_frame, read_server_frame
from duetlink.net.signaling.limits import Limits, TokenBucket
from duetlink.net.signaling.mailboxes import Mailboxes, Refused, Seat, network_of
from duetlink.testing.faults import kept_counts

from .conftest import Clock


def drain(seat: Seat) -> list[str | None]:
    frames = [seat.outbox.get_nowait() for _ in range(seat.outbox.qsize())]
    return [None if frame is None else frame.WhichOneof("body") for frame in frames]


def number_of(seat: Seat) -> int:
    assert isinstance(seat.number, int)
    return seat.number


def claimed_first(seat: Seat) -> pb.Claimed:
    frame = seat.outbox.get_nowait()
    assert frame is not None
    return frame.claimed


def refused(call: object, *arguments: object) -> Refused:
    with pytest.raises(Refused) as caught:
        call(*arguments)  # type: ignore[operator]
    assert caught.value.frame().refusal.text == caught.value.text
    return caught.value


def test_messages_wait_behind_the_greeting_for_the_side_that_has_not_come(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(), clock)
    owner = mailboxes.claim()
    mailboxes.deliver(owner, b"early")
    assert drain(mailboxes.join(number_of(owner))) == ["joined", "message"]
    assert drain(owner) == ["claimed"]


def test_nameplates_are_short_random_and_grow_when_taken(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(), clock)
    first = {number_of(mailboxes.claim()) for _ in range(99)}
    assert first == set(range(1, 100))
    assert 100 <= number_of(mailboxes.claim()) <= 999


def hall(mailboxes: Mailboxes, seats: int) -> tuple[int, list[Seat]]:
    """The nameplate and the owner's seats of a hall with all its mailboxes open."""
    first = mailboxes.claim(seats=seats)
    claimed = claimed_first(first)
    return claimed.nameplate, [first, *(mailboxes.claim_seat(claimed.hall) for _ in range(seats - 1))]


def drain_key(seat: Seat) -> bytes:
    """The key of the hall, which its owner has been told."""
    return seat.outbox.get_nowait().claimed.hall  # type: ignore[union-attr]


def test_each_joiner_of_a_hall_gets_the_next_mailbox(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(), clock)
    nameplate, owners = hall(mailboxes, 3)
    joiners = [mailboxes.join(nameplate) for _ in range(3)]
    assert [joiner.number for joiner in joiners] == [owner.number for owner in owners]
    for joiner in joiners:
        drain(joiner)
    mailboxes.deliver(owners[1], b"for the second")
    assert [drain(joiner) for joiner in joiners] == [[], ["message"], []]
    late = refused(mailboxes.join, nameplate)
    assert (late.reason, late.text) == (
        pb.Refusal.UNATTENDED,
        f"no member waits under the code with number {nameplate} at this moment",
    )
    mailboxes.leave(owners[0], pb.HAPPY)  # that pair has met, so there is room for another mailbox
    another = mailboxes.claim_seat(drain_key(owners[1]))
    assert mailboxes.join(nameplate).number == another.number


def test_a_hall_that_was_joined_outlives_its_owner_and_is_opened_again_by_its_key(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(lifetime_s=60), clock, choose=lambda free: free[0])
    nameplate, owners = hall(mailboxes, 2)
    key = drain_key(owners[1])
    mailboxes.leave(mailboxes.join(nameplate), pb.HAPPY)
    mailboxes.leave(owners[1], pb.ERRORY)  # its connection broke
    assert len(mailboxes) == 0
    assert refused(mailboxes.join, nameplate).reason == pb.Refusal.UNATTENDED
    another = mailboxes.claim_seat(key)
    assert mailboxes.join(nameplate).number == another.number
    mailboxes.leave(another, pb.ERRORY)
    clock.now_s += 119  # its time is over, and the next host may not have come yet
    mailboxes.leave(mailboxes.claim_seat(key), pb.ERRORY)  # begins its time anew
    clock.now_s += 119
    assert refused(mailboxes.join, nameplate).reason == pb.Refusal.UNATTENDED
    clock.now_s += 2
    assert refused(mailboxes.join, nameplate).reason == pb.Refusal.USED
    assert refused(mailboxes.claim_seat, key).reason == pb.Refusal.UNKNOWN_NAMEPLATE


@pytest.mark.parametrize("mood", [pb.WRONG_CODE, pb.LONELY])
def test_nobody_opens_a_hall_again_that_was_burnt_or_shut(clock: Clock, mood: pb.Mood) -> None:
    mailboxes = Mailboxes(Limits(), clock)
    nameplate, owners = hall(mailboxes, 3)
    key = drain_key(owners[1])
    mailboxes.leave(mailboxes.join(nameplate), pb.HAPPY)
    mailboxes.leave(owners[1], mood)
    assert refused(mailboxes.claim_seat, key).reason == pb.Refusal.UNKNOWN_NAMEPLATE
    mailboxes.leave(owners[2], pb.ERRORY)
    assert refused(mailboxes.join, nameplate).reason == pb.Refusal.USED


def test_halls_without_mailboxes_count_among_what_the_server_holds(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(mailboxes=2), clock)
    for _ in range(2):
        nameplate, owners = hall(mailboxes, 1)
        mailboxes.join(nameplate)
        mailboxes.leave(owners[0], pb.ERRORY)
    assert refused(mailboxes.claim).reason == pb.Refusal.LIMIT


def test_a_nameplate_is_used_up_with_the_last_mailbox_of_its_hall(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(lifetime_s=60), clock, choose=lambda free: free[0])
    nameplate, owners = hall(mailboxes, 2)
    mailboxes.leave(mailboxes.join(nameplate), pb.WRONG_CODE)
    assert drain(owners[0])[-2:] == ["left", None]
    mailboxes.leave(owners[1], pb.ERRORY)  # whoever launched burns the seat that is left
    assert len(mailboxes) == 0
    assert refused(mailboxes.join, nameplate).reason == pb.Refusal.USED
    assert number_of(mailboxes.claim()) == 2
    clock.now_s += 61
    assert number_of(mailboxes.claim()) == 1


def test_a_hall_that_nobody_joined_leaves_no_trace(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(lifetime_s=60), clock, choose=lambda free: free[0])
    nameplate, owners = hall(mailboxes, 2)
    clock.now_s += 61
    mailboxes.expire()
    assert drain(owners[0])[-2:] == ["refusal", None]
    assert len(mailboxes) == 0
    assert refused(mailboxes.join, nameplate).reason == pb.Refusal.UNKNOWN_NAMEPLATE
    assert number_of(mailboxes.claim()) == nameplate


def test_a_hall_has_bounds(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(mailboxes=4, seats=3), clock)
    assert refused(mailboxes.claim, 0, 4).reason == pb.Refusal.LIMIT
    first = mailboxes.claim(seats=2)
    key = claimed_first(first).hall
    assert len(key) == 32
    mailboxes.claim_seat(key)
    assert isinstance(first.number, tuple)
    words = f"the 2 seats of nameplate {first.number[0]} have been opened"
    assert refused(mailboxes.claim_seat, key).text == words
    assert refused(mailboxes.claim_seat, bytes(32)).reason == pb.Refusal.UNKNOWN_NAMEPLATE
    mailboxes.claim()
    mailboxes.claim()
    assert refused(mailboxes.claim, 0, 1).reason == pb.Refusal.LIMIT


def test_those_who_have_met_before_do_not_use_up_the_rate_of_those_who_guess(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(arrivals_per_address_per_minute=1, meetings_per_address_per_minute=2), clock)
    mailboxes.admit("192.0.2.1", known=True)
    mailboxes.admit("192.0.2.1", known=True)
    mailboxes.admit("192.0.2.1")
    assert "1 claims and joins" in refused(mailboxes.admit, "192.0.2.1").text
    with pytest.raises(Refused, match="2 meetings"):
        mailboxes.admit("192.0.2.1", known=True)


def test_a_nameplate_that_was_never_used_is_free_again_and_a_used_one_is_not(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(lifetime_s=60), clock, choose=lambda free: free[0])
    mailboxes.leave(mailboxes.claim(), pb.LONELY)
    assert refused(mailboxes.join, 1).reason == pb.Refusal.UNKNOWN_NAMEPLATE
    owner = mailboxes.claim()
    assert owner.number == 1
    scientist = mailboxes.join(1)
    assert refused(mailboxes.join, 1).reason == pb.Refusal.USED
    mailboxes.leave(scientist, pb.HAPPY)
    assert refused(mailboxes.join, 1).reason == pb.Refusal.USED
    assert number_of(mailboxes.claim()) == 2
    clock.now_s += 61
    assert refused(mailboxes.join, 1).reason == pb.Refusal.UNKNOWN_NAMEPLATE
    assert number_of(mailboxes.claim()) == 1


def test_a_seat_of_a_mailbox_that_has_gone_touches_no_later_one(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(), clock, choose=lambda free: free[0])
    old = mailboxes.claim()
    mailboxes.leave(old, pb.LONELY)
    new = mailboxes.claim()
    assert new.number == old.number
    mailboxes.deliver(old, b"x")
    mailboxes.leave(old, pb.WRONG_CODE)
    assert drain(mailboxes.join(number_of(new))) == ["joined"]


def test_both_sides_learn_that_the_time_is_over(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(lifetime_s=100), clock)
    waiting, short = mailboxes.claim(), mailboxes.claim(10)
    clock.now_s += 10
    mailboxes.expire()
    assert drain(short) == ["claimed", "refusal", None]
    assert drain(waiting) == ["claimed"]
    assert refused(mailboxes.join, short.number).reason == pb.Refusal.UNKNOWN_NAMEPLATE
    assert len(mailboxes) == 1


def test_a_client_cannot_ask_for_more_time_than_allowed(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(lifetime_s=100), clock)
    mailboxes.claim(1e9)
    clock.now_s += 100
    mailboxes.expire()
    assert len(mailboxes) == 0


def test_a_silent_scientist_holds_the_mailbox_for_the_pairing_time_only(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(pairing_s=30), clock)
    owner = mailboxes.claim()
    mailboxes.join(number_of(owner))
    clock.now_s += 30
    mailboxes.expire()
    assert drain(owner) == ["claimed", "refusal", None]


def test_every_limit_is_refused_with_its_figure(clock: Clock) -> None:
    limits = Limits(
        message_bytes=10,
        mailbox_messages=3,
        mailbox_bytes=15,
        mailboxes=2,
        arrivals_per_address_per_minute=4,
    )
    mailboxes = Mailboxes(limits, clock)
    one, two = mailboxes.claim(), mailboxes.claim()
    assert "holds 2 mailboxes" in refused(mailboxes.claim).text
    assert "takes 10" in refused(mailboxes.deliver, one, b"x" * 11).text
    for _ in range(3):
        mailboxes.deliver(one, b"x")
    assert "at most 3 messages" in refused(mailboxes.deliver, one, b"x").text
    mailboxes.deliver(two, b"x" * 10)
    assert "at most 15 bytes" in refused(mailboxes.deliver, two, b"x" * 6).text
    for _ in range(4):
        mailboxes.admit("192.0.2.1")
    assert "more than 4 claims and joins in a minute" in refused(mailboxes.admit, "192.0.2.1").text
    mailboxes.admit("192.0.2.2")
    clock.now_s += 15
    mailboxes.admit("192.0.2.1")
    assert refused(mailboxes.admit, "192.0.2.1").reason == pb.Refusal.LIMIT


def test_what_is_remembered_is_bounded(clock: Clock) -> None:
    mailboxes = Mailboxes(Limits(mailboxes=5), clock)
    for number in range(50):
        owner = mailboxes.claim()
        mailboxes.leave(mailboxes.join(number_of(owner)), pb.HAPPY)
        mailboxes.admit(f"192.0.2.{number}")
    assert kept_counts(mailboxes)["gone"] == 5
    clock.now_s += 3600
    mailboxes.expire()
    assert set(kept_counts(mailboxes).values()) == {0}


def test_an_ipv6_network_counts_as_one_address() -> None:
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1%eth0") != network_of("2001:db8:0:1::1")
    assert network_of("::ffff:192.0.2.1") == network_of("192.0.2.1") == "192.0.2.1"
    assert network_of("") == ""


def test_a_bucket_holds_its_rate() -> None:
    bucket = TokenBucket(capacity=2, rate_per_s=1, now_s=0)
    assert [bucket.take(now_s) for now_s in (0, 0, 0.5, 1, 1.5)] == [True, True, False, True, False]


def test_limits_must_be_positive() -> None:
    with pytest.raises(SettingError, match="mailboxes"):
        Limits(mailboxes=0)


def test_moods_survive_the_wire_and_unknown_ones_count_as_errory() -> None:
    for mood in ("happy", "wrong-code", "lonely", "errory"):
        assert mood_from_wire(mood_to_wire(mood)) == mood
    assert mood_from_wire(99) == mood_from_wire(0) == "errory"


@given(st.binary(max_size=200))
def test_any_bytes_are_a_frame_or_a_remote_protocol_error(data: bytes) -> None:
    for read in (read_client_frame, read_server_frame):
        with contextlib.suppress(RemoteProtocolError):
            assert read(data).WhichOneof("body")


@given(
    st.lists(
        st.tuples(st.sampled_from(["claim", "join", "send", "leave", "time"]), st.integers(0, 7)), max_size=60
    )
)
def test_any_order_of_events_keeps_the_rules(events: list[tuple[str, int]]) -> None:
    clock = Clock()
    mailboxes = Mailboxes(Limits(mailboxes=4, lifetime_s=20, pairing_s=5, mailbox_messages=3), clock)
    seats: list[Seat] = []
    for event, number in events:
        try:
            if event == "claim":
                seats.append(mailboxes.claim(number))
            elif event == "join":
                seats.append(mailboxes.join(number_of(seats[number % len(seats)]) if seats else number))
            elif event == "send" and seats:
                mailboxes.deliver(seats[number % len(seats)], b"x")
            elif event == "leave" and seats:
                mailboxes.leave(seats[number % len(seats)], pb.HAPPY)
            else:
                clock.now_s += number
        except Refused:
            pass
        assert len(mailboxes) <= 4
    assert len({id(seat) for seat in seats}) == len(seats)  # no seat is given twice
    clock.now_s += 20
    mailboxes.expire()
    assert len(mailboxes) == 0
