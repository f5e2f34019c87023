"""Transfers that either side keeps back, or ends: nothing moves meanwhile, and what moves again arrives."""

from __future__ import annotations

import asyncio
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

from duetlink.base.events import Event, TransferPaused, listen
from duetlink.base.wire import schema_pb2 as pb
from duetlink.data.tuning import CodecController
from duetlink.errors import (
    AssetChanged,
    CallTimeout,
    LinkClosed,
    PathUnavailable,
    TransferCancelled,
    TransferEnded,
)
from duetlink.net.flight import body as body_module
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.gate import Gate
from duetlink.net.link import imports as imports_module
from duetlink.net.link.link import Link
from duetlink.net.link.traffic import HISTORY
from duetlink.net.link.transfer import Transfer
from duetlink.net.paths import path_selector as ladder_module
from duetlink.net.paths.path_selector import UP
from duetlink.settings import Settings
from duetlink.testing.faults import end_of, flight_client, kept_counts, open_exports, replace_function

MIB = 1024 * 1024
ANY = 1 << 40
SIZE = 12 * MIB
SLOW = 8e6  # bytes per second: so slow that a transfer is still there when it is to be paused


def body_of(array: np.ndarray) -> Outgoing:
    return Outgoing([array.data.cast("B")], array.nbytes)


async def soon(waiting: Awaitable[Any]) -> Any:
    return await asyncio.wait_for(waiting, 30)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for what comes from another thread or side; bounded by the test's own timeout."""
    while not condition():
        await asyncio.sleep(0.002)


@pytest.fixture
def held_at_gate(monkeypatch: pytest.MonkeyPatch) -> threading.Semaphore:
    """Is released each time that a stream of the sender comes to a shut gate."""
    reached = threading.Semaphore(0)
    wait_open = Gate.wait_open

    def wait(gate: Gate, cancelled: Callable[[], bool]) -> bool:
        reached.release()
        return wait_open(gate, cancelled)

    monkeypatch.setattr(Gate, "wait_open", wait)
    return reached


@dataclass
class Moving:
    """A transfer under way, seen from both sides."""

    receiver: Link
    sender: Link
    array: np.ndarray
    pulling: asyncio.Future[memoryview]
    held: threading.Semaphore

    @property
    def incoming(self) -> Transfer:
        return self.receiver.traffic.transfers[-1]

    @property
    def outgoing(self) -> Transfer:
        return self.sender.traffic.transfers[-1]

    @property
    def transfer_id(self) -> bytes:
        return next(known for known, export in open_exports(self.sender).items() if not export.probe)

    def side(self, name: str) -> Transfer:
        return self.incoming if name == "receiver" else self.outgoing

    async def told(self) -> None:
        """What either side has said until now has arrived."""
        await self.receiver.ping()
        await self.sender.ping()

    async def stopped(self) -> tuple[int, int]:
        """How much has left and arrived, once all that had left before the pause is there."""
        await until(lambda: self.held.acquire(blocking=False))
        await self.told()
        await until(lambda: self.incoming.done_bytes == self.outgoing.done_bytes)
        return self.now()

    def now(self) -> tuple[int, int]:
        return self.outgoing.done_bytes, self.incoming.done_bytes

    async def hurry(self) -> None:
        await self.sender.agreement.change({"rate_cap_bytes_per_s": None})

    async def arrived(self) -> bool:
        return np.array_equal(np.frombuffer(await soon(self.pulling), np.uint8), self.array)


MakeMoving = Callable[..., Awaitable[Moving]]


@pytest.fixture
async def move(make_pair: Any, held_at_gate: threading.Semaphore) -> AsyncIterator[MakeMoving]:
    """Makes a transfer that runs, slowly: `await move("tcp")`."""
    made: list[asyncio.Future[memoryview]] = []

    async def make(*paths: str) -> Moving:
        receiver, sender = await make_pair(Settings(only=paths))
        await soon(receiver.path_selector.wait_best({}))
        await sender.agreement.change({"rate_cap_bytes_per_s": SLOW, "mode": "manual", "codec": RAW})
        array = np.random.default_rng(0).integers(0, 256, SIZE, np.uint8)
        offer = await sender.exports.offer("x", body_of(array))
        pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, ANY))
        made.append(pulling)
        moving = Moving(receiver, sender, array, pulling, held_at_gate)
        await until(lambda: receiver.statistics("").received_bytes > 0)
        return moving

    yield make
    for pulling in made:
        pulling.cancel()
    await asyncio.gather(*made, return_exceptions=True)


RAW = {"bytes": "raw", "tensor": "raw"}
NETWORK = pytest.mark.parametrize("path", ["tcp", "udp", "channel"])
SIDES = pytest.mark.parametrize("side", ["receiver", "sender"])


# -- paused ------------------------------------------------------------------------------------------------


@NETWORK
@SIDES
async def test_a_paused_transfer_does_not_move_and_arrives_when_it_goes_on(
    move: MakeMoving, path: str, side: str
) -> None:
    moving = await move(path)
    transfer = moving.side(side)
    transfer.pause(True)
    transfer.pause(True)
    before = await moving.stopped()
    assert 0 < before[0] < SIZE
    here, there = ("receiver", "sender") if side == "receiver" else ("sender", "receiver")
    assert (moving.side(here).paused_here, moving.side(here).paused_there) == (True, False)
    assert (moving.side(there).paused_here, moving.side(there).paused_there) == (False, True)
    await moving.told()
    assert moving.now() == before
    await moving.hurry()
    assert moving.now() == before
    transfer.pause(False)
    transfer.pause(False)
    assert await moving.arrived()
    await moving.told()
    for ended in (moving.incoming, moving.outgoing):
        assert (ended.state, ended.why, ended.paused, ended.done_bytes) == ("complete", "", False, SIZE)


async def test_what_both_have_paused_moves_when_neither_does(move: MakeMoving) -> None:
    moving = await move("tcp")
    await moving.hurry()
    moving.incoming.pause(True)
    moving.outgoing.pause(True)
    before = await moving.stopped()
    moving.outgoing.pause(False)
    await moving.told()
    assert (moving.outgoing.paused_here, moving.outgoing.paused_there) == (False, True)
    assert moving.now() == before
    moving.incoming.pause(False)
    assert await moving.arrived()


@pytest.mark.parametrize("path", ["tcp", "channel", "local"])
async def test_what_a_paused_side_sends_waits_also_where_it_begins_later(make_pair: Any, path: str) -> None:
    receiver, sender = await make_pair(Settings(only=(path,)))
    await soon(receiver.path_selector.wait_best({}))
    sender.exports.pause(True)
    array = np.random.default_rng(0).integers(0, 256, MIB, np.uint8)
    for size in (100, MIB):  # one that would have ridden along
        offer = await sender.exports.offer("x", body_of(array[:size]), path)
        assert not offer.inline
        assert not offer.HasField("ticket")
        pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, ANY))
        await receiver.ping()
        await sender.ping()
        (transfer,) = (transfer for transfer in receiver.traffic.transfers if transfer.running)
        assert (transfer.paused_there, transfer.done_bytes, pulling.done()) == (True, 0, False)
        # the other direction is the peer's affair
        arrived = await sender.imports.pull("y", await receiver.exports.offer("y", body_of(array)), ANY)
        assert len(arrived) == MIB
        sender.exports.pause(False)
        assert bytes(await soon(pulling)) == array[:size].tobytes()
        sender.exports.pause(True)


@pytest.mark.parametrize("path", ["tcp", "local"])
async def test_what_its_receiver_pauses_at_once_has_not_begun(make_pair: Any, path: str) -> None:
    receiver, sender = await make_pair(Settings(only=(path,)))
    await soon(receiver.path_selector.wait_best({}))
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)))
    pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, ANY))
    await asyncio.sleep(0)  # its first step: the ticket has been asked for
    (incoming,) = receiver.traffic.transfers
    incoming.pause(True)
    await sender.ping()
    await receiver.ping()
    assert (incoming.done_bytes, pulling.done()) == (0, False)
    incoming.pause(False)
    assert len(await soon(pulling)) == MIB


async def test_an_offer_that_is_paused_before_it_leaves_takes_no_ticket_along(make_pair: Any) -> None:
    _, sender = await make_pair(Settings(only=("local",)))
    await soon(sender.path_selector.wait_best({}))
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)), "local")
    sender.exports.keep_back(offer)
    assert offer.HasField("ticket")
    sender.exports.pause(True)
    sender.exports.keep_back(offer)
    assert not offer.HasField("ticket")


async def test_one_transfer_and_all_that_a_side_sends_are_paused_apart(move: MakeMoving) -> None:
    moving = await move("tcp")
    await moving.hurry()
    moving.outgoing.pause(True)
    moving.sender.exports.pause(True)
    before = await moving.stopped()
    moving.outgoing.pause(False)
    await moving.told()
    assert moving.outgoing.paused_here
    assert moving.incoming.paused_there
    moving.outgoing.pause(True)
    moving.sender.exports.pause(False)
    await moving.told()
    assert moving.outgoing.paused_here
    assert moving.now() == before
    moving.outgoing.pause(False)
    assert await moving.arrived()


@NETWORK
async def test_a_long_pause_is_no_fault_of_the_path(
    move: MakeMoving, path: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, limit_s in (("STALL_S", 1.0), ("STALL_PAUSES", 0), ("_CHECK_S", 0.02), ("SPEED_WINDOW_S", 0.1)):
        monkeypatch.setattr(imports_module, name, limit_s)
    moving = await move(path)
    moving.outgoing.pause(True)
    await moving.stopped()
    noted: list[float] = []
    path_selector = moving.receiver.path_selector
    monkeypatch.setattr(path_selector, "note_speed", lambda path, bytes_per_s: noted.append(bytes_per_s))
    await asyncio.wait((moving.pulling,), timeout=2.0)
    assert (path_selector.statuses()[0].state, noted, moving.pulling.done()) == (UP, [], False)
    monkeypatch.undo()  # how fast this machine is, is not the question
    await moving.hurry()
    moving.outgoing.pause(False)
    assert await moving.arrived()


async def test_a_pause_uses_up_no_deadline(make_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    path = await soon(receiver.path_selector.wait_best({}))
    monkeypatch.setattr(imports_module, "TICKET_TIMEOUT_S", 0.3)
    monkeypatch.setattr(ladder_module, "GRACE_S", 0.3)
    array = np.arange(MIB, dtype=np.uint8)
    offer = await sender.exports.offer("x", body_of(array))
    pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, ANY))
    await asyncio.sleep(0)
    (outgoing,) = sender.traffic.transfers
    outgoing.pause(True)
    receiver.path_selector.mark_down(path, PathUnavailable("the cable was cut"))
    await asyncio.wait((pulling,), timeout=1.0)
    assert not pulling.done()
    monkeypatch.undo()
    outgoing.pause(False)
    assert len(await soon(pulling)) == MIB


async def test_a_path_that_breaks_meanwhile_is_opened_again(move: MakeMoving) -> None:
    moving = await move("tcp")
    moving.incoming.pause(True)
    before = await moving.stopped()
    client = flight_client(moving.receiver.path_selector.named("tcp"))
    for process in (moving.receiver.path_selector.named("tcp"),):
        await process.close()
    assert client is not None
    await moving.told()
    assert moving.incoming.running
    assert moving.now() == before
    await moving.hurry()
    moving.incoming.pause(False)
    assert await moving.arrived()


async def test_content_that_changes_during_a_pause_does_not_leave(move: MakeMoving) -> None:
    moving = await move("tcp")
    moving.outgoing.pause(True)
    left, _ = await moving.stopped()
    moving.array[left] ^= 255  # the very next byte: its leaf was looked at before the pause
    await moving.hurry()
    moving.outgoing.pause(False)
    with pytest.raises(AssetChanged):
        await soon(moving.pulling)
    assert moving.now() == (left, left)


async def test_a_receiver_that_does_not_honour_a_pause_gets_nothing(
    make_pair: Any, held_at_gate: threading.Semaphore
) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    path = await soon(receiver.path_selector.wait_best({}))
    array = np.random.default_rng(0).integers(0, 256, MIB, np.uint8)
    offer = await sender.exports.offer("x", body_of(array), "tcp")
    assert offer.HasField("ticket")
    sender.exports.pause(True)
    receive_buffer = ReceiveBuffer(MIB)
    fetching = asyncio.ensure_future(path.fetch(offer.ticket, receive_buffer))
    await until(lambda: held_at_gate.acquire(blocking=False))
    query = pb.TicketQuery(transfer_id=offer.transfer_id, path="tcp", missing=[0, MIB])
    for question, reply in (
        (query, pb.Ticket),
        (pb.ManifestQuery(transfer_id=offer.transfer_id), pb.Manifest),
    ):
        with pytest.raises(CallTimeout):
            await receiver.rpc.call(question, reply, timeout_s=0.1)
    # nor does it help to say that the *receiver* has not paused it
    receiver.rpc.tell_nowait(pb.TransferPause(transfer_id=offer.transfer_id, paused=False))
    await receiver.ping()
    assert (receive_buffer.position_bytes, sender.traffic.transfers[0].done_bytes) == (0, 0)
    sender.exports.pause(False)
    await soon(fetching)
    assert bytes(receive_buffer.body()) == array.tobytes()


async def test_a_receiver_that_left_during_a_pause_gives_the_senders_thread_back(
    make_pair: Any, held_at_gate: threading.Semaphore, monkeypatch: pytest.MonkeyPatch
) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    path = await soon(receiver.path_selector.wait_best({}))
    finished = threading.Event()
    monkeypatch.setattr(CodecController, "finished", lambda course, now_s: finished.set())
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)), "tcp")
    sender.exports.pause(True)
    fetching = asyncio.ensure_future(path.fetch(offer.ticket, ReceiveBuffer(MIB)))
    await until(lambda: held_at_gate.acquire(blocking=False))
    fetching.cancel()
    await asyncio.wait((fetching,))
    await until(finished.is_set)


# -- cancelled ---------------------------------------------------------------------------------------------


@NETWORK
@SIDES
@pytest.mark.parametrize("paused", [False, True])
async def test_a_cancelled_transfer_ends_on_both_sides_which_know_by_whom(
    move: MakeMoving, path: str, side: str, paused: bool
) -> None:
    moving = await move(path)
    if paused:
        moving.incoming.pause(True)
        await moving.stopped()
    moving.side(side).cancel()
    assert moving.side(side).state == "cancelled"
    whose = "this side" if side == "receiver" else "the sender"
    with pytest.raises(TransferCancelled, match=f"{whose} cancelled it"):
        await soon(moving.pulling)
    await moving.told()
    assert [(end.state, end.paused) for end in (moving.incoming, moving.outgoing)] == [
        ("cancelled", False)
    ] * 2
    assert whose in moving.incoming.why
    assert moving.outgoing.why == ("the receiver" if side == "receiver" else "this side") + " cancelled it"
    assert {status.state for status in moving.receiver.path_selector.statuses()} == {UP}
    for transfer in (moving.incoming, moving.outgoing):
        for step in (transfer.cancel, lambda: transfer.pause(True), lambda: transfer.pause(False)):  # noqa: B023
            with pytest.raises(TransferEnded, match=r"has ended \(cancelled\)"):
                step()
    await moving.hurry()
    assert await moving.receiver.imports.pull(
        "y", await moving.sender.exports.offer("y", body_of(moving.array)), ANY
    )


async def test_what_has_arrived_of_a_cancelled_transfer_is_freed_while_its_error_is_kept(
    move: MakeMoving, monkeypatch: pytest.MonkeyPatch
) -> None:
    places: list[weakref.ref[np.ndarray]] = []

    def note(size_bytes: int) -> np.ndarray:
        place: np.ndarray = allocate(size_bytes)
        if size_bytes == SIZE:
            places.append(weakref.ref(place))
        return place

    allocate = replace_function(monkeypatch, body_module, "allocate", note)
    moving = await move("tcp")
    assert [place() is not None for place in places] == [True]
    moving.incoming.cancel()
    with pytest.raises(TransferCancelled) as kept:
        await soon(moving.pulling)
    assert kept.value.__traceback__ is not None
    assert [place() for place in places] == [None]


async def test_a_stream_whose_transfer_was_cancelled_stops_though_its_receiver_goes_on(
    make_pair: Any,
) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    path = await soon(receiver.path_selector.wait_best({}))
    await sender.agreement.change({"rate_cap_bytes_per_s": SLOW})
    offer = await sender.exports.offer("x", body_of(np.zeros(SIZE, np.uint8)), "tcp")
    receive_buffer = ReceiveBuffer(SIZE)
    fetching = asyncio.ensure_future(path.fetch(offer.ticket, receive_buffer))
    await until(lambda: receive_buffer.position_bytes > 0)
    sender.traffic.transfers[0].cancel()
    await soon(fetching)  # the stream has ended, early
    assert receive_buffer.position_bytes < SIZE


async def test_a_transfer_that_failed_says_why_on_both_sides(make_pair: Any) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)))
    offer.fingerprint = bytes(16)
    with pytest.raises(AssetChanged):
        await soon(receiver.imports.pull("x", offer, ANY))
    await receiver.ping()
    (there,), (here,) = sender.traffic.transfers, receiver.traffic.transfers
    assert (here.state, there.state) == ("failed", "failed")
    assert here.why.startswith("'x' changed at its owner")
    assert there.why.startswith("at the receiver: 'x' changed")


# -- the record --------------------------------------------------------------------------------------------


async def test_the_record_keeps_what_runs_and_never_gives_a_number_twice(make_pair: Any) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    sender.exports.pause(True)
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)))
    sender.traffic.transfers[0].pause(True)
    sender.exports.pause(False)
    for _ in range(HISTORY + 10):
        await sender.exports.offer("small", body_of(np.zeros(10, np.uint8)))
    kept = [transfer.number for transfer in sender.traffic.transfers]
    assert kept == [0, *range(12, HISTORY + 11)]
    sender.traffic.transfers[0].pause(False)
    assert len(await soon(receiver.imports.pull("x", offer, ANY))) == MIB


async def test_each_change_of_a_transfer_is_announced_once(move: MakeMoving) -> None:
    moving = await move("tcp")
    told: list[tuple[bool, bool]] = []

    def heard(event: Event, source: int) -> None:
        if isinstance(event, TransferPaused) and source == moving.sender.sink.source:
            told.append((event.here, event.there))

    unlisten = listen(heard)
    moving.outgoing.pause(True)
    moving.outgoing.pause(True)
    moving.incoming.pause(True)
    moving.incoming.pause(True)
    await moving.told()
    moving.outgoing.pause(False)
    unlisten()
    assert told == [(True, False), (True, True), (False, True)]


# -- words that come early, and hostile ones ---------------------------------------------------------------


async def test_a_pause_that_is_told_before_its_pull_has_begun_holds(make_pair: Any) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)))
    (outgoing,) = sender.traffic.transfers
    outgoing.pause(True)
    await sender.ping()
    pulling = asyncio.ensure_future(receiver.imports.pull("x", offer, ANY))
    await until(lambda: len(receiver.traffic.transfers) == 1)
    assert receiver.traffic.transfers[0].paused_there
    outgoing.pause(False)
    assert len(await soon(pulling)) == MIB


async def test_a_transfer_cancelled_before_its_pull_has_begun_is_not_pulled(make_pair: Any) -> None:
    receiver, sender = await make_pair(Settings(only=("tcp",)))
    offer = await sender.exports.offer("x", body_of(np.zeros(MIB, np.uint8)), "tcp")
    (outgoing,) = sender.traffic.transfers
    outgoing.pause(True)
    outgoing.cancel()
    await sender.ping()
    with pytest.raises(TransferCancelled, match="the sender cancelled it"):
        await soon(receiver.imports.pull("x", offer, ANY))


@pytest.mark.parametrize("kind", [pb.TransferPause, pb.TransferEnd])
async def test_words_of_transfers_that_are_not_known_change_nothing_and_are_not_hoarded(
    make_pair: Any, kind: Any
) -> None:
    attacker, victim = await make_pair(Settings(only=("tcp",)))
    for number in range(2000):
        attacker.rpc.tell_nowait(kind(transfer_id=number.to_bytes(16, "big")))
    await attacker.ping()
    assert kept_counts(victim.imports.pulls)["early"] == 256
    assert victim.traffic.transfers == []


@pytest.mark.parametrize("kind", [pb.TransferPause, pb.TransferEnd])
@pytest.mark.parametrize("number", [b"", b"x" * 17, bytes(MIB)], ids=["none", "long", "huge"])
async def test_a_transfers_number_that_is_none_ends_the_link(
    make_pair: Any, kind: Any, number: bytes
) -> None:
    attacker, victim = await make_pair(Settings(only=("tcp",)))
    attacker.rpc.tell_nowait(kind(transfer_id=number))
    assert "number has 16 bytes" in str(await soon(end_of(victim)))


async def test_a_peer_that_pauses_and_resumes_all_the_time_harms_itself_alone(move: MakeMoving) -> None:
    moving = await move("tcp")
    await moving.hurry()
    transfer_id = moving.transfer_id
    for number in range(1, 1000):
        moving.receiver.rpc.tell_nowait(pb.TransferPause(transfer_id=transfer_id, paused=bool(number % 2)))
    assert await moving.sender.ping() < 5
    assert not moving.outgoing.running or moving.outgoing.paused_there
    moving.receiver.rpc.tell_nowait(pb.TransferPause(transfer_id=transfer_id, paused=False))
    assert await moving.arrived()


async def test_a_probe_cannot_be_paused(make_pair: Any) -> None:
    attacker, victim = await make_pair(Settings(only=("tcp",)))
    await soon(victim.path_selector.wait_best({}))
    offer = await victim.exports.offer_probe(body_of(np.zeros(MIB, np.uint8)), "tcp")
    attacker.rpc.tell_nowait(pb.TransferPause(transfer_id=offer.transfer_id, paused=True))
    await attacker.ping()
    assert not open_exports(victim)[offer.transfer_id].gate.shut
    victim.exports.withdraw(offer)


async def test_two_offers_under_one_number_are_refused(move: MakeMoving) -> None:
    moving = await move("tcp")
    transfer_id = moving.transfer_id
    offer = pb.TransferOffer(transfer_id=transfer_id, size_bytes=MIB)
    with pytest.raises(ValueError, match="two transfers under one number"):
        await soon(moving.receiver.imports.pull("y", offer, ANY))


# -- with the link -----------------------------------------------------------------------------------------


@SIDES
async def test_a_paused_transfer_ends_with_its_link(move: MakeMoving, side: str) -> None:
    moving = await move("tcp")
    moving.side(side).pause(True)
    await moving.stopped()
    await soon((moving.receiver if side == "sender" else moving.sender).close())
    with pytest.raises(LinkClosed):
        await soon(moving.pulling)
    await until(lambda: not moving.outgoing.running)
    assert (moving.incoming.state, moving.outgoing.state) == ("failed", "failed")
    assert "closed" in moving.incoming.why
