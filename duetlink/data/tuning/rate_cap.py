"""Limit the bytes per second that a side sends, by a token bucket."""

from __future__ import annotations

import threading

# After a pause, as many bytes may leave at once as the allowed rate gives in this time.
_BURST_S = 0.1


class RateCap:
    """Computes how long to wait before each chunk. Any thread may ask; all share one bucket."""

    def __init__(self, bytes_per_s: float | None = None) -> None:
        self.rate_bytes_per_s = bytes_per_s  # the cap in force
        self._free_at_s = float("-inf")  # time at which all admitted bytes have left at the allowed rate
        self._lock = threading.Lock()

    def set_rate(self, bytes_per_s: float | None, now_s: float) -> None:
        """Change the cap, also for bytes that were admitted and have not left yet; None removes it."""
        with self._lock:
            owed_bytes = max(0.0, self._free_at_s - now_s) * (self.rate_bytes_per_s or 0.0)
            self.rate_bytes_per_s = bytes_per_s
            self._free_at_s = now_s + owed_bytes / bytes_per_s if bytes_per_s else float("-inf")

    def delay_s(self, wire_bytes: int, now_s: float) -> float:
        """Return the seconds to wait before sending `wire_bytes`, and count them as sent after that."""
        with self._lock:
            if self.rate_bytes_per_s is None:
                return 0.0
            starts_at_s = max(self._free_at_s, now_s - _BURST_S)
            self._free_at_s = starts_at_s + wire_bytes / self.rate_bytes_per_s
            return max(0.0, starts_at_s - now_s)
