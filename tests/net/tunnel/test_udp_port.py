"""Real sockets: batches with and without the kernel's help, channels, what is not ours, and a stream."""

from __future__ import annotations

import asyncio
import errno
import random
import socket
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import numpy as np
import pytest

from duetlink.net.tunnel.transport import TunnelTransport
from duetlink.net.tunnel.udp_port import UdpPort

from .network import KEY, Endpoint

linux = pytest.mark.skipif(sys.platform != "linux", reason="only Linux cuts and joins datagrams")


class Receiving:
    """A started port, and what it received."""

    def __init__(self, port: UdpPort) -> None:
        self.port = port
        self.datagrams: list[bytes] = []
        self.changed = asyncio.Event()
        port.start(asyncio.get_running_loop(), self._readable, lambda: None, lambda error: None)

    def _readable(self) -> None:
        for received in self.port.receive():
            for row, size in zip(received.rows, received.sizes_bytes, strict=True):
                self.datagrams.append(row[:size].tobytes())
        self.changed.set()

    async def wait(self, condition: Callable[[], bool]) -> None:
        async with asyncio.timeout(60):
            while not condition():
                self.changed.clear()
                await self.changed.wait()


def sockets(family: socket.AddressFamily = socket.AF_INET) -> tuple[socket.socket, socket.socket]:
    pair = socket.socket(family, socket.SOCK_DGRAM), socket.socket(family, socket.SOCK_DGRAM)
    for sock in pair:
        sock.bind(("127.0.0.1" if family == socket.AF_INET else "::1", 0))
    for sock, other in (pair, pair[::-1]):
        sock.connect(other.getsockname())
    return pair


MakePorts = Callable[..., tuple[UdpPort, UdpPort]]


@pytest.fixture
async def make_ports() -> AsyncIterator[MakePorts]:
    made: list[UdpPort] = []

    def make(**options: Any) -> tuple[UdpPort, UdpPort]:
        pair = sockets(options.pop("family", socket.AF_INET))
        made.extend(UdpPort(sock, **options) for sock in pair)
        return made[-2], made[-1]

    yield make
    for port in made:
        port.close()


@pytest.mark.parametrize("offload", [pytest.param(True, marks=linux), False])
@pytest.mark.parametrize("family", [socket.AF_INET, socket.AF_INET6])
async def test_batches_arrive_as_they_were_sent(
    make_ports: MakePorts, offload: bool, family: socket.AddressFamily
) -> None:
    sending, receiving = make_ports(offload=offload, family=family)
    assert sending.offload == offload
    got = Receiving(receiving)
    chance = np.random.default_rng(1)
    sent = []
    for count, size in ((44, 1400), (1, 1400), (3, 33), (1, 9), (20, 1452), (2, 8000), (100, 1200), (1, 1)):
        rows = chance.integers(0, 256, (count, size), np.uint8)
        rows[:, 0] |= 0xC0
        sent += [row.tobytes() for row in rows]
        assert sending.send(rows) == count
        await got.wait(lambda: len(got.datagrams) == len(sent))  # noqa: B023 - awaited here
    assert got.datagrams == sent


@pytest.mark.parametrize("offload", [pytest.param(True, marks=linux), False])
async def test_what_is_not_the_tunnels_is_handed_over_whole(make_ports: MakePorts, offload: bool) -> None:
    other: list[tuple[bytes, Any]] = []
    pair = sockets()
    receiving = UdpPort(pair[1], on_other=lambda data, source: other.append((data, source)), offload=offload)
    got = Receiving(receiving)
    stun = b"\x00\x01\x00\x00" + bytes(16)
    for datagram in (
        b"\xc0 ours",
        stun,
        b"\xff ours too",
        b"",
        b"\x40\x00\x00\x01\xc0",
        b"\x16 DTLS",
        b"\xe1",
    ):
        pair[0].send(datagram)
    await got.wait(lambda: len(got.datagrams) == 3)
    assert got.datagrams == [b"\xc0 ours", b"\xff ours too", b"\xe1"]
    source = pair[0].getsockname()
    expected = [stun, b"\x40\x00\x00\x01\xc0", b"\x16 DTLS"]
    assert other == [(data, source) for data in expected]
    receiving.close()
    pair[0].close()


@pytest.mark.parametrize("offload", [pytest.param(True, marks=linux), False])
async def test_a_channel_wraps_what_is_sent_and_unwraps_what_comes(
    make_ports: MakePorts, offload: bool
) -> None:
    other: list[bytes] = []
    pair = sockets()
    port = UdpPort(pair[1], channel=0x4001, on_other=lambda data, _: other.append(data), offload=offload)
    got = Receiving(port)
    assert port.headroom_bytes == 4
    rows = np.full((3, 4 + 40), 0xC0, np.uint8)
    assert port.send(rows) == 3
    pair[0].settimeout(5)
    for _ in range(3):
        assert pair[0].recv(2000) == b"\x40\x01\x00\x28" + b"\xc0" * 40
    for frame in (
        b"\x40\x01\x00\x05\xc0four",
        b"\x40\x01\x00\x05\xc0four\0\0\0",  # padded
        b"\x40\x02\x00\x05\xc0four",  # another channel
        b"\x40\x01\x00\x06\xc0four",  # shorter than it says
        b"\x40\x01\x00\x14\x00\x01" + bytes(18),  # STUN of the peer
        b"\x01\x01\x00\x00" + bytes(16),  # STUN of the server
        b"\x40\x01\x00\x00",
        b"\x40",
        b"\xc0 without a channel",
    ):
        pair[0].send(frame)
    await got.wait(lambda: len(other) == 7)
    assert got.datagrams == [b"\xc0four"] * 2
    assert [data[:2] for data in other] == [
        b"\x40\x02",
        b"\x40\x01",
        b"\x40\x01",
        b"\x01\x01",
        b"\x40\x01",
        b"\x40",
        b"\xc0 ",
    ]
    port.close()
    pair[0].close()


@pytest.mark.parametrize("offload", [pytest.param(True, marks=linux), False])
async def test_refusals_from_the_network_are_survived(make_ports: MakePorts, offload: bool) -> None:
    pair = sockets()
    address = pair[0].getsockname()
    port = UdpPort(pair[1], offload=offload)
    got = Receiving(port)
    pair[0].close()
    for _ in range(5):  # nobody listens: the system answers with ICMP
        assert port.send(np.full((3, 100), 0xC0, np.uint8)) == 3
    again = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    again.bind(address)
    again.sendto(b"\xc0 back", pair[1].getsockname())
    await got.wait(lambda: got.datagrams == [b"\xc0 back"])
    port.close()
    again.close()


class FlakySocket:
    """A socket whose card or system cannot do what it promised."""

    def __init__(self, sock: socket.socket, error: int) -> None:
        self._sock = sock
        self._error = error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._sock, name)

    def sendmsg(self, *arguments: Any) -> int:
        raise OSError(self._error, "no")


@linux
@pytest.mark.parametrize(
    ("error", "offload"), [(errno.EIO, False), (errno.EINVAL, False), (errno.ENETUNREACH, True)]
)
async def test_offload_that_fails_later_is_done_without(error: int, offload: bool) -> None:
    pair = sockets()
    sending, got = UdpPort(FlakySocket(pair[0], error), offload=True), Receiving(UdpPort(pair[1]))  # type: ignore[arg-type]
    assert sending.offload
    rows = np.full((30, 1000), 0xC0, np.uint8)
    assert sending.send(rows) == 30
    await got.wait(lambda: len(got.datagrams) == 30)
    assert sending.offload == offload
    sending.close()
    got.port.close()


async def test_a_full_socket_says_when_there_is_room(make_ports: MakePorts) -> None:
    class FullSocket(FlakySocket):
        full = True

        def send(self, data: Any) -> int:
            if self.full:
                raise BlockingIOError
            return self._sock.send(data)

    pair = sockets()
    sock = FullSocket(pair[0], 0)
    port = UdpPort(sock, offload=False)  # type: ignore[arg-type]
    room = asyncio.Event()
    port.start(asyncio.get_running_loop(), lambda: None, room.set, lambda error: None)
    assert port.send(np.full((3, 10), 0xC0, np.uint8)) == 0
    sock.full = False
    await asyncio.wait_for(room.wait(), 60)
    assert port.send(np.full((3, 10), 0xC0, np.uint8)) == 3
    port.close()
    port.close()
    assert port.send(np.full((3, 10), 0xC0, np.uint8)) == 3  # as good as lost
    pair[1].close()


@pytest.mark.parametrize("offload", [pytest.param(True, marks=linux), False])
@pytest.mark.parametrize("channel", [None, 0x4005])
async def test_64_mib_arrive_intact_over_two_sockets(offload: bool, channel: int | None) -> None:
    payload = random.Random(3).randbytes(64 << 20)
    first, second = Endpoint(payload, then_close=True, piece_bytes=1 << 18), Endpoint()
    loop = asyncio.get_running_loop()
    for sock, endpoint, initiator in zip(sockets(), (first, second), (True, False), strict=True):
        port = UdpPort(sock, offload=offload, channel=channel)
        TunnelTransport(loop, port, endpoint, key=KEY, initiator=initiator)
    async with asyncio.timeout(60):
        assert await second.lost is None
        assert await first.lost is None
    assert second.received == payload
    assert first.transport.sender.outgoing.sent == 64 << 20
    assert first.transport.sender.mtu.datagram_bytes == 16_272
    assert not first.transport.receiver.dropped
