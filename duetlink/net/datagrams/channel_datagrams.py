"""Datagrams over an unordered WebRTC data channel without retransmission. They use the route that ICE found.

DTLS authenticates and encrypts each packet (RFC 8261). SCTP's congestion control sets the pace, which is
shared with the control channel. The numbering continues from one connection to the next, so a duplicate is
recognised whichever connection it arrives on.
"""

from __future__ import annotations

import asyncio
import struct
import time
from collections import deque
from collections.abc import Callable
from typing import Protocol

import numpy as np

from duetlink.errors import LimitExceeded, LinkClosed, LocalProtocolError, RemoteProtocolError
from duetlink.net.datagrams.base import Datagrams
from duetlink.net.datagrams.delivery import Delivery, Report
from duetlink.net.tunnel.replay import ReplayWindow

_HEADER = struct.Struct("!BQ")  # kind, number (0 for a report)
_DATA, _REPORT = 1, 2

# aiortc cuts what is longer than 1160 bytes into several packets.
MTU_BYTES = 1160 - _HEADER.size

_MOST_WAITING = 256  # datagrams that the program has not received yet
_REPORT_S = 1.0
_MOST_NUMBER = 1 << 62


class DatagramWire(Protocol):
    """The packet channel of one connection, such as the one in `net/peer/unreliable.py`."""

    def send_nowait(self, packet: bytes) -> bool:
        """Send the packet and return True, or drop it and return False if too much is queued."""

    def listen(
        self, on_packet: Callable[[bytes], None], on_violation: Callable[[RemoteProtocolError], None]
    ) -> None:
        """Call `on_packet` for every packet from here on."""


class ChannelDatagrams(Datagrams):
    """Made by the link, which attaches it to one connection after another."""

    def __init__(self, violated: Callable[[RemoteProtocolError], None]) -> None:
        self._violated = violated
        self._wire: DatagramWire | None = None
        self._closed: LinkClosed | None = None
        self._sent = 0
        self._dropped = 0
        self._delivery = Delivery(time.monotonic())
        self._seen = ReplayWindow()
        self._arrived = 0
        self._arrived_bytes = 0
        self._waiting: deque[bytes] = deque(maxlen=_MOST_WAITING)
        self._changed = asyncio.Event()
        self._reporting: asyncio.TimerHandle | None = None

    @property
    def mtu_bytes(self) -> int:
        return MTU_BYTES

    def send(self, payload: bytes) -> None:
        if len(payload) > MTU_BYTES:
            raise LocalProtocolError(
                f"a datagram has at most {MTU_BYTES} bytes, not {len(payload)}; use a stream"
            )
        self._check_open()
        # a dropped datagram gets no number, so that the receiver does not count it as lost
        if self._wire is not None and self._wire.send_nowait(_HEADER.pack(_DATA, self._sent) + payload):
            self._sent += 1
        else:
            self._dropped += 1

    async def receive(self) -> bytes:
        while not self._waiting:
            self._check_open()
            self._changed.clear()
            await self._changed.wait()
        return self._waiting.popleft()

    @property
    def dropped(self) -> int:
        return self._dropped

    @property
    def loss(self) -> float | None:
        return self._delivery.loss

    @property
    def delivered_bytes_per_s(self) -> float | None:
        return self._delivery.bytes_per_s

    def attach(self, wire: DatagramWire) -> None:
        """Continue over another connection."""
        self._wire = wire
        wire.listen(self._received, self._violated)

    def close(self, error: LinkClosed) -> None:
        """Make pending and later calls raise `error`. Safe to call twice."""
        self._closed = self._closed or error
        self._wire = None
        self._changed.set()
        if self._reporting is not None:
            self._reporting.cancel()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise type(self._closed)(str(self._closed))

    def _received(self, packet: bytes) -> None:
        if self._closed is not None:
            return
        try:
            self._take(packet)
        except RemoteProtocolError as error:
            self._violated(error)

    def _take(self, packet: bytes) -> None:
        if not _HEADER.size <= len(packet) <= _HEADER.size + MTU_BYTES:
            raise LimitExceeded(f"the peer sent a datagram of {len(packet)} bytes")
        kind, number = _HEADER.unpack_from(packet)
        payload = packet[_HEADER.size :]
        if kind == _REPORT:
            self._delivery.take(Report.from_wire(payload), self._sent, time.monotonic())
        elif kind != _DATA or number >= _MOST_NUMBER:
            raise RemoteProtocolError(f"the peer sent a datagram of kind {kind} with number {number}")
        elif self._seen.admit(np.array([number], np.int64))[0]:
            self._arrived += 1
            self._arrived_bytes += len(payload)
            self._waiting.append(payload)
            self._changed.set()
            if self._reporting is None:
                self._reporting = asyncio.get_running_loop().call_later(_REPORT_S, self._report)

    def _report(self) -> None:
        """Send a report to the peer. If it is lost, the next one replaces it."""
        self._reporting = None
        report = Report(self._seen.largest + 1, self._arrived, self._arrived_bytes)
        if self._wire is not None:
            self._wire.send_nowait(_HEADER.pack(_REPORT, 0) + report.to_wire())
