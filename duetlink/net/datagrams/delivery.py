"""Loss and delivery rate of the datagrams that one side sends, computed from the receiver's reports."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

from duetlink.errors import RemoteProtocolError

_WIRE = struct.Struct("!QQQ")

# Loss and rate are averaged over this many reports, which come once a second.
_REPORTS = 4


@dataclass(frozen=True, slots=True)
class Report:
    """The receiver's counters: largest number received plus one (`expected`), and how much has arrived."""

    expected: int
    arrived: int
    arrived_bytes: int

    def to_wire(self) -> bytes:
        return _WIRE.pack(self.expected, self.arrived, self.arrived_bytes)

    @classmethod
    def from_wire(cls, data: bytes) -> Report:
        """Parse a report. Raises RemoteProtocolError if it is malformed or contradicts itself."""
        if len(data) != _WIRE.size:
            raise RemoteProtocolError(f"the peer sent a report of {len(data)} bytes")
        report = cls(*_WIRE.unpack(data))
        if report.arrived > report.expected:
            raise RemoteProtocolError(f"the peer reports {report.arrived} of {report.expected} datagrams")
        return report


class Delivery:
    """The sender's view. Pure: the caller passes the time in."""

    def __init__(self, now_s: float) -> None:
        self._reports: deque[tuple[float, Report]] = deque([(now_s, Report(0, 0, 0))], maxlen=_REPORTS + 1)

    def take(self, report: Report, sent: int, now_s: float) -> None:
        """Add a report that arrived when `sent` datagrams had been sent. Reports out of order are ignored.

        Raises:
            RemoteProtocolError: it reports more than was sent.
        """
        if report.expected > sent:
            raise RemoteProtocolError(f"the peer reports {report.expected} datagrams; {sent} were sent")
        _, last = self._reports[-1]
        if report.expected >= last.expected and report.arrived >= last.arrived:
            self._reports.append((now_s, report))

    @property
    def loss(self) -> float | None:
        (_, first), (_, last) = self._reports[0], self._reports[-1]
        expected = last.expected - first.expected
        if not expected:
            return None
        # a datagram that was late in one report is counted in the next, so the difference can be negative
        return min(1.0, max(0.0, 1 - (last.arrived - first.arrived) / expected))

    @property
    def bytes_per_s(self) -> float | None:
        (first_s, first), (last_s, last) = self._reports[0], self._reports[-1]
        if last_s <= first_s:
            return None
        return max(0, last.arrived_bytes - first.arrived_bytes) / (last_s - first_s)
