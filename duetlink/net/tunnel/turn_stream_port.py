"""ChannelData over a TCP or TLS connection to a TURN server (RFC 8656 §12.5), as a datagram port."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

import numpy as np

from duetlink.net.tunnel.datagram import FIRST_KIND, HEADER_BYTES
from duetlink.net.tunnel.datagram_port import (
    CHANNEL_HEADER_BYTES,
    DatagramPort,
    Octets,
    OtherReceiver,
    Received,
    write_channel_header,
)

_STUN_HEADER_BYTES = 20
_ROW_BYTES = 2048  # datagrams of at most this size share a matrix
_MAX_WAITING_BYTES = 4 << 20  # received and not yet taken; beyond it, TCP slows the server down
# Small, because bytes that wait here and in the kernel delay all that follow, ACKs included.
_WRITE_BUFFER_BYTES = 128 << 10
_TCP_NOTSENT_LOWAT = 25


class TurnStreamPort(DatagramPort, asyncio.Protocol):
    """Takes over an open transport to a TURN server, on which a channel to the peer is bound.

    The port receives the frames of that channel that hold datagrams of the tunnel. All others, mainly STUN,
    are passed to `on_other`. Other users of the transport must write whole frames.
    """

    def __init__(
        self, transport: asyncio.Transport, channel: int, on_other: OtherReceiver | None = None
    ) -> None:
        self.headroom_bytes = CHANNEL_HEADER_BYTES
        self._transport = transport
        self._channel = channel
        self._on_other = on_other
        self._remote = transport.get_extra_info("peername")
        self._unparsed = bytearray()
        self._waiting: list[bytes] = []
        self._waiting_bytes = 0
        self._full = False
        self._reading = True
        self._closed = False
        self._on_closed: Callable[[Exception | None], None] | None = None

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_readable: Callable[[], None],
        on_writable: Callable[[], None],
        on_closed: Callable[[Exception | None], None],
    ) -> None:
        self._on_readable = on_readable
        self._on_writable = on_writable
        self._on_closed = on_closed
        self._transport.set_write_buffer_limits(high=_WRITE_BUFFER_BYTES)
        sock = self._transport.get_extra_info("socket")
        if sock is not None and sys.platform == "linux":
            sock.setsockopt(socket.IPPROTO_TCP, _TCP_NOTSENT_LOWAT, _WRITE_BUFFER_BYTES)
        self._transport.set_protocol(self)
        self._transport.resume_reading()

    def receive(self) -> list[Received]:
        payloads, self._waiting, self._waiting_bytes = self._waiting, [], 0
        if not self._reading:
            self._reading = True
            self._transport.resume_reading()
        found = [_matrix([payload]) for payload in payloads if len(payload) > _ROW_BYTES]
        if small := [payload for payload in payloads if len(payload) <= _ROW_BYTES]:
            found.append(_matrix(small))
        return found

    def send(self, rows: Octets) -> int:
        if self._full:
            return 0
        if not self._closed:
            write_channel_header(rows, self._channel)
            padding = -rows.shape[1] % 4
            # a copy, since a transport may keep what is written
            self._transport.write((np.pad(rows, ((0, 0), (0, padding))) if padding else rows).tobytes())
        return len(rows)

    def close(self) -> None:
        self._closed = True
        self._on_closed = None
        self._transport.close()

    # -- asyncio.Protocol ----------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        self._unparsed += data
        at, size = 0, 0
        while len(self._unparsed) - at >= CHANNEL_HEADER_BYTES:
            first, length = self._unparsed[at], int.from_bytes(self._unparsed[at + 2 : at + 4])
            if first < 4:
                size = end = _STUN_HEADER_BYTES + length
            elif 0x40 <= first < 0x50:  # channel numbers, RFC 8656 §12
                size = CHANNEL_HEADER_BYTES + length
                end = size + -size % 4
            else:
                self._fail(ConnectionError(f"the TURN server sent a frame that starts with byte {first}"))
                return
            if len(self._unparsed) - at < end:
                break
            self._sort(bytes(self._unparsed[at : at + size]))
            at += end
        del self._unparsed[:at]
        if self._waiting_bytes > _MAX_WAITING_BYTES and self._reading:
            self._reading = False
            self._transport.pause_reading()
        if self._waiting and not self._closed:
            self._on_readable()

    def _sort(self, frame: bytes) -> None:
        payload = frame[CHANNEL_HEADER_BYTES:]
        ours = len(payload) >= HEADER_BYTES and payload[0] >= FIRST_KIND
        if ours and int.from_bytes(frame[:2]) == self._channel:
            self._waiting.append(payload)
            self._waiting_bytes += len(payload)
        elif self._on_other is not None:
            self._on_other(frame, self._remote)

    def pause_writing(self) -> None:
        self._full = True

    def resume_writing(self) -> None:
        self._full = False
        if not self._closed:
            self._on_writable()

    def eof_received(self) -> None:
        self._fail(ConnectionError("the TURN server closed the connection"))

    def connection_lost(self, error: Exception | None) -> None:
        self._fail(error or ConnectionError("the connection to the TURN server is closed"))

    def _fail(self, error: Exception) -> None:
        if not self._closed:
            self._closed = True
            self._transport.close()
            if self._on_closed is not None:
                self._on_closed(error)


def _matrix(payloads: list[bytes]) -> Received:
    sizes_bytes = np.array([len(payload) for payload in payloads])
    stride = int(sizes_bytes.max())
    joined = b"".join(payload.ljust(stride, b"\0") for payload in payloads)
    return Received(np.frombuffer(joined, np.uint8).reshape(-1, stride), sizes_bytes)
