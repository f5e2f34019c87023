"""Streams through servers that behave at their worst: the same moment, and both directions full."""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import AsyncIterator
from typing import Any

import pytest

from duetlink.net.carrier import stream_relay
from duetlink.net.carrier.address import Address
from duetlink.net.carrier.server_url import ServerUrl
from duetlink.net.carrier.stream_relay import establish
from duetlink.net.carrier.wire import Wire
from duetlink.settings import IceServer
from tests.net.carrier.conftest import make_sessions
from tests.net.carrier.drivers import Collector, carries_both_ways, established

_MUCH_BYTES = 64 * 1024
_TURN = (IceServer(("turn:turn.example?transport=tcp",), "u", "p"),)


class Servers:
    """TURN servers that connect to each other whenever both are asked to, and announce nothing.

    A connection that has carried much both ways stops to carry one of them, for good, as with coturn.
    """

    def __init__(self) -> None:
        self._allocated = 0
        self._asked: dict[frozenset[Address], asyncio.Future[Wire]] = {}
        self._relaying: list[asyncio.Task[None]] = []
        self._inside: list[socket.socket] = []

    async def allocate(self, server: ServerUrl, on_stream: Any) -> Allocation:
        self._allocated += 1
        return Allocation(self, (f"203.0.113.{self._allocated}", 1))

    async def connect(self, one: Address, other: Address) -> Wire:
        """One end; the other is for whoever asks for the same from there."""
        addresses = frozenset((one, other))
        if addresses not in self._asked:
            self._asked[addresses] = asyncio.get_running_loop().create_future()
            return await self._asked[addresses]
        ours, theirs = await self._join()
        self._asked.pop(addresses).set_result(theirs)
        return ours

    async def close(self) -> None:
        for task in self._relaying:
            task.cancel()
        await asyncio.gather(*self._relaying, return_exceptions=True)
        for sock in self._inside:
            sock.close()

    async def _join(self) -> list[Wire]:
        outside, inside = zip(*(socket.socketpair() for _ in range(2)), strict=True)
        self._inside += inside
        carried = [0, 0]
        for direction, ends in enumerate((inside, inside[::-1])):
            self._relaying.append(asyncio.ensure_future(self._relay(*ends, carried, direction)))
        return [await Wire.adopt(sock) for sock in outside]

    async def _relay(
        self, source: socket.socket, sink: socket.socket, carried: list[int], direction: int
    ) -> None:
        loop = asyncio.get_running_loop()
        for sock in (source, sink):
            sock.setblocking(False)
        with contextlib.suppress(OSError):
            while data := await loop.sock_recv(source, 16 * 1024):
                carried[direction] += len(data)
                if direction == 0 and min(carried) > _MUCH_BYTES:
                    await loop.create_future()
                await loop.sock_sendall(sink, data)
        for sock in (source, sink):
            with contextlib.suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)


class Allocation:
    """In place of a TcpAllocation."""

    server, host, mapped = "turn.example", "203.0.113.200", ("203.0.113.201", 1)

    def __init__(self, servers: Servers, relayed: Address) -> None:
        self._servers = servers
        self.relayed = relayed

    async def permit(self, host: str) -> None:
        pass

    async def connect(self, peer: Address) -> Wire:
        return await self._servers.connect(self.relayed, peer)

    async def close(self) -> None:
        pass


@pytest.fixture
async def servers(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Servers]:
    """These, in networks that let nothing else through."""

    async def blocked(self: Any, address: Address) -> None:
        await asyncio.get_running_loop().create_future()

    made = Servers()
    monkeypatch.setattr(stream_relay._Relaying, "_dial", blocked)
    monkeypatch.setattr(stream_relay, "_DETOUR_S", 0.0)
    monkeypatch.setattr(stream_relay.TcpAllocation, "open", made.allocate)
    yield made
    await made.close()


@pytest.mark.usefixtures("servers")
async def test_two_servers_that_connect_at_once_make_one_connection() -> None:
    async with asyncio.timeout(60), established(establish, make_sessions(_TURN, _TURN)) as ways:
        ends = [Collector(), Collector()]
        for way, end in zip(ways, ends, strict=True):
            (await way.attach(end)).write(b"here I am")
        for end in ends:
            assert await end.wait_received(9) == b"here I am"


@pytest.mark.usefixtures("servers")
async def test_no_connection_carries_much_both_ways() -> None:
    async with asyncio.timeout(60), established(establish, make_sessions(_TURN, _TURN)) as ways:
        await carries_both_ways(ways)


@pytest.mark.usefixtures("servers")
async def test_connections_of_both_sides_share_it(carry: Any) -> None:
    carried = await carry(establish, make_sessions(_TURN, _TURN))
    async with asyncio.timeout(60):
        await asyncio.gather(*(carried.exchange(index, bytes(3_000_000)) for index in range(2)))
