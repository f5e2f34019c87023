"""A new TCP connection, read in exact amounts until it is authenticated and a protocol takes it over."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from typing import Self, cast

from duetlink.net.stun.address import Address

# bytes that are buffered unread; TCP's flow control stops a stranger from sending more
CAPACITY_BYTES = 2048

_LINGER_NOT = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)  # struct linger: on, 0 s


class TcpConnection(asyncio.BufferedProtocol):
    """A TCP connection. Belongs to its loop; `abort` it unless it was handed over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._room = bytearray(CAPACITY_BYTES)
        self._held_bytes = 0
        self._broken: OSError | None = None
        self._waiting: asyncio.Future[None] | None = None

    @classmethod
    async def adopt(cls, sock: socket.socket) -> Self:
        """Wrap a connected socket, which is closed if this fails."""
        try:
            _, wire = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        except BaseException:
            sock.close()
            raise
        return wire

    async def read(self, size_bytes: int) -> bytes:
        """Return exactly `size_bytes`, at most CAPACITY_BYTES.

        Raises OSError if they cannot arrive any more.
        """
        while self._held_bytes < size_bytes:
            if self._broken is not None:
                raise self._broken
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._take(size_bytes)

    def write(self, data: bytes) -> None:
        """Send without waiting; does nothing if the connection has ended."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Give the connection to `protocol`, which gets the buffered bytes, then all that arrive."""
        assert self._transport is not None
        held = self._take(self._held_bytes)
        self._transport.set_protocol(protocol)
        protocol.connection_made(self._transport)
        if held:
            protocol.data_received(held)
        if self._broken is not None:
            self._loop.call_soon(protocol.connection_lost, self._broken)
        return self._transport

    def abort(self) -> None:
        """End the connection now. Safe to call twice."""
        if self._transport is not None:
            self._transport.abort()

    def reset(self) -> None:
        """Abort with a TCP reset, so that the other side's socket does not linger over undelivered bytes.

        While it lingers, no new connection between the same two addresses is possible.
        """
        if self._transport is not None and (sock := self._transport.get_extra_info("socket")) is not None:
            with contextlib.suppress(OSError):  # it is closed already
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER_NOT)
        self.abort()

    @property
    def local(self) -> Address:
        return self._address("sockname")

    @property
    def peer(self) -> Address:
        return self._address("peername")

    def _address(self, name: str) -> Address:
        assert self._transport is not None
        host, port = (self._transport.get_extra_info(name) or ("", 0))[:2]
        return str(host), int(port)

    def _take(self, size_bytes: int) -> bytes:
        was_full = self._held_bytes == CAPACITY_BYTES
        data = bytes(self._room[:size_bytes])
        self._held_bytes -= size_bytes
        self._room[: self._held_bytes] = self._room[size_bytes : size_bytes + self._held_bytes]
        if was_full and size_bytes and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()
        return data

    def _wake(self) -> None:
        if self._waiting is not None and not self._waiting.done():
            self._waiting.set_result(None)

    # -- asyncio.BufferedProtocol ----------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def get_buffer(self, sizehint: int) -> memoryview:
        return memoryview(self._room)[self._held_bytes :]

    def buffer_updated(self, nbytes: int) -> None:
        self._held_bytes += nbytes
        if self._held_bytes == CAPACITY_BYTES and self._transport is not None:
            self._transport.pause_reading()
        self._wake()

    def connection_lost(self, exc: Exception | None) -> None:
        ended = ConnectionResetError("the other side closed the connection")
        self._broken = exc if isinstance(exc, OSError) else ended
        self._wake()
