"""ChannelData over a byte stream to a TURN server: frames, padding, back-pressure, endings."""

from __future__ import annotations

import asyncio
import random
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.net.tunnel.transport import TunnelTransport
from duetlink.net.tunnel.turn_stream_port import TurnStreamPort

from .network import KEY, Endpoint

CHANNEL = 0x4123


class FakeTransport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.is_closed = False
        self.is_reading_ = True
        self.protocol: Any = None

    def write(self, data: Any) -> None:
        self.written += bytes(data)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def pause_reading(self) -> None:
        self.is_reading_ = False

    def resume_reading(self) -> None:
        self.is_reading_ = True

    def close(self) -> None:
        self.is_closed = True


class Started:
    def __init__(self) -> None:
        self.transport = FakeTransport()
        self.other: list[bytes] = []
        self.events: list[object] = []
        self.port = TurnStreamPort(self.transport, CHANNEL, lambda data, _: self.other.append(data))
        self.port.start(
            None,  # type: ignore[arg-type]
            lambda: self.events.append("readable"),
            lambda: self.events.append("writable"),
            self.events.append,
        )

    def datagrams(self) -> list[bytes]:
        return [
            row[:size].tobytes()
            for received in self.port.receive()
            for row, size in zip(received.rows, received.sizes_bytes, strict=True)
        ]


def frame(payload: bytes, channel: int = CHANNEL) -> bytes:
    return channel.to_bytes(2) + len(payload).to_bytes(2) + payload + bytes(-len(payload) % 4)


def test_frames_are_padded_and_batches_are_one_write() -> None:
    started = Started()
    rows = np.full((3, 4 + 37), 0xC1, np.uint8)
    assert started.port.send(rows) == 3
    assert started.transport.written == (b"\x41\x23\x00\x25" + b"\xc1" * 37 + b"\0\0\0") * 3


@given(st.integers(0, 2**32))
@settings(max_examples=60, deadline=None)
def test_frames_are_found_however_the_stream_is_cut(seed: int) -> None:
    chance = random.Random(seed)
    started = Started()
    ours, other, stream = [], [], b""
    for _ in range(chance.randint(1, 20)):
        payload = bytes([chance.randint(0xC0, 0xFF)]) + chance.randbytes(chance.choice([31, 40, 1400, 5000]))
        kind = chance.choice(["ours", "ours", "channel", "short", "stun", "inner"])
        if kind == "ours":
            ours.append(payload)
            stream += frame(payload)
        else:
            data = {
                "channel": frame(payload, CHANNEL + 1),
                "short": frame(payload[:31]),
                "stun": b"\x01\x01\x00\x08" + chance.randbytes(16 + 8),
                "inner": frame(b"\x00\x01\x00\x00" + chance.randbytes(40)),
            }[kind]
            stream += data
            size = 20 + 8 if kind == "stun" else 4 + int.from_bytes(data[2:4])
            other.append(data[:size])
    got = []
    while stream:
        size = chance.randint(1, len(stream))
        started.transport.protocol.data_received(stream[:size])
        stream = stream[size:]
        if chance.random() < 0.5:
            got += started.datagrams()
    got += started.datagrams()
    assert sorted(got) == sorted(ours)
    assert started.other == other


def test_another_kind_of_frame_is_the_end() -> None:
    started = Started()
    started.transport.protocol.data_received(frame(b"\xc0" * 40) + b"SSH-2.0-OpenSSH\r\n")
    assert started.transport.is_closed
    assert "the TURN server sent a frame that starts with byte 83" in str(started.events[-1])
    assert isinstance(started.events[-1], ConnectionError)
    started.transport.protocol.connection_lost(None)
    assert len(started.events) == 1


@pytest.mark.parametrize("how", ["eof", "lost"])
def test_the_end_of_the_connection_is_told(how: str) -> None:
    started = Started()
    if how == "eof":
        started.transport.protocol.eof_received()
    else:
        started.transport.protocol.connection_lost(OSError("reset"))
    assert isinstance(started.events[0], OSError)


def test_a_full_transport_holds_the_sender_back() -> None:
    started = Started()
    started.transport.protocol.pause_writing()
    assert started.port.send(np.full((3, 40), 0xC0, np.uint8)) == 0
    started.transport.protocol.resume_writing()
    assert started.events == ["writable"]
    assert started.port.send(np.full((3, 40), 0xC0, np.uint8)) == 3


def test_what_nobody_takes_is_not_read_further() -> None:
    started = Started()
    for _ in range(90):
        started.transport.protocol.data_received(frame(b"\xc0" * 60_000))
    assert not started.transport.is_reading_
    assert len(started.datagrams()) == 90
    assert started.transport.is_reading_


def test_a_tunnel_through_two_connections() -> None:
    """Two clients of a TURN server that passes ChannelData on, with another channel for each."""
    payload = random.Random(1).randbytes(3_000_000)

    async def main() -> None:
        first, second = Endpoint(payload, then_close=True), Endpoint()
        clients: list[asyncio.StreamWriter] = []
        both = asyncio.Event()

        async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            clients.append(writer)
            if len(clients) == 2:
                both.set()
            await both.wait()
            peer = clients[1 - clients.index(writer)]
            try:
                while True:
                    head = await reader.readexactly(4)
                    size = int.from_bytes(head[2:])
                    data = await reader.readexactly(size + -size % 4)
                    peer.write((int.from_bytes(head[:2]) ^ 1).to_bytes(2) + head[2:] + data)
                    await peer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                peer.close()

        server = await asyncio.start_server(relay, "127.0.0.1", 0)
        loop = asyncio.get_running_loop()
        for endpoint, initiator in ((first, True), (second, False)):
            transport, _ = await loop.create_connection(
                asyncio.Protocol, "127.0.0.1", server.sockets[0].getsockname()[1]
            )
            transport.pause_reading()
            port = TurnStreamPort(transport, 0x4000 + initiator)
            TunnelTransport(loop, port, endpoint, key=KEY, initiator=initiator)
        assert await second.lost is None
        assert await first.lost is None
        assert second.received == payload
        server.close()
        await server.wait_closed()

    asyncio.run(asyncio.wait_for(main(), 30))
