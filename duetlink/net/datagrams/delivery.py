"""What became of the datagrams that one side sends, from the other side's reports."""

from __future__ import annotations

import struct
from collections import deque
from dataclasses import dataclass

from duetlink.errors import RemoteProtocolError

_WIRE = struct.Struct("!QQQ")

# Over so many reports, one a second, loss and rate are averaged.
_REPORTS = 4


@dataclass(frozen=True, slots=True)
class Report:
    """How far the receiver is: the number after the largest that has come, and how many and how much have."""

    expected: int
    arrived: int
    arrived_bytes: int

    def to_wire(self) -> bytes:
        return _WIRE.pack(self.expected, self.arrived, self.arrived_bytes)

    @classmethod
    def from_wire(cls, data: bytes) -> Report:
        """Raises RemoteProtocolError where it is none, or cannot be true."""
        if len(data) != _WIRE.size:
            raise RemoteProtocolError(f"the peer sent a report of {len(data)} bytes")
        report = cls(*_WIRE.unpack(data))
        if report.arrived > report.expected:
            raise RemoteProtocolError(f"the peer reports {report.arrived} of {report.expected} datagrams")
        return report


class Delivery:
    """The sender's view. Pure: the time comes in."""

    def __init__(self, now_s: float) -> None:
        self._reports: deque[tuple[float, Report]] = deque([(now_s, Report(0, 0, 0))], maxlen=_REPORTS + 1)

    def take(self, report: Report, sent: int, now_s: float) -> None:
        """The peer has reported, when `sent` had been sent. An old report that comes late is left out.

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
        # what was late in one report arrives in the next one
        return min(1.0, max(0.0, 1 - (last.arrived - first.arrived) / expected))

    @property
    def bytes_per_s(self) -> float | None:
        (first_s, first), (last_s, last) = self._reports[0], self._reports[-1]
        if last_s <= first_s:
            return None
        return max(0, last.arrived_bytes - first.arrived_bytes) / (last_s - first_s)
