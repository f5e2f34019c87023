"""What moved in each second of the last quarter of an hour: written as it moves, so that an idle link costs
nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field, replace

KEPT_S = 15 * 60


@dataclass(slots=True)
class Second:
    """One second in which something moved or was measured. `start_s` is Unix time; bytes count values, and
    as `wire` what was sent for them; `queued_bytes` were still to be sent when the second began.
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
    """Written on the loop thread; any thread may ask."""

    _kept: deque[Second] = field(default_factory=deque)

    def count(
        self, direction: str, size_bytes: int, wire_bytes: int, now_s: float, queued: Callable[[], int]
    ) -> None:
        """`size_bytes` more are there, for which `wire_bytes` moved."""
        second = self._at(now_s, queued)
        if direction == "out":
            second.sent_bytes += size_bytes
            second.sent_wire_bytes += wire_bytes
        else:
            second.received_bytes += size_bytes
            second.received_wire_bytes += wire_bytes

    def round_trip(self, elapsed_s: float, now_s: float, queued: Callable[[], int]) -> None:
        """One round trip was measured; the quickest of a second counts."""
        second = self._at(now_s, queued)
        second.round_trip_s = min(elapsed_s, second.round_trip_s or elapsed_s)

    def since(self, since_s: float) -> tuple[Second, ...]:
        """Copies of the seconds from `since_s` on, oldest first."""
        return tuple(replace(second) for second in list(self._kept) if second.start_s >= since_s)

    def _at(self, now_s: float, queued: Callable[[], int]) -> Second:
        start_s = int(now_s)
        # a clock that is set back adds to the latest second, and does not make one out of order
        if not self._kept or self._kept[-1].start_s < start_s:
            self._kept.append(Second(start_s, queued()))
            while self._kept[0].start_s <= start_s - KEPT_S:
                self._kept.popleft()
        return self._kept[-1]
