"""A UDP socket as a datagram port, with the kernel's segmentation and aggregation where available.

Linux cuts one large send into datagrams (UDP_SEGMENT, since 4.18) and joins received ones of equal size
(UDP_GRO, since 5.0), which saves most of the cost per datagram: see de Bruijn, Dumazet, "Optimizing UDP for
content delivery: GSO, pacing and zerocopy", Linux Plumbers 2018.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import struct
import sys
from collections.abc import Callable

import numpy as np

from duetlink.net.tunnel.datagram_port import (
    CHANNEL_HEADER_BYTES,
    MAX_DATAGRAM_BYTES,
    DatagramPort,
    Octets,
    OtherReceiver,
    Received,
    sort_channel_data,
    write_channel_header,
)

_LINUX = sys.platform == "linux"
# numbers from Linux's headers, which Python does not define
_SOL_UDP, _UDP_SEGMENT, _UDP_GRO = 17, 103, 104
_SO_SNDBUFFORCE, _SO_RCVBUFFORCE = 32, 33
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3
_MAX_SEGMENTS = 44  # of the 64 that all kernels allow; 44 datagrams of 1,448 bytes fill one send
_LARGEST_JOINED_BYTES = 4096  # of larger ones too few fit in one send for segmentation to pay

_RECEIVE_BUFFER_BYTES = 8 << 20
_SEND_BUFFER_BYTES = 2 << 20
_ARENA_BYTES = 1 << 20
_LARGEST_RECEIVE_BYTES = 1 << 16
_MIN_STRIDE_BYTES = 2048
_ANCILLARY_BYTES = 64
_MAX_ERRORS = 16  # per call, before control returns to the loop

# While few datagrams arrive, read after this long instead of waking for each, since one ACK can cover
# several. If more than _BUSY_BYTES arrive in that time, they are read at once, because they fill the socket's
# buffer.
_COALESCE_S = 0.0005
_BUSY_BYTES = 128 << 10


class UdpPort(DatagramPort):
    """Owns a UDP socket that is connected to the remote address, or to a TURN server if there is a
    `channel`.
    """

    def __init__(
        self,
        sock: socket.socket,
        *,
        channel: int | None = None,
        on_other: OtherReceiver | None = None,
        offload: bool = True,
    ) -> None:
        """`offload=False` does not use the kernel's segmentation and aggregation, as on systems other than
        Linux.
        """
        sock.setblocking(False)
        self.headroom_bytes = 0 if channel is None else CHANNEL_HEADER_BYTES
        self._sock = sock
        self._channel = channel
        self._on_other = on_other
        self._remote = sock.getpeername()
        self._gso = offload and _LINUX and _has_option(sock, _UDP_SEGMENT)
        self._gro = offload and _LINUX and _set_option(sock, _SOL_UDP, _UDP_GRO, 1)
        _enlarge(sock, socket.SO_RCVBUF, _SO_RCVBUFFORCE, _RECEIVE_BUFFER_BYTES)
        _enlarge(sock, socket.SO_SNDBUF, _SO_SNDBUFFORCE, _SEND_BUFFER_BYTES)
        _forbid_fragments(sock)
        # zeroed once: the unused end of a row holds earlier datagrams, never foreign memory
        self._arena = np.zeros(_ARENA_BYTES, np.uint8)
        self._memory = self._arena.data
        self._received_bytes = 0
        self._poll_timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._closed = False

    @property
    def offload(self) -> bool:
        """True if the kernel segments batches."""
        return self._gso

    def start(
        self,
        loop: asyncio.AbstractEventLoop,
        on_readable: Callable[[], None],
        on_writable: Callable[[], None],
        on_closed: Callable[[Exception | None], None],
    ) -> None:
        self._loop = loop
        self._on_readable = on_readable
        self._on_writable = on_writable
        loop.add_reader(self._sock, self._readable)

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        if self._poll_timer is not None:
            self._poll_timer.cancel()
        if self._loop is not None:
            self._loop.remove_reader(self._sock)
            self._loop.remove_writer(self._sock)
        self._sock.close()

    # -- receiving -----------------------------------------------------------------------------------------

    def _readable(self) -> None:
        self._received_bytes = 0
        self._on_readable()
        if self._closed:
            return
        assert self._loop is not None
        waited = self._poll_timer is not None
        self._poll_timer = None
        if 0 < self._received_bytes < _BUSY_BYTES:
            if not waited:
                self._loop.remove_reader(self._sock)
            self._poll_timer = self._loop.call_later(_COALESCE_S, self._readable)
        elif waited:
            self._loop.add_reader(self._sock, self._readable)

    def receive(self) -> list[Received]:
        found: list[Received] = []
        sizes: list[int] = []  # of the datagrams in the arena from `start`, one stride apart
        start = at = stride = errors = 0
        while not self._closed and errors < _MAX_ERRORS and at + _LARGEST_RECEIVE_BYTES <= _ARENA_BYTES:
            try:
                size, segment = self._receive_into(self._memory[at : at + _LARGEST_RECEIVE_BYTES])
            except BlockingIOError:
                break
            except OSError:  # an ICMP error for an earlier datagram, or the network is down
                errors += 1
                continue
            self._received_bytes += size
            alone = size <= segment
            if not (segment == stride or (alone and size <= stride)):
                self._add(found, start, stride, sizes)
                start, sizes = at, []
                stride = max(segment, _MIN_STRIDE_BYTES) if alone else segment
            sizes += [segment] * (size // segment) + [size % segment] * (size % segment > 0)
            at = start + len(sizes) * stride
        self._add(found, start, stride, sizes)
        return found

    def _receive_into(self, memory: memoryview) -> tuple[int, int]:
        """Return the size of what arrived, and of each datagram in it (the last may be shorter).

        An empty datagram is ignored.
        """
        if not self._gro:
            size = self._sock.recv_into(memory)
            return size, size or 1
        size, ancillary, _, _ = self._sock.recvmsg_into([memory], _ANCILLARY_BYTES)
        for level, kind, data in ancillary:
            if level == _SOL_UDP and kind == _UDP_GRO:
                return size, int.from_bytes(data[:4], sys.byteorder)
        return size, size or 1

    def _add(self, found: list[Received], start: int, stride: int, sizes: list[int]) -> None:
        """Add the rows in the arena from `start`; pass packets that are not the tunnel's to `on_other`."""
        if not sizes:
            return
        rows = self._arena[start : start + len(sizes) * stride].reshape(-1, stride)
        ours, inner, inner_bytes = sort_channel_data(rows, sizes_bytes := np.array(sizes), self._channel)
        if not ours.all():
            for row in np.flatnonzero(~ours):
                if self._on_other is not None:
                    self._on_other(rows[row, : sizes_bytes[row]].tobytes(), self._remote)
            inner, inner_bytes = inner[ours], inner_bytes[ours]
        if len(inner):
            found.append(Received(inner, inner_bytes))

    # -- sending -------------------------------------------------------------------------------------------

    def send(self, rows: Octets) -> int:
        if self._closed:
            return len(rows)
        if self._channel is not None:
            write_channel_header(rows, self._channel)
        if self._gso and len(rows) > 1 and rows.shape[1] <= _LARGEST_JOINED_BYTES:
            return self._send_joined(rows)
        return self._send_each(rows)

    def _send_joined(self, rows: Octets) -> int:
        segment = [(_SOL_UDP, _UDP_SEGMENT, struct.pack("=H", rows.shape[1]))]
        most = min(_MAX_SEGMENTS, MAX_DATAGRAM_BYTES // rows.shape[1])
        sent = 0
        while sent < len(rows):
            part = rows[sent : sent + most]
            try:
                self._sock.sendmsg([part.reshape(-1).data], segment)
            except BlockingIOError:
                self._wait_writable()
                return sent
            except OSError as error:
                taken = self._send_each(part)
                if error.errno in (errno.EIO, errno.EINVAL) and taken:
                    # a network card without checksum offload, or an old kernel: send one by one from now on
                    self._gso = False
                if taken < len(part):
                    return sent + taken
            sent += len(part)
        return sent

    def _send_each(self, rows: Octets) -> int:
        for index, row in enumerate(rows):
            try:
                self._sock.send(row)
            except BlockingIOError:
                self._wait_writable()
                return index
            except OSError:
                # an error of an earlier datagram, or this one cannot be sent: in both cases recovery repeats
                # what is lost
                continue
        return len(rows)

    def _wait_writable(self) -> None:
        assert self._loop is not None
        self._loop.add_writer(self._sock, self._writable)

    def _writable(self) -> None:
        assert self._loop is not None
        self._loop.remove_writer(self._sock)
        self._on_writable()


def _has_option(sock: socket.socket, option: int) -> bool:
    try:
        sock.getsockopt(_SOL_UDP, option)
    except OSError:
        return False
    return True


def _set_option(sock: socket.socket, level: int, option: int, value: int) -> bool:
    try:
        sock.setsockopt(level, option, value)
    except OSError:
        return False
    return True


def _enlarge(sock: socket.socket, option: int, force: int, size_bytes: int) -> None:
    """Ask for a larger buffer, beyond the system's limit if this process may."""
    if sock.getsockopt(socket.SOL_SOCKET, option) < size_bytes and not (
        _LINUX and _set_option(sock, socket.SOL_SOCKET, force, size_bytes)
    ):
        _set_option(sock, socket.SOL_SOCKET, option, size_bytes)


def _forbid_fragments(sock: socket.socket) -> None:
    """Set DF on all datagrams: `mtu.py` finds the size that fits."""
    ipv6 = sock.family == socket.AF_INET6
    if _LINUX:  # PROBE sets DF and ignores ICMP, which can be forged (RFC 8899 §3)
        _set_option(sock, socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
        if ipv6:
            _set_option(sock, socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
    elif sys.platform == "win32":
        _set_option(sock, socket.IPPROTO_IP, 14, 1)  # IP_DONTFRAGMENT
    elif sys.platform == "darwin":
        _set_option(sock, socket.IPPROTO_IPV6 if ipv6 else socket.IPPROTO_IP, 62 if ipv6 else 28, 1)
