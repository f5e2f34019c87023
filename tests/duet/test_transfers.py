"""Transfers as two people steer them: paused, resumed, cancelled, begun anew."""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import errors
from duetlink.duet.asking.requests.pending_request import PendingRequest
from duetlink.duet.duet import Duet
from duetlink.duet.transfers import SharedTransfer
from duetlink.settings import Settings
from duetlink.testing.faults import cut_link, life_of, link_of, run_inside

Pair = tuple[Duet, Duet]
SIZE = 8_000_000
SLOW = 4e6  # bytes per second: so slow that a transfer is still there when it is to be steered
PATHS = pytest.mark.parametrize("path", ["tcp", "channel", "local"])


def until(condition: Callable[[], bool]) -> None:
    """Wait for what the other side or another thread does; bounded by the test's own timeout."""
    while not condition():
        threading.Event().wait(0.005)


def told(*duets: Duet) -> None:
    """What was said until now has arrived."""
    for duet in (*duets, *duets):
        duet.ping()


def running(duet: Duet) -> SharedTransfer:
    """Its transfer that runs, once there is one."""
    until(lambda: any(transfer.state == "running" for transfer in duet.transfers))
    return next(transfer for transfer in duet.transfers if transfer.state == "running")


def moving(*duets: Duet) -> list[SharedTransfer]:
    """The transfer that runs, on each side, once something of it is there."""
    until(lambda: running(duets[-1]).done_bytes > 0)
    return [running(duet) for duet in duets]


@pytest.fixture
def array() -> np.ndarray:
    return np.random.default_rng(0).integers(0, 256, SIZE, np.uint8)


@pytest.fixture
def slow(make_duets: Any) -> Pair:
    """Owner and scientist over a line on which transfers last."""
    owner, scientist = make_duets(only=("tcp",))
    until(lambda: owner.statistics().path == scientist.statistics().path == "tcp")
    owner.compression.set(mode="manual", codec={"bytes": "raw", "tensor": "raw"}, rate_cap_bytes_per_s=SLOW)
    return owner, scientist


def asked(owner: Duet, scientist: Duet, array: np.ndarray) -> PendingRequest:
    """A request for "x" that has been approved."""
    owner.share(array, "x")
    pending = scientist.wait_object("x", 10).request("please")
    owner.wait_request(10).approve()
    assert isinstance(pending, PendingRequest)
    return pending


def giving(sender: Duet, array: np.ndarray) -> tuple[threading.Thread, list[BaseException]]:
    """`send` on a thread of its own, and what it has raised."""
    raised: list[BaseException] = []

    def send() -> None:
        try:
            sender.send(array, "gift")
        except errors.DuetError as error:
            raised.append(error)

    thread = threading.Thread(target=send)
    thread.start()
    return thread, raised


# -- the table ---------------------------------------------------------------------------------------------


def test_transfers_are_found_by_their_number(duets: Pair) -> None:
    owner, scientist = duets
    assert len(owner.transfers) == 0
    assert "nothing has moved" in repr(owner.transfers)
    for number in range(210):
        scientist.send(number, f"number {number}")
    assert len(owner.transfers) == len(scientist.transfers) == 200
    assert [transfer.number for transfer in owner.transfers] == list(range(10, 210))
    transfer = owner.transfers[17]
    assert (transfer.name, transfer.direction, transfer.state) == ("number 17", "in", "complete")
    assert (transfer.done_bytes, transfer.why, transfer.can_retry) == (transfer.size_bytes, "", False)
    assert (transfer.paused_here, transfer.paused_there) == (False, False)
    numbers: list[Any] = [9, 210, -1, "seventeen"]
    for wrong in numbers:
        with pytest.raises(IndexError, match=r"no transfer .* in the record; it has 10 to 209"):
            owner.transfers[wrong]
    assert [status.number for status in owner.statistics().transfers] == list(range(10, 210))


def test_transfers_have_a_text_and_an_html_form_that_hold_no_markup_of_the_peers(duets: Pair) -> None:
    owner, scientist = duets
    scientist.send(np.zeros(100_000), "<b>\x1b[31m")
    for shown in (owner.transfers, owner.transfers[0]):
        assert "&lt;b&gt;" in shown._repr_html_()
        assert "\x1b" not in repr(shown) + shown._repr_html_()
    assert "comes in" in repr(owner.transfers)
    assert repr(owner.transfers[0]).startswith("<Transfer 0 (complete): '<b>\\\\x1b[31m' comes in, 800 kB of")


# -- paused ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steered", [0, 1], ids=["owner", "scientist"])
def test_a_request_whose_transfer_is_paused_and_resumed_brings_the_value(
    slow: Pair, array: np.ndarray, steered: int
) -> None:
    owner, scientist = slow
    pending = asked(owner, scientist, array)
    transfers = moving(owner, scientist)
    transfers[steered].pause()
    transfers[steered].pause()
    told(*slow)
    other = transfers[1 - steered]
    assert (transfers[steered].paused_here, transfers[steered].paused_there) == (True, False)
    assert (other.paused_here, other.paused_there) == (False, True)
    assert "paused here" in repr(transfers[steered])
    assert "running, paused there" in repr(slow[1 - steered].transfers)
    owner.compression.rate_cap_bytes_per_s = None
    told(*slow)
    assert pending.state != "complete"
    transfers[steered].resume()
    assert np.array_equal(pending.result(30), array)


@PATHS
def test_a_paused_duet_sends_nothing_of_what_it_approves_until_it_is_resumed(
    make_duets: Any, array: np.ndarray, path: str
) -> None:
    owner, scientist = make_duets(only=(path,))
    owner.pause()
    owner.pause()
    assert owner.paused
    assert not scientist.paused
    pending = asked(owner, scientist, array)
    transfer = running(scientist)
    told(owner, scientist)
    assert (transfer.paused_there, transfer.done_bytes) == (True, 0)
    assert running(owner).paused_here
    owner.share("small", "small")
    small = scientist.wait_object("small", 10).request()
    owner.wait_request(10).approve()
    scientist.send("the other direction", "note")
    assert owner.store["note"].get() == "the other direction"
    assert scientist.statistics().received_bytes == 0
    owner.resume()
    assert not owner.paused
    assert np.array_equal(pending.result(30), array)
    assert small.result(30) == "small"


def test_a_duet_paused_before_anyone_has_joined_is_paused_when_they_do(array: np.ndarray) -> None:
    with duetlink.launch() as owner:
        owner.pause()
        with duetlink.join(str(owner.code)) as scientist:
            owner.wait_connected(10)
            pending = asked(owner, scientist, array)
            told(owner, scientist)
            assert running(scientist).paused_there
            owner.resume()
            assert np.array_equal(pending.result(30), array)
    with pytest.raises(errors.LinkClosed):
        owner.pause()


def test_a_gift_waits_while_its_giver_is_paused(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    scientist.pause()
    thread, raised = giving(scientist, array)
    transfer = running(owner)
    told(owner, scientist)
    assert transfer.paused_there
    assert thread.is_alive()
    owner.compression.rate_cap_bytes_per_s = None
    scientist.resume()
    thread.join(30)
    assert raised == []
    assert np.array_equal(owner.store["gift"].get(), array)


def test_watchers_hear_of_pauses(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    asked(owner, scientist, array)
    transfer, _ = moving(owner, scientist)
    changes: list[bool] = []
    stop = owner.watch(lambda: changes.append(transfer.paused_here))
    transfer.pause()
    assert changes[-1:] == [True]
    transfer.resume()
    assert changes[-1:] == [False]
    owner.pause()
    assert changes[-1:] == [True]
    stop()


# -- cancelled ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("paused", [False, True])
@pytest.mark.parametrize("steered", [0, 1], ids=["owner", "scientist"])
def test_a_request_whose_transfer_is_cancelled_raises_and_says_by_whom(
    slow: Pair, array: np.ndarray, steered: int, paused: bool
) -> None:
    owner, scientist = slow
    pending = asked(owner, scientist, array)
    transfers = moving(owner, scientist)
    if paused:
        transfers[1 - steered].pause()
    transfers[steered].cancel()
    whose = "this side cancelled it" if steered == 1 else "the sender cancelled it"
    with pytest.raises(errors.TransferCancelled, match=whose):
        pending.result(30)
    assert pending.state == "failed"
    until(lambda: all(transfer.state == "cancelled" for transfer in transfers))
    assert whose in transfers[1].why
    assert transfers[0].why == ("the receiver cancelled it" if steered == 1 else "this side cancelled it")
    for step in (transfers[0].cancel, transfers[0].pause, transfers[1].resume):
        with pytest.raises(errors.TransferEnded, match="has ended"):
            step()


@pytest.mark.parametrize("steered", [0, 1], ids=["owner", "scientist"])
def test_a_gift_that_is_cancelled_raises_at_its_giver_and_is_not_kept(
    slow: Pair, array: np.ndarray, steered: int
) -> None:
    owner, scientist = slow
    thread, raised = giving(scientist, array)
    transfers = moving(owner, scientist)
    transfers[steered].cancel()
    thread.join(30)
    (error,) = raised
    assert isinstance(error, errors.TransferCancelled)
    who = "the receiver" if steered == 0 else "this side"
    assert str(error) == f"'gift': {who} cancelled it"
    until(lambda: all(transfer.state == "cancelled" for transfer in transfers))
    assert "gift" not in owner.store


def test_a_giver_that_cancels_does_not_wait_for_a_receiver_that_says_nothing(
    slow: Pair, array: np.ndarray, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = slow
    thread, raised = giving(scientist, array)
    _, given = moving(owner, scientist)

    async def cut() -> Callable[[], None]:
        return cut_link(link_of(owner))

    run_inside(owner, cut())
    given.cancel()
    thread.join(30)
    assert [type(error) for error in raised] == [errors.TransferCancelled]


# -- begun anew --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("steered", [0, 1], ids=["owner", "scientist"])
def test_what_was_asked_for_can_be_asked_for_again(slow: Pair, array: np.ndarray, steered: int) -> None:
    owner, scientist = slow
    pending = asked(owner, scientist, array)
    transfers = moving(owner, scientist)
    assert not transfers[1].can_retry
    with pytest.raises(errors.TransferEnded, match=r"cannot be retried.*it is running"):
        transfers[1].retry()
    transfers[steered].cancel()
    with pytest.raises(errors.TransferCancelled):
        pending.result(30)
    until(lambda: all(transfer.state == "cancelled" for transfer in transfers))
    assert [transfer.can_retry for transfer in transfers] == [False, True]
    owner.compression.rate_cap_bytes_per_s = None
    again = transfers[1].retry()
    assert isinstance(again, PendingRequest)
    assert again.reason == "please"
    assert np.array_equal(again.result(30), array)
    assert not transfers[1].can_retry  # its successor has its own number
    with pytest.raises(errors.TransferEnded, match="cannot be retried"):
        transfers[1].retry()
    (old, new) = (transfer for transfer in scientist.transfers if transfer.name == "x")
    assert (old.state, new.state, new.can_retry) == ("cancelled", "complete", False)
    assert new.number > old.number


def test_what_was_shared_again_meanwhile_is_asked_for_as_it_is_now(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    asked(owner, scientist, array)
    _, transfer = moving(owner, scientist)
    transfer.cancel()
    asset = owner.share("new", "x")
    until(lambda: scientist.store["x"].revision == 2)
    again = transfer.retry()
    assert again is not None
    owner.wait_request(10).approve()
    assert again.result(30) == "new"
    asset.unshare()
    until(lambda: "x" not in scientist.store)


def test_what_is_no_longer_shared_cannot_be_asked_for_again(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    asset = owner.share(array, "x")
    pending = scientist.wait_object("x", 10).request()
    owner.wait_request(10).approve()
    _, transfer = moving(owner, scientist)
    transfer.cancel()
    with pytest.raises(errors.TransferCancelled):
        pending.result(30)
    asset.unshare()
    until(lambda: "x" not in scientist.store)
    with pytest.raises(errors.AssetNotFound, match="no longer shares 'x'"):
        transfer.retry()
    owner.share(array, "x")
    scientist.wait_object("x", 10)
    assert transfer.can_retry


@pytest.mark.parametrize("steered", [0, 1], ids=["owner", "scientist"])
def test_a_gift_can_be_given_again(slow: Pair, array: np.ndarray, steered: int) -> None:
    owner, scientist = slow
    thread, raised = giving(scientist, array)
    transfers = moving(owner, scientist)
    transfers[steered].cancel()
    thread.join(30)
    assert len(raised) == 1
    until(lambda: all(transfer.state == "cancelled" for transfer in transfers))
    assert [transfer.can_retry for transfer in transfers] == [False, True]
    owner.compression.rate_cap_bytes_per_s = None
    assert transfers[1].retry() is None
    assert np.array_equal(owner.wait_object("gift", 30).get(), array)
    assert not transfers[1].can_retry
    until(lambda: [transfer.state for transfer in scientist.transfers][-1] == "complete")


def test_a_gift_that_was_refused_says_why_and_can_be_given_again(make_duets: Any) -> None:
    _, scientist = make_duets(max_received_bytes=1_000_000)
    with pytest.raises(errors.ValueRefused):
        scientist.send(np.zeros(1_000_000), "large")
    (transfer,) = scientist.transfers
    assert (transfer.state, transfer.can_retry) == ("failed", True)
    assert "1000000 bytes in all" in transfer.why


def test_nothing_is_begun_anew_where_the_duet_is_closed(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    pending = asked(owner, scientist, array)
    moving(owner, scientist)
    owner.close()
    with pytest.raises(errors.LinkClosed):
        pending.result(30)
    until(lambda: scientist.state.startswith("closed"))
    (transfer,) = (transfer for transfer in scientist.transfers if transfer.name == "x")
    assert transfer.state == "failed"
    with pytest.raises(errors.LinkClosed):
        transfer.retry()
    with pytest.raises(errors.TransferEnded):
        transfer.pause()
    scientist.close()
    assert len(scientist.transfers) > 0
    with pytest.raises(errors.LinkClosed):
        transfer.pause()


# -- memory ------------------------------------------------------------------------------------------------


@pytest.fixture
def forgetful() -> Iterator[Pair]:
    """A pair that keeps nothing to compare with."""
    settings = dataclasses.replace(Settings(), only=("tcp",), held_bytes=1)
    with (
        duetlink.launch(settings=settings) as owner,
        duetlink.join(str(owner.code), settings=settings) as scientist,
    ):
        owner.wait_connected(10)
        yield owner, scientist


def test_the_record_of_a_gift_that_arrived_does_not_hold_it(forgetful: Pair) -> None:
    _, scientist = forgetful
    scientist.send(np.zeros(1_000_000), "gift")
    (record,) = life_of(scientist).link.traffic.transfers  # type: ignore[union-attr]
    assert (record.state, record.origin) == ("complete", None)


def test_the_time_of_a_get_is_that_of_the_transfer_too(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    owner.policies.add(duetlink.Policy("approve"))
    owner.share(array, "x")
    found = scientist.wait_object("x", 10)
    with pytest.raises(errors.RequestTimeout, match=r"arrive within 0\.5 s: .* of 8 MB have come; nothing"):
        found.get(timeout_s=0.5)
    until(lambda: all(transfer.state == "cancelled" for transfer in (*owner.transfers, *scientist.transfers)))


def test_a_request_goes_on_when_the_wait_for_its_result_is_over(slow: Pair, array: np.ndarray) -> None:
    owner, scientist = slow
    owner.policies.add(duetlink.Policy("approve"))
    owner.share(array, "x")
    pending = scientist.wait_object("x", 10).request()
    with pytest.raises(errors.RequestTimeout, match=r"of 8 MB have come; it goes on"):
        pending.result(timeout_s=0.5)
    owner.compression.set(rate_cap_bytes_per_s=None)
    assert np.array_equal(pending.result(timeout_s=60), array)
