"""What tests of drivers use: sessions that note or delay what they say, and ways that are tried out."""

from __future__ import annotations

import asyncio
import dataclasses
import secrets
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from duetlink.net.carrier.drivers.driver import Establish, Established, Session


def slowly(session: Session, delay_s: float) -> Session:
    """The same, whose signals take a while."""

    async def send(payload: bytes) -> None:
        await asyncio.sleep(delay_s)
        await session.send(payload)

    return dataclasses.replace(session, send=send)


def telling(session: Session, told: list[bytes]) -> Session:
    """The same, noting what it sends."""

    async def send(payload: bytes) -> None:
        told.append(payload)
        await session.send(payload)

    return dataclasses.replace(session, send=send)


@asynccontextmanager
async def established(driver: Establish, sessions: Sequence[Session]) -> AsyncIterator[list[Established]]:
    """Both ends of a way; closed at the end."""
    ways = await asyncio.gather(*(driver(session) for session in sessions))
    try:
        yield ways
    finally:
        for way in ways:
            await way.close()


class Collector(asyncio.Protocol):
    """Keeps what arrives."""

    def __init__(self) -> None:
        self.received = bytearray()
        self.lost: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()
        self._arrived = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self.received += data
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self.lost.set_result(exc)
        self._arrived.set()

    async def wait_received(self, size_bytes: int) -> bytes:
        while len(self.received) < size_bytes and not self.lost.done():
            self._arrived.clear()
            await self._arrived.wait()
        return bytes(self.received)


async def carries_both_ways(ways: list[Established]) -> None:
    """Attach to both ends, and move what does not fit into any buffer on the way."""
    data = [secrets.token_bytes(3_000_000), secrets.token_bytes(2_000_000)]
    ends = [Collector(), Collector()]
    transports = [await way.attach(end) for way, end in zip(ways, ends, strict=True)]
    for transport, sent in zip(transports, data, strict=True):
        transport.write(sent)
    assert await ends[0].wait_received(len(data[1])) == data[1]
    assert await ends[1].wait_received(len(data[0])) == data[0]
    transports[0].abort()
    await ends[1].lost
