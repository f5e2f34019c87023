"""A fresh connection, read in exact pieces until it is known for what it is and a protocol takes it over."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
import sys
from typing import Self, cast

from duetlink.net.stun.address import Address

# what is held of bytes that nobody has asked for; the system holds the rest back from a stranger
CAPACITY_BYTES = 2048

_LINGER_NOT = struct.pack("HH" if sys.platform == "win32" else "ii", 1, 0)  # struct linger: on, 0 s


class TcpConnection(asyncio.BufferedProtocol):
    """TCP. Belongs to its loop; `abort` it unless it was handed over."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._transport: asyncio.Transport | None = None
        self._room = bytearray(CAPACITY_BYTES)
        self._held_bytes = 0
        self._broken: OSError | None = None
        self._waiting: asyncio.Future[None] | None = None

    @classmethod
    async def adopt(cls, sock: socket.socket) -> Self:
        """Upon a connected socket, which is closed where this fails."""
        try:
            _, wire = await asyncio.get_running_loop().create_connection(cls, sock=sock)
        except BaseException:
            sock.close()
            raise
        return wire

    async def read(self, size_bytes: int) -> bytes:
        """The next so many bytes, at most CAPACITY_BYTES. Raises OSError where they cannot come any more."""
        while self._held_bytes < size_bytes:
            if self._broken is not None:
                raise self._broken
            self._waiting = self._loop.create_future()
            await self._waiting
        return self._take(size_bytes)

    def write(self, data: bytes) -> None:
        """Send, some time; nothing happens where the connection has ended."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def hand_over(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        """Put `protocol` in this one's place. It gets what is held, then all that comes."""
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
        """End the connection, now. Again is harmless."""
        if self._transport is not None:
            self._transport.abort()

    def reset(self) -> None:
        """`abort`, and tell the other side by an RST, so that its end does not linger over what it has not
        delivered: until that ends, nothing new between the same two addresses comes about.
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
