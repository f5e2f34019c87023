"""The durable channel over connections that break at any message: each message once, in order."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import LinkClosed, RemoteProtocolError
from duetlink.net.peer.durable import DurableChannel


class Wire:
    """One end of a connection in memory, in the shape of a MessageChannel: `step` delivers one message."""

    def __init__(self) -> None:
        self.other: Wire = self
        self.queue: deque[bytes] = deque()
        self.broken = False
        self._on_message: Any = None
        self._on_violation: Any = None

    @classmethod
    def pair(cls) -> tuple[Wire, Wire]:
        one, other = cls(), cls()
        one.other, other.other = other, one
        return one, other

    def listen(self, on_message: Any, on_violation: Any) -> None:
        self._on_message, self._on_violation = on_message, on_violation

    async def wait_room(self) -> None:
        if self.broken:
            raise LinkClosed("the connection is broken")

    def send_nowait(self, message: bytes) -> None:
        if self.broken:
            raise LinkClosed("the connection is broken")
        self.other.queue.append(message)

    def fail(self, why: str) -> None:
        self.broken = True

    def step(self) -> bool:
        """Deliver the next message that has come to this end; whether there was one."""
        if self.broken or self._on_message is None or not self.queue:
            return False
        self._on_message(self.queue.popleft())
        return True


class Ends:
    """Two durable channels, and what each has received."""

    def __init__(self, kept_bytes: int = 1 << 20) -> None:
        self.received: list[list[bytes]] = [[], []]
        self.violations: list[RemoteProtocolError] = []
        self.channels = [DurableChannel(self.violations.append, kept_bytes=kept_bytes) for _ in range(2)]
        self.wires: tuple[Wire, Wire] = Wire.pair()
        for channel, received in zip(self.channels, self.received, strict=True):
            channel.listen(received.append)
        self.connect()

    def connect(self) -> None:
        """A new connection under both; what the old one held is lost."""
        for wire in self.wires:
            wire.broken = True
        self.wires = Wire.pair()
        for channel, wire in zip(self.channels, self.wires, strict=True):
            channel.attach(wire)  # type: ignore[arg-type]

    def settle(self) -> None:
        while self.wires[0].step() or self.wires[1].step():
            pass

    def close(self) -> None:
        for channel in self.channels:
            channel.fail("the test is over")


def run(steps: list[str], seed: int) -> None:
    async def play() -> None:
        ends = Ends()
        choose = random.Random(seed)
        sent: list[list[bytes]] = [[], []]
        for step in [*steps, "connect"]:
            if step == "connect":
                ends.connect()
            elif step == "step":
                ends.wires[choose.randrange(2)].step()
            else:
                side = 0 if step == "left" else 1
                message = b"%d" % len(sent[side])
                sent[side].append(message)
                ends.channels[side].send_nowait(message)
        ends.settle()
        assert ends.received == [sent[1], sent[0]]
        assert ends.violations == []
        ends.close()

    asyncio.run(play())


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.sampled_from(["left", "right", "step", "step", "connect"]), max_size=120), st.integers(0, 9)
)
def test_every_message_arrives_once_and_in_order_over_any_number_of_connections(
    steps: list[str], seed: int
) -> None:
    run(steps, seed)


async def test_messages_wait_where_there_is_no_connection() -> None:
    ends = Ends()
    ends.settle()
    ends.channels[0].detach()
    await ends.channels[0].send(b"later")
    ends.connect()
    ends.settle()
    assert ends.received[1] == [b"later"]
    ends.close()


async def test_a_sender_waits_while_too_much_is_unconfirmed() -> None:
    ends = Ends(kept_bytes=100)
    ends.settle()
    await ends.channels[0].send(bytes(100))
    sending = asyncio.ensure_future(ends.channels[0].send(b"more"))
    await asyncio.wait((sending,), timeout=0.05)
    assert not sending.done()
    ends.settle()  # it arrives; the other side says so by the way
    ends.channels[1].send_nowait(b"hello")
    ends.settle()
    await asyncio.wait_for(sending, 60)
    ends.settle()
    assert ends.received[1] == [bytes(100), b"more"]
    ends.close()


async def test_what_has_arrived_is_confirmed_without_being_asked() -> None:
    ends = Ends(kept_bytes=10)
    ends.settle()
    await ends.channels[0].send(bytes(10))
    ends.settle()
    sending = asyncio.ensure_future(ends.channels[0].send(b"x"))
    while not sending.done():  # the confirmation comes after half a second
        ends.settle()
        await asyncio.sleep(0.01)
    ends.close()


async def test_a_cancelled_send_queues_nothing() -> None:
    ends = Ends(kept_bytes=10)
    ends.settle()
    await ends.channels[0].send(bytes(10))
    sending = asyncio.ensure_future(ends.channels[0].send(b"never"))
    await asyncio.wait((sending,), timeout=0.01)
    sending.cancel()
    await asyncio.wait((sending,))
    ends.connect()
    ends.settle()
    assert ends.received[1] == [bytes(10)]
    ends.close()


async def test_a_ping_comes_back_and_one_without_a_connection_says_so() -> None:
    ends = Ends()
    ends.settle()
    pinging = asyncio.ensure_future(ends.channels[0].ping())
    await asyncio.sleep(0)
    ends.settle()
    assert 0 <= await pinging < 5
    ends.channels[0].detach()
    with pytest.raises(LinkClosed, match="no connection"):
        await ends.channels[0].ping()
    ends.close()


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=40))
def test_frames_of_any_bytes_are_messages_or_violations(frame: bytes) -> None:
    async def play() -> None:
        ends = Ends()
        ends.settle()
        ends.wires[0].send_nowait(frame)
        ends.settle()
        assert len(ends.violations) + len(ends.received[1]) <= 1
        ends.close()

    asyncio.run(play())
