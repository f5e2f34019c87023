"""STUN over TCP or TLS: messages one after another, framed by their own length (RFC 8489 §6.2.2)."""

from __future__ import annotations

import asyncio
import socket
import ssl
from typing import ClassVar, Self

from duetlink.tools.doctor.message import HEADER_BYTES, MAX_MESSAGE_BYTES, Address
from duetlink.tools.doctor.trouble import NoTls
from duetlink.tools.doctor.wire import Wire

CONNECT_TIMEOUT_S = 3.0


class StreamWire(Wire, asyncio.Protocol):
    """A TCP or TLS connection."""

    pauses_s: ClassVar[tuple[float, ...]] = (3600.0,)

    def __init__(self) -> None:
        super().__init__()
        self._buffer = bytearray()

    @classmethod
    async def open(
        cls,
        to: Address,
        tls: ssl.SSLContext | None = None,
        server_hostname: str | None = None,
        *,
        local_port: int | None = None,
    ) -> Self:
        """Connect; with `tls`, to a server that proves to be `server_hostname`. Raises OSError.

        `local_port` is where to connect from, and may be shared with other connections.
        """
        loop = asyncio.get_running_loop()
        sock = socket.socket(socket.AF_INET6 if ":" in to[0] else socket.AF_INET, socket.SOCK_STREAM)
        sock.setblocking(False)
        try:
            if local_port is not None:
                share_port(sock)
                sock.bind(("", local_port))
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await loop.sock_connect(sock, to)
            try:
                async with asyncio.timeout(CONNECT_TIMEOUT_S):
                    _, wire = await loop.create_connection(
                        cls, sock=sock, ssl=tls, server_hostname=server_hostname if tls else None
                    )
            except TimeoutError:
                raise NoTls("the server does not answer in TLS") from None
        except BaseException:
            sock.close()
            raise
        return wire

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self._transport = transport
        self._peer: Address = transport.get_extra_info("peername")[:2]

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        while len(self._buffer) >= 4:
            is_channel_data = self._buffer[0] & 0xC0 == 0x40
            size = int.from_bytes(self._buffer[2:4], "big") + (4 if is_channel_data else HEADER_BYTES)
            size += -size % 4
            if size > MAX_MESSAGE_BYTES:
                self._give_up("the server sent what is no STUN message")
                return
            if len(self._buffer) < size:
                break
            message = bytes(self._buffer[:size])
            del self._buffer[:size]
            self._arrived(message, self._peer)

    def connection_lost(self, exc: Exception | None) -> None:
        self._fail(
            exc if isinstance(exc, OSError) else ConnectionResetError("the server closed the connection")
        )

    def send(self, data: bytes, to: Address) -> None:
        self._transport.write(data)

    def close(self) -> None:
        # not close(): a server that does not read could keep what is unsent, and the socket, for ever
        self._transport.abort()

    def _give_up(self, why: str) -> None:
        self._fail(ConnectionAbortedError(why))
        self._transport.abort()


def share_port(sock: socket.socket) -> None:
    """Let several connections leave from one port; to be called before `bind`."""
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if hasattr(socket, "SO_REUSEPORT"):  # not on Windows, where SO_REUSEADDR is enough
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
