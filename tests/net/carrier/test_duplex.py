"""Two connections as one stream, over real sockets."""

from __future__ import annotations

import asyncio
import dataclasses
import socket
from collections.abc import AsyncIterator

import pytest

from duetlink.errors import RemoteProtocolError
from duetlink.net.carrier.duplex import Duplex
from duetlink.net.carrier.wire import Wire
from tests.net.carrier.drivers import Collector


class Protocol(Collector):
    def __init__(self) -> None:
        super().__init__()
        self.made: list[asyncio.BaseTransport] = []
        self.full: list[bool] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.made.append(transport)

    def pause_writing(self) -> None:
        self.full.append(True)

    def resume_writing(self) -> None:
        self.full.append(False)


@dataclasses.dataclass
class Ends:
    """A stream's two connections, and their far ends."""

    outgoing: Wire
    incoming: Wire
    far_outgoing: socket.socket
    far_incoming: socket.socket

    def join(self) -> tuple[Duplex, Protocol]:
        protocol = Protocol()
        return Duplex(protocol, outgoing=self.outgoing, incoming=self.incoming), protocol


@pytest.fixture
async def ends() -> AsyncIterator[Ends]:
    pairs = [socket.socketpair() for _ in range(2)]
    for _, far in pairs:
        far.setblocking(False)
    wires = [await Wire.adopt(ours) for ours, _ in pairs]
    yield Ends(*wires, *(far for _, far in pairs))
    for wire in wires:
        wire.abort()
    for _, far in pairs:
        far.close()


async def received(sock: socket.socket, size_bytes: int) -> bytes:
    loop, data = asyncio.get_running_loop(), b""
    while len(data) < size_bytes and (chunk := await loop.sock_recv(sock, size_bytes - len(data))):
        data += chunk
    return data


async def test_each_direction_has_its_own(ends: Ends) -> None:
    ends.far_incoming.send(b"head and the first")
    assert await ends.incoming.read(9) == b"head and "
    duplex, protocol = ends.join()
    assert protocol.made == [duplex]
    ends.far_incoming.send(b" words")
    duplex.write(b"answer")
    assert await protocol.wait_received(15) == b"the first words"
    assert await received(ends.far_outgoing, 6) == b"answer"
    with pytest.raises(BlockingIOError):
        ends.far_incoming.recv(1)


async def test_each_direction_is_held_up_by_itself(ends: Ends) -> None:
    duplex, protocol = ends.join()
    duplex.pause_reading()
    duplex.set_write_buffer_limits(high=1000)
    assert not duplex.is_reading()
    ends.far_incoming.send(b"later")
    sent = bytes(4_000_000)
    duplex.write(sent)
    assert protocol.full == [True]
    assert duplex.get_write_buffer_size() > duplex.get_write_buffer_limits()[1] == 1000
    assert await received(ends.far_outgoing, len(sent)) == sent
    assert protocol.full == [True, False]
    assert protocol.received == b""
    duplex.resume_reading()
    assert await protocol.wait_received(5) == b"later"


@pytest.mark.parametrize("which", ["far_outgoing", "far_incoming"])
async def test_the_end_of_either_is_the_end(ends: Ends, which: str) -> None:
    duplex, protocol = ends.join()
    getattr(ends, which).close()
    await protocol.lost
    assert duplex.is_closing()
    duplex.write(b"nobody")
    for far in {ends.far_outgoing, ends.far_incoming} - {getattr(ends, which)}:
        assert await received(far, 1) == b""


async def test_an_end_that_came_before_is_told(ends: Ends) -> None:
    ends.far_incoming.close()
    with pytest.raises(ConnectionResetError):
        await ends.incoming.read(1)
    _, protocol = ends.join()
    assert isinstance(await protocol.lost, ConnectionResetError)


async def test_nothing_may_come_by_the_outgoing_one(ends: Ends) -> None:
    ends.far_outgoing.send(b"head and more")
    assert await ends.outgoing.read(4) == b"head"
    _, protocol = ends.join()
    assert isinstance(await protocol.lost, RemoteProtocolError)
    assert protocol.received == b""


async def test_close_sends_what_was_written_and_abort_does_not_wait(ends: Ends) -> None:
    duplex, protocol = ends.join()
    sent = bytes(4_000_000)
    duplex.write(sent)
    duplex.close()
    assert await received(ends.far_outgoing, len(sent) + 1) == sent
    assert await protocol.lost is None
    duplex.abort()
    assert await received(ends.far_incoming, 1) == b""
