"""STUN and TURN servers in this process that say what a test wants them to say, true or not."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from aioice import stun
from aioice.turn import make_integrity_key

Address = tuple[str, int]
# (what was asked, where it arrived, from where) -> what to send, None for silence
Script = Callable[[stun.Message, Address, Address], bytes | None]
Behave = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]

REALM, NONCE = "duetlink", b"nonce-1"


def reply(request: stun.Message, attributes: dict[str, Any] | None = None) -> stun.Message:
    """A success response to `request`."""
    return stun.Message(
        message_method=request.message_method,
        message_class=stun.Class.RESPONSE,
        transaction_id=request.transaction_id,
        attributes=attributes,
    )


def refusal(
    request: stun.Message, code: int, attributes: dict[str, Any] | None = None, key: bytes | None = None
) -> bytes:
    """An error response to `request`, signed by `key`."""
    made = stun.Message(
        message_method=request.message_method,
        message_class=stun.Class.ERROR,
        transaction_id=request.transaction_id,
        attributes={"ERROR-CODE": (code, "as scripted"), **(attributes or {})},
    )
    if key is not None:
        made.add_message_integrity(key)
    return bytes(made)


def truthful(request: stun.Message, at: Address, source: Address) -> bytes:
    """What a plain STUN server says."""
    return bytes(reply(request, {"XOR-MAPPED-ADDRESS": source}))


class _Udp(asyncio.DatagramProtocol):
    def __init__(self, server: FakeUdpServer, at: Address) -> None:
        self.server, self.at = server, at

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Address) -> None:
        self.server.received(data, self.at, addr[:2])


class FakeUdpServer:
    """Listens at every combination of its hosts and ports. A script may send by `send` from any of them."""

    def __init__(self, script: Script) -> None:
        self.script = script
        self.sockets: dict[Address, _Udp] = {}
        self.asked: list[stun.Message] = []

    async def start(self, hosts: tuple[str, ...] = ("127.0.0.1",), ports: int = 1) -> Address:
        """The first address."""
        numbers: list[int] = []
        for index in range(ports):
            numbers.append(await self._listen(hosts[0], 0))
            for host in hosts[1:]:
                await self._listen(host, numbers[index])
        return hosts[0], numbers[0]

    async def _listen(self, host: str, port: int) -> int:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(
            lambda: _Udp(self, (host, port)), local_addr=(host, port)
        )
        at = transport.get_extra_info("sockname")[:2]
        protocol.at = at
        self.sockets[at] = protocol
        return int(at[1])

    def send(self, data: bytes, at: Address, to: Address) -> None:
        self.sockets[at].transport.sendto(data, to)

    def received(self, data: bytes, at: Address, source: Address) -> None:
        self.asked.append(stun.parse_message(data))
        answer = self.script(self.asked[-1], at, source)
        if answer is not None:
            self.send(answer, at, source)

    def stop(self) -> None:
        for protocol in self.sockets.values():
            protocol.transport.close()


@contextlib.asynccontextmanager
async def udp_server(script: Script, **where: Any) -> AsyncIterator[tuple[FakeUdpServer, Address]]:
    server = FakeUdpServer(script)
    address = await server.start(**where)
    try:
        yield server, address
    finally:
        server.stop()


@contextlib.asynccontextmanager
async def bytes_server(
    behave: Behave, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> AsyncIterator[Address]:
    """Does to each connection, by TCP or TLS, what `behave` does; ends when all clients are gone."""
    serving: set[asyncio.Task[Any]] = set()

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        serving.add(task)
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            await behave(reader, writer)
        writer.close()

    server = await asyncio.start_server(serve, host, 0, ssl=tls)
    try:
        yield server.sockets[0].getsockname()[:2]
    finally:
        server.close()
        await asyncio.gather(*serving)


def stream_server(
    script: Script, tls: ssl.SSLContext | None = None, host: str = "127.0.0.1"
) -> contextlib.AbstractAsyncContextManager[Address]:
    """The same as `udp_server` over TCP or TLS."""

    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        at, source = writer.get_extra_info("sockname")[:2], writer.get_extra_info("peername")[:2]
        while True:
            head = await reader.readexactly(4)
            size = int.from_bytes(head[2:], "big")
            body = await reader.readexactly(16 + size)
            answer = script(stun.parse_message(head + body), at, source)
            if answer is not None:
                writer.write(answer)

    return bytes_server(serve, tls, host)


class FakeTurn:
    """A TURN server's script. Its one user is `u` with `p`; `refuse` maps methods to error codes."""

    def __init__(self, refuse: dict[stun.Method, int] | None = None) -> None:
        self.refuse = refuse or {}
        self.stale_answers = 0  # how often a right question is first answered by 438
        self.nonce = NONCE
        self.relayed = ("127.0.0.1", 50000)
        self.sign = True
        self.key = make_integrity_key("u", REALM, "p")
        self.allocations = 0

    def __call__(self, request: stun.Message, at: Address, source: Address) -> bytes | None:
        challenge = {"REALM": REALM, "NONCE": self.nonce}
        if request.message_method == stun.Method.BINDING:
            return truthful(request, at, source)
        if "MESSAGE-INTEGRITY" not in request.attributes or not request.check_message_integrity(self.key):
            return refusal(request, 401, challenge)
        if self.stale_answers:
            self.stale_answers -= 1
            self.nonce = b"nonce-2"
            return refusal(request, 438, {**challenge, "NONCE": self.nonce})
        if code := self.refuse.get(request.message_method):
            return refusal(request, code, key=self.key)
        attributes: dict[str, Any] = {}
        if request.message_method == stun.Method.ALLOCATE:
            self.allocations += 1
            attributes = {
                "XOR-RELAYED-ADDRESS": self.relayed,
                "XOR-MAPPED-ADDRESS": source,
                "LIFETIME": request.attributes["LIFETIME"],
            }
        if request.message_method == stun.Method.REFRESH and request.attributes["LIFETIME"] == 0:
            self.allocations -= 1
        answer = reply(request, attributes)
        if self.sign:
            answer.add_message_integrity(self.key)
        return bytes(answer)
