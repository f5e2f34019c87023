"""Counters that turn into rates. Time is passed in, so that tests decide what time it is."""

from __future__ import annotations

import math


class RateMeter:
    """Bytes counted, and their rate as an exponentially weighted average.

    The average forgets with time constant `tau_s`: after a silence of t seconds a rate r reads as
    r * exp(-t / tau_s).
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
        self._decay(now_s)
        self._rate_bytes_per_s += size_bytes / self._tau_s

    def rate_bytes_per_s(self, now_s: float) -> float:
        """The average rate as of `now_s`."""
        self._decay(now_s)
        return self._rate_bytes_per_s

    def _decay(self, now_s: float) -> None:
        elapsed_s = max(0.0, now_s - self._since_s)
        self._since_s = now_s
        self._rate_bytes_per_s *= math.exp(-elapsed_s / self._tau_s)


class RoundTripMeter:
    """Smoothed round-trip time as TCP keeps it (RFC 6298 §2: gain 1/8), and the least one seen."""

    __slots__ = ("least_s", "smoothed_s")

    def __init__(self) -> None:
        self.smoothed_s: float | None = None
        self.least_s: float | None = None

    def add(self, sample_s: float) -> None:
        """Take one measured round trip."""
        if self.smoothed_s is None or self.least_s is None:
            self.smoothed_s = self.least_s = sample_s
            return
        self.smoothed_s += (sample_s - self.smoothed_s) / 8
        self.least_s = min(self.least_s, sample_s)
