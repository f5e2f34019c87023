"""CUBIC's window (RFC 9438): how much a loss-based sender would have in flight on this path.

Only the window's growth is here; the caller decides what counts as congestion.
"""

from __future__ import annotations

CUBIC = 0.4  # C of RFC 9438 §4.1, in segments per second cubed
BETA = 0.7  # share of the window that remains after a reduction
RENO_INCREASE = 3 * (1 - BETA) / (1 + BETA)  # §4.3: Reno's rate with this beta, in segments per round
FEWEST_SEGMENTS = 4


class CubicWindow:
    """A window in bytes that grows between reductions as W(t) = C (t - K)³ + W_max."""

    __slots__ = ("_elapsed_s", "_friendly", "_k_s", "_last_s", "_peak", "_segment_bytes", "_segments")

    def __init__(self, window_bytes: float, segment_bytes: int) -> None:
        self._segment_bytes = segment_bytes
        self._segments = max(window_bytes / segment_bytes, FEWEST_SEGMENTS)
        self._peak = self._segments  # W_max
        self._last_s: float | None = None  # time of the last growth since the reduction
        self._elapsed_s = 0.0
        self._k_s = 0.0
        self._friendly = self._segments  # W_est, the window of a Reno flow

    @property
    def bytes(self) -> float:
        return self._segments * self._segment_bytes

    def on_ack(self, acked_bytes: int, now_s: float, rtt_s: float, haste: float = 1.0) -> None:
        """Grow, if the window is what limited the sender. `haste` 2 makes time run at double speed."""
        segments = self._segments
        if self._last_s is None:
            self._last_s = now_s
            self._elapsed_s = 0.0
            self._k_s = ((self._peak - segments) / CUBIC) ** (1 / 3)
            self._friendly = segments
        self._elapsed_s += (now_s - self._last_s) * haste
        self._last_s = now_s
        share = acked_bytes / self._segment_bytes / segments
        target = self._peak + CUBIC * (self._elapsed_s + rtt_s - self._k_s) ** 3
        self._friendly += (RENO_INCREASE if self._friendly < self._peak else 1.0) * share * haste
        if target > segments:
            segments += (min(target, 1.5 * segments) - segments) * share
        self._segments = max(segments, self._friendly)

    def reduce(self) -> None:
        """React to congestion; below the last peak, leave room for new flows (fast convergence, §4.7)."""
        falling = self._segments < self._peak
        self._peak = self._segments * ((1 + BETA) / 2 if falling else 1)
        self._segments = max(self._segments * BETA, FEWEST_SEGMENTS)
        self._peak = max(self._peak, self._segments)
        self._last_s = None
