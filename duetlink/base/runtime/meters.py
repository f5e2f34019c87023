"""Counters that turn into rates. Time is passed in, so that tests control it."""

from __future__ import annotations

import math
import statistics
from collections import deque


class RateMeter:
    """Counts bytes and computes their rate as an exponentially weighted average.

    The average forgets with time constant `tau_s`: after a silence of t seconds a rate r reads as r * exp(-t
    / tau_s), and as 0 after two time constants, so that a finished transfer shows no rate.
    """

    __slots__ = ("_rate_bytes_per_s", "_since_s", "_tau_s", "total_bytes")

    def __init__(self, now_s: float, tau_s: float = 2.0) -> None:
        self._tau_s = tau_s
        self._since_s = now_s
        self._rate_bytes_per_s = 0.0
        self.total_bytes = 0

    def add(self, size_bytes: int, now_s: float) -> None:
        """Count `size_bytes` that arrived or left by `now_s`."""
        self.total_bytes += size_bytes
        self._rate_bytes_per_s = self.rate_bytes_per_s(now_s) + size_bytes / self._tau_s
        self._since_s = now_s

    def rate_bytes_per_s(self, now_s: float) -> float:
        """Return the average rate at `now_s`. Changes nothing: any thread may call."""
        elapsed_s = max(0.0, now_s - self._since_s)
        if elapsed_s > 2 * self._tau_s:
            return 0.0
        return self._rate_bytes_per_s * math.exp(-elapsed_s / self._tau_s)


class RoundTripMeter:
    """The median of the last nine round trips, so that a single delayed one does not count."""

    __slots__ = ("_recent_s",)

    def __init__(self) -> None:
        self._recent_s: deque[float] = deque(maxlen=9)

    def add(self, sample_s: float) -> None:
        self._recent_s.append(sample_s)

    @property
    def typical_s(self) -> float | None:
        """The median in seconds; None before the first measurement."""
        return statistics.median_low(self._recent_s) if self._recent_s else None
