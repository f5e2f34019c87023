"""STUN requests and answers (RFC 8489) over UDP, TCP or TLS.

An answer counts only if it has the transaction id of an open request (96 random bits) and comes from the
address to which the request was sent. Everything else that arrives is dropped. Every wait has a limit.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import ssl
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar, Self, TypeVar

from aioice import stun

from duetlink.net.stun.address import Address, family_of
from duetlink.net.stun.message import HEADER_BYTES, MAX_MESSAGE_BYTES, read_message

ASK_TIMEOUT_S = 2.0
CONNECT_TIMEOUT_S = 3.0

_P = TypeVar("_P", bound=asyncio.BaseProtocol)


class NoTls(ConnectionError):
    """A TCP connection was made, but the TLS handshake on it did not finish in time."""


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to one request.

    `round_trip_s` counts from the first sending, so it is exact only if `sendings` is 1.
    """

    message: stun.Message
    source: Address
    round_trip_s: float
    sendings: int


@dataclass(slots=True)
class _OpenRequest:
    answered: asyncio.Future[tuple[stun.Message, Address]]
    source: Address


class StunSocket(ABC):
    """A socket that sends requests. Use it on the loop that it was opened on, and `close` it."""

    # seconds between sendings: RFC 8489 §6.2.1 for UDP; a stream sends once
    pauses_s: ClassVar[tuple[float, ...]]

    def __init__(self) -> None:
        self._open: dict[bytes, _OpenRequest] = {}
        self._broken: OSError | None = None
        self._transport: Any = None

    @abstractmethod
    def send(self, data: bytes, to: Address) -> None:
        """Send one message; drop it if that is not possible."""

    def close(self) -> None:
        """Free the socket. Safe to call twice."""
        # not close(): a server that does not read would keep the unsent bytes, and thus the socket, for ever
        self._transport.abort()

    @property
    def local(self) -> Address:
        host, port = self._transport.get_extra_info("sockname")[:2]
        return str(host), int(port)

    async def ask(self, request: bytes, to: Address, timeout_s: float | None = None) -> Answer:
        """Send `request`, repeat it while the answer is late, and return the answer.

        Raises:
            TimeoutError: there was no answer within `timeout_s` (default ASK_TIMEOUT_S).
            OSError: the network reported that the server cannot be reached.
        """
        if self._broken is not None:
            raise self._broken
        identifier = request[8:HEADER_BYTES]
        answered = asyncio.get_running_loop().create_future()
        self._open[identifier] = _OpenRequest(answered, to)
        started_s, sendings = time.monotonic(), 0
        try:
            async with asyncio.timeout(ASK_TIMEOUT_S if timeout_s is None else timeout_s):
                while True:
                    self.send(request, to)
                    pause_s = self.pauses_s[min(sendings, len(self.pauses_s) - 1)]
                    sendings += 1
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(pause_s):
                            message, source = await asyncio.shield(answered)
                        return Answer(message, source, time.monotonic() - started_s, sendings)
        finally:
            del self._open[identifier]
            answered.cancel()

    def connection_made(self, transport: Any) -> None:
        self._transport = transport

    def _arrived(self, data: bytes, source: Address) -> None:
        message = read_message(data)
        if message is None or message.message_class not in (stun.Class.RESPONSE, stun.Class.ERROR):
            return
        pending = self._open.get(message.transaction_id)
        if pending is None or pending.source != source or pending.answered.done():
            return
        pending.answered.set_result((message, source))

    def _fail(self, error: OSError) -> None:
        self._broken = error
        for pending in self._open.values():
            if not pending.answered.done():
                pending.answered.set_exception(error)


class UdpWire(StunSocket, asyncio.DatagramProtocol):
    """A UDP socket.

    A connected one gets an error if no program listens at the server's port; the other kind can receive from
    any address.
    """

    pauses_s: ClassVar[tuple[float, ...]] = (0.25, 0.5, 0.5, 1.0)

    @classmethod
    async def open(cls, to: Address, *, connected: bool = False) -> Self:
        """Open a socket of the address family of `to`. Raises OSError."""
        anywhere = "::" if family_of(to[0]) == socket.AF_INET6 else "0.0.0.0"
        _, wire = await asyncio.get_running_loop().create_datagram_endpoint(
            cls, local_addr=(anywhere, 0), remote_addr=to if connected else None
        )
        return wire

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._arrived(data, addr[:2])

    def error_received(self, exc: Exception) -> None:
        if isinstance(exc, ConnectionRefusedError):
            self._fail(exc)

    def send(self, data: bytes, to: Address) -> None:
        connected = self._transport.get_extra_info("peername") is not None
        with contextlib.suppress(OSError):
            self._transport.sendto(data, None if connected else to)


class StreamWire(StunSocket, asyncio.Protocol):
    """A TCP or TLS connection on which each message is framed by its own length (RFC 8489 §6.2.2)."""

    pauses_s: ClassVar[tuple[float, ...]] = (3600.0,)

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        self._peer: Address = transport.get_extra_info("peername")[:2]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            is_channel_data = self._buffer[0] & 0xC0 == 0x40
            size = int.from_bytes(self._buffer[2:4], "big") + (4 if is_channel_data else HEADER_BYTES)
            size += -size % 4
            if size > MAX_MESSAGE_BYTES:
                self._fail(
                    ConnectionAbortedError(
                        f"the server sent a message of {size} bytes, which is too long for STUN"
                    )
                )
                self._transport.abort()
                return
            if len(self._buffer) < size:
                break
            message = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._arrived(message, self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        ended = ConnectionResetError("the server closed the connection")
        self._fail(self._broken or (exc if isinstance(exc, OSError) else ended))

    def send(self, data: bytes, to: Address) -> None:
        self._transport.write(data)


async def dial(
    protocol: Callable[[], _P],
    to: Address,
    tls: ssl.SSLContext | None = None,
    name: str = "",
    *,
    sock: socket.socket | None = None,
) -> _P:
    """Connect to `to` over TCP, with `tls` also do a TLS handshake with a server that proves to be `name`.

    Returns the protocol object. `sock` may be a bound socket; it is closed if this fails. Raises OSError,
    NoTls or TimeoutError.
    """
    loop = asyncio.get_running_loop()
    sock = sock or socket.socket(family_of(to[0]), socket.SOCK_STREAM)
    sock.setblocking(False)
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            await loop.sock_connect(sock, to)
        try:
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                _, made = await loop.create_connection(
                    protocol, sock=sock, ssl=tls, server_hostname=name if tls else None
                )
        except TimeoutError:
            raise NoTls("the server does not answer in TLS") from None
    except BaseException:
        sock.close()
        raise
    return made
