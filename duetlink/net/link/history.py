"""Bytes per second over the last 15 minutes.

Entries are written only when bytes move: an idle link costs nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

KEPT_S = 15 * 60


@dataclass(slots=True)
class Second:
    """One second in which bytes moved or a round trip was measured.

    `start_s` is Unix time. `sent_bytes` and `received_bytes` count values as they are in memory; the `wire`
    fields count the bytes that were sent for them. `queued_bytes` were waiting to be sent when the second
    began.
    """

    start_s: int
    queued_bytes: int = 0
    sent_bytes: int = 0
    received_bytes: int = 0
    sent_wire_bytes: int = 0
    received_wire_bytes: int = 0
    round_trip_s: float | None = None


@dataclass(slots=True)
class Seconds:
    """Written on the loop thread; any thread may read."""

    _kept: deque[Second] = field(default_factory=deque)

    def count(
        self, direction: str, size_bytes: int, wire_bytes: int, now_s: float, queued: Callable[[], int]
    ) -> None:
        """Add `size_bytes` of values, for which `wire_bytes` moved; `direction` is "in" or "out"."""
        second = self._at(now_s, queued)
        if direction == "out":
            second.sent_bytes += size_bytes
            second.sent_wire_bytes += wire_bytes
        else:
            second.received_bytes += size_bytes
            second.received_wire_bytes += wire_bytes

    def round_trip(self, elapsed_s: float, now_s: float, queued: Callable[[], int]) -> None:
        """Add a measured round trip. Each second keeps its shortest."""
        second = self._at(now_s, queued)
        second.round_trip_s = min(elapsed_s, second.round_trip_s or elapsed_s)

    def since(self, since_s: float) -> tuple[Second, ...]:
        """Return copies of the seconds from `since_s` (Unix time) on, oldest first."""
        return tuple(replace(second) for second in list(self._kept) if second.start_s >= since_s)

    def _at(self, now_s: float, queued: Callable[[], int]) -> Second:
        start_s = int(now_s)
        # if the clock was set back, add to the latest second, so that the order stays
        if not self._kept or self._kept[-1].start_s < start_s:
            self._kept.append(Second(start_s, queued()))
            while self._kept[0].start_s <= start_s - KEPT_S:
                self._kept.popleft()
        return self._kept[-1]
