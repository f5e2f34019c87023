"""A fresh connection, over real sockets."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator

import pytest

from duetlink.net.carrier.drivers.wire import CAPACITY_BYTES, TcpConnection
from tests.net.carrier.drivers import Collector


@pytest.fixture
async def ends() -> AsyncIterator[tuple[TcpConnection, socket.socket]]:
    ours, theirs = socket.socketpair()
    wire = await TcpConnection.adopt(ours)
    theirs.setblocking(False)
    yield wire, theirs
    wire.abort()
    theirs.close()


async def test_bytes_come_in_the_pieces_asked_for(ends: tuple[TcpConnection, socket.socket]) -> None:
    wire, theirs = ends
    theirs.send(b"abcdef")
    assert await wire.read(2) == b"ab"
    assert await wire.read(4) == b"cdef"
    waiting = asyncio.ensure_future(wire.read(3))
    theirs.send(b"gh")
    await asyncio.sleep(0)
    theirs.send(b"i")
    assert await waiting == b"ghi"


async def test_it_holds_no_more_than_its_capacity(ends: tuple[TcpConnection, socket.socket]) -> None:
    wire, theirs = ends
    loop = asyncio.get_running_loop()
    flood = asyncio.ensure_future(loop.sock_sendall(theirs, bytes(4_000_000)))
    assert len(await wire.read(CAPACITY_BYTES)) == CAPACITY_BYTES
    assert len(await wire.read(CAPACITY_BYTES)) == CAPACITY_BYTES
    assert not flood.done()
    flood.cancel()


async def test_the_next_protocol_gets_what_was_not_read_and_all_that_follows(
    ends: tuple[TcpConnection, socket.socket],
) -> None:
    wire, theirs = ends
    loop = asyncio.get_running_loop()
    data = bytes(range(256)) * 4000
    sending = asyncio.ensure_future(loop.sock_sendall(theirs, b"head" + data))
    assert await wire.read(4) == b"head"
    collector = Collector()
    wire.hand_over(collector)
    await sending
    assert await collector.wait_received(len(data)) == data


async def test_an_end_is_an_error_of_the_reader(ends: tuple[TcpConnection, socket.socket]) -> None:
    wire, theirs = ends
    theirs.send(b"ab")
    theirs.close()
    assert await wire.read(2) == b"ab"
    with pytest.raises(ConnectionResetError):
        await wire.read(1)
    wire.write(b"nobody")  # is dropped


async def test_the_next_protocol_learns_of_an_end_that_came_before(
    ends: tuple[TcpConnection, socket.socket],
) -> None:
    wire, theirs = ends
    theirs.close()
    with pytest.raises(ConnectionResetError):
        await wire.read(1)
    collector = Collector()
    wire.hand_over(collector)
    await collector.lost


async def test_a_reset_frees_the_addresses_of_both_sides_at_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener, socket.socket() as theirs:
        theirs.connect(listener.getsockname())
        wire = await TcpConnection.adopt(listener.accept()[0])
        wire.write(b"never read")
        wire.reset()
        await asyncio.sleep(0)
        theirs.settimeout(5)
        with pytest.raises(ConnectionResetError):
            while theirs.recv(100):
                pass
        wire.reset()
