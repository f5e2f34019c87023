"""Datagrams over a network in memory that loses, repeats and reorders, and over real links."""

from __future__ import annotations

import asyncio
import random
import struct
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from duetlink.errors import LinkClosed, PeerLost, RemoteProtocolError
from duetlink.net.datagrams.channel_datagrams import MTU_BYTES, ChannelDatagrams
from duetlink.net.datagrams.delivery import Delivery, Report
from duetlink.net.peer.unreliable import UnreliableChannel
from duetlink.net.tunnel.replay import WINDOW_PACKETS
from duetlink.settings import Settings
from duetlink.testing.datagrams import DatagramsContract, send_until
from duetlink.testing.faults import end_of, kept_counts

Ends = tuple[ChannelDatagrams, ChannelDatagrams]


class Wire:
    """One end of a connection in memory: packets wait until the test delivers them, or go at once."""

    def __init__(self, *, room: int = 64) -> None:
        self.other: Wire = self
        self.queue: list[bytes] = []  # on its way from here
        self.room = room
        self.at_once: random.Random | None = None
        self._on_packet: Callable[[bytes], None] = lambda packet: None

    def send_nowait(self, packet: bytes) -> bool:
        if len(self.queue) >= self.room:
            return False
        self.queue.append(packet)
        if self.at_once is not None:
            asyncio.get_running_loop().call_soon(self._go)
        return True

    def listen(self, on_packet: Any, on_violation: Any) -> None:
        self._on_packet = on_packet

    def deliver(self, packet: bytes) -> None:
        self.other._on_packet(packet)

    def _go(self) -> None:
        """A fifth is lost, a fifth comes twice, and the order is any."""
        assert self.at_once is not None
        if not self.queue:
            return
        packet = self.queue.pop(self.at_once.randrange(len(self.queue)))
        for _ in range(self.at_once.choice([0, 1, 1, 1, 2])):
            self.deliver(packet)


def wires(seed: int | None = None) -> tuple[Wire, Wire]:
    one, other = Wire(), Wire()
    one.other, other.other = other, one
    if seed is not None:
        one.at_once = other.at_once = random.Random(seed)
    return one, other


@pytest.fixture
async def violations() -> list[RemoteProtocolError]:
    return []


@pytest.fixture
async def ends(violations: list[RemoteProtocolError]) -> AsyncIterator[Ends]:
    made = ChannelDatagrams(violations.append), ChannelDatagrams(violations.append)
    yield made
    for end in made:
        end.close(LinkClosed("the test is over"))


def attach(ends: Ends, pair: tuple[Wire, Wire]) -> None:
    for end, wire in zip(ends, pair, strict=True):
        end.attach(wire)


class TestInMemory(DatagramsContract):
    @pytest.fixture
    async def datagrams(self, ends: Ends) -> Ends:
        attach(ends, wires(seed=7))
        return ends


class TestOverALink(DatagramsContract):
    @pytest.fixture
    async def datagrams(self, make_pair: Any) -> Any:
        one, other = await make_pair(Settings(only=("tcp",)))
        return one.datagrams, other.datagrams


async def all_of(end: ChannelDatagrams) -> list[bytes]:
    """What waits to be received."""
    return [await end.receive() for _ in range(kept_counts(end)["waiting"])]


async def test_a_second_copy_is_dropped_by_another_connection_as_well(ends: Ends) -> None:
    pair = wires()
    attach(ends, pair)
    ends[0].send(b"once")
    ends[0].send(b"late")
    once, late = pair[0].queue
    pair[0].deliver(once)
    pair[0].deliver(once)
    again = wires()
    attach(ends, again)
    again[0].deliver(once)
    again[0].deliver(late)  # it was on its way when the connection was replaced
    again[0].deliver(late)
    assert await all_of(ends[1]) == [b"once", b"late"]


async def test_any_order_arrives(ends: Ends) -> None:
    pair = wires()
    attach(ends, pair)
    for number in range(20):
        ends[0].send(b"%d" % number)
    for packet in reversed(pair[0].queue):
        pair[0].deliver(packet)
    assert await all_of(ends[1]) == [b"%d" % number for number in reversed(range(20))]


async def test_what_is_too_old_to_be_known_is_dropped(ends: Ends) -> None:
    pair = wires()
    attach(ends, pair)
    ends[0].send(b"old")
    for _ in range(WINDOW_PACKETS):  # are lost
        ends[0].send(b"")
        pair[0].queue.pop()
    ends[0].send(b"new")
    old, new = pair[0].queue
    pair[0].deliver(new)
    pair[0].deliver(old)
    assert await all_of(ends[1]) == [b"new"]


async def test_what_nobody_receives_is_bounded_and_the_newest_is_kept(ends: Ends) -> None:
    pair = wires()
    attach(ends, pair)
    for number in range(1000):
        ends[0].send(b"%d" % number)
        pair[0].deliver(pair[0].queue.pop())
    assert await all_of(ends[1]) == [b"%d" % number for number in range(744, 1000)]


async def test_without_a_connection_all_is_dropped(ends: Ends) -> None:
    ends[0].send(b"x")
    assert ends[0].dropped == 1
    attach(ends, wires(seed=1))
    await send_until(ends[0], ends[1], b"y")


async def test_the_end_of_the_link_is_told_with_its_reason(ends: Ends) -> None:
    receiving = asyncio.ensure_future(ends[0].receive())
    await asyncio.sleep(0)
    ends[0].close(PeerLost("the peer is gone"))
    with pytest.raises(PeerLost, match="the peer is gone"):
        await receiving
    with pytest.raises(PeerLost, match="the peer is gone"):
        ends[0].send(b"")


@pytest.mark.parametrize(
    "packet",
    [
        b"",
        b"\x01",
        struct.pack("!BQ", 9, 0),
        struct.pack("!BQ", 1, 1 << 63),
        struct.pack("!BQ", 1, 0) + bytes(MTU_BYTES + 1),
        struct.pack("!BQ", 2, 0),  # a report without its numbers
        struct.pack("!BQQQQ", 2, 0, 5, 6, 0),  # six of five
        struct.pack("!BQQQQ", 2, 0, 5, 5, 0),  # of none that were sent
    ],
)
async def test_a_packet_that_is_none_is_a_violation(
    ends: Ends, violations: list[RemoteProtocolError], packet: bytes
) -> None:
    pair = wires()
    attach(ends, pair)
    pair[0].deliver(packet)
    assert len(violations) == 1
    assert await all_of(ends[1]) == []


async def test_a_packet_that_is_none_ends_the_link(make_pair: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    attacker, victim = await make_pair(Settings(only=("tcp",)))
    await send_until(attacker.datagrams, victim.datagrams, b"the channel is open")
    send = UnreliableChannel.send_nowait
    with monkeypatch.context() as patch:
        patch.setattr(
            UnreliableChannel, "send_nowait", lambda channel, packet: send(channel, b"\x09" + bytes(20))
        )
        attacker.datagrams.send(b"")
    assert "datagram of kind 9" in str(await asyncio.wait_for(end_of(victim), 60))
    assert isinstance(await asyncio.wait_for(end_of(attacker), 60), LinkClosed)


async def test_datagrams_pass_beside_a_stream_of_control_messages(make_pair: Any) -> None:
    one, other = await make_pair(Settings(only=("channel",)))
    pinging = asyncio.gather(*(one.ping() for _ in range(100)))
    await send_until(one.datagrams, other.datagrams, b"beside")
    assert all(took > 0 for took in await pinging)


def test_loss_and_rate_are_those_of_the_last_seconds() -> None:
    delivery = Delivery(0.0)
    assert (delivery.loss, delivery.bytes_per_s) == (None, None)
    delivery.take(Report(100, 50, 50_000), 100, 1.0)
    assert (delivery.loss, delivery.bytes_per_s) == (0.5, 50_000.0)
    for second in range(2, 7):  # nothing is lost any more
        delivery.take(Report(100 * second, 50 + 100 * (second - 1), 100_000 * second), 1000, float(second))
    assert (delivery.loss, delivery.bytes_per_s) == (0.0, 100_000.0)


def test_a_report_that_comes_late_changes_nothing() -> None:
    delivery = Delivery(0.0)
    delivery.take(Report(100, 100, 1000), 100, 1.0)
    delivery.take(Report(50, 10, 100), 100, 2.0)
    assert (delivery.loss, delivery.bytes_per_s) == (0.0, 1000.0)


async def test_half_of_the_packets_lost_is_told_as_half(ends: Ends, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.net.datagrams.channel_datagrams._REPORT_S", 0.01)
    pair = wires()
    attach(ends, pair)
    for number in range(100):
        ends[0].send(b"x" * 10)
        packet = pair[0].queue.pop()
        if number % 2:
            pair[0].deliver(packet)
    while not pair[1].queue:
        await asyncio.sleep(0.005)
    pair[1].deliver(pair[1].queue.pop())
    assert ends[0].loss == 0.5
