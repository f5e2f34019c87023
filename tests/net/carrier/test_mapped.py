"""How a port is seen by STUN servers over TCP: a real coturn, and servers that are none."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import pytest
from aioice import stun

from duetlink.net.carrier.drivers.local_port import LocalPort
from duetlink.net.carrier.drivers.mapped import ask_mapped
from duetlink.net.stun.server_url import ServerUrl
from duetlink.settings import IceServer
from tests.turn_server import TurnServer

Answer = Callable[[bytes], bytes]


def url(text: str) -> ServerUrl:
    return ServerUrl.parse(text, IceServer((text,)))


@asynccontextmanager
async def server(answer: Answer) -> AsyncIterator[ServerUrl]:
    """Answers the first 20 bytes of a connection, and goes on listening to it."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(answer(await reader.readexactly(20)))
        await reader.read()
        writer.close()

    listener = await asyncio.start_server(serve, "127.0.0.1", 0)
    async with listener:
        yield url(f"stun:127.0.0.1:{listener.sockets[0].getsockname()[1]}")


@pytest.fixture
async def port() -> AsyncIterator[LocalPort]:
    port = LocalPort()
    yield port
    port.close()


async def test_a_real_server_tells_the_port_asked_from(turn_server: TurnServer, port: LocalPort) -> None:
    found = await ask_mapped(port, [url(turn_server.tcp)])
    assert found is not None
    mapped, wire = found
    assert mapped == ("127.0.0.1", port.number) == wire.local
    wire.close()


async def test_dead_wrong_and_nonsensical_servers_hide_none_that_works(
    turn_server: TurnServer, port: LocalPort
) -> None:
    silent = server(lambda request: b"")
    wrong = server(lambda request: b"HTTP/1.1 400 Bad Request\r\n\r\n")
    async with silent as one, wrong as other:
        urls = ["stun:127.0.0.1:1", "stun:nowhere.invalid", f"stun:{'a' * 200}", turn_server.udp]
        found = await ask_mapped(port, [one, other, *map(url, urls)])
    assert found is not None
    assert found[0] == ("127.0.0.1", port.number)
    found[1].close()


async def test_no_server_is_no_address(port: LocalPort) -> None:
    assert await ask_mapped(port, []) is None
    assert await ask_mapped(port, [url("stun:127.0.0.1:1")]) is None


def response(request: bytes, **change: object) -> stun.Message:
    message = stun.Message(
        message_method=stun.Method.BINDING,
        message_class=stun.Class.RESPONSE,
        transaction_id=request[8:20],
        attributes={"XOR-MAPPED-ADDRESS": ("203.0.113.7", 4000)},
    )
    for name, value in change.items():
        setattr(message, name, value)
    return message


@pytest.mark.parametrize(
    ("answer", "works"),
    [
        (lambda request: bytes(response(request)), True),
        (lambda request: bytes(response(request, transaction_id=bytes(12))), False),
        (lambda request: bytes(response(request, message_class=stun.Class.ERROR)), False),
        (lambda request: bytes(response(request, attributes={})), False),
        (lambda request: request, False),
        (lambda request: request[:2] + b"\xff\xfc" + request[4:], False),
        (lambda request: request[:2] + b"\x00\x04" + request[4:] + b"\x00\x06\xff\xff", False),
        (lambda request: b"\x40" + request[1:], False),
        (lambda request: bytes(2000), False),
    ],
)
async def test_an_answer_counts_if_it_is_the_answer(port: LocalPort, answer: Answer, works: bool) -> None:
    async with server(answer) as there:
        async with asyncio.timeout(60):
            found = await ask_mapped(port, [there])
        assert (found and found[0]) == (("203.0.113.7", 4000) if works else None)
        if found is not None:
            found[1].close()
