"""The deadline of a round, and the pace of sending to each neighbour. Pure: the time is passed in."""

from __future__ import annotations

import math
from collections import deque

# RFC 6298 §2: the mean moves by an eighth, the deviation by a quarter; the deadline is four deviations away
_MEAN, _DEVIATION, _DEVIATIONS = 1 / 8, 1 / 4, 4
_LONGER, _MOST_LONGER = (
    1.5,
    4.0,
)  # factors of the deadline: how long a round that missed it, or that took very long, counts
_LEAST_S = 0.005  # the delay of a thread on a busy machine

_FIRST_BYTES_PER_S = 4e6  # 32 Mbit/s
_LEAST_BYTES_PER_S = 2e3
_MOST_BYTES_PER_S = 1e9
_GROWTH = 1.1  # of the pace, while everything arrives; 2 until the path was full for the first time
_REPORTS = 3
_CAUGHT_UP = 16  # datagrams sent at once when the sender is late,
_CAUGHT_UP_S = 0.01  # or those due within this time, if they are more
_BELOW = 0.9  # the path is full if less than this share of the pace arrives


class Patience:
    """A deadline for rounds, estimated from the durations of earlier ones."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._mean_s: float | None = None
        self._deviation_s = 0.0

    @property
    def wait_s(self) -> float:
        """The longest that a round may take; the maximum before the first round."""
        if self._mean_s is None:
            return self._most_s
        return min(self._most_s, max(_LEAST_S, self._mean_s + _DEVIATIONS * self._deviation_s))

    @property
    def mean_s(self) -> float | None:
        """The mean duration of rounds; None before the first one."""
        return self._mean_s

    def took(self, duration_s: float) -> None:
        """Note that a round was complete after `duration_s`."""
        if self._mean_s is None:
            self._mean_s, self._deviation_s = duration_s, duration_s / 2
        else:
            # on a machine that slept, a round takes hours
            duration_s = min(duration_s, _MOST_LONGER * self.wait_s)
            self._deviation_s += _DEVIATION * (abs(duration_s - self._mean_s) - self._deviation_s)
            self._mean_s += _MEAN * (duration_s - self._mean_s)

    def missed(self, duration_s: float) -> None:
        """Note that a round ended although living neighbours were not ready: wait longer next time."""
        if self._mean_s is not None:
            duration_s = _LONGER * self.wait_s
        self.took(min(self._most_s, duration_s))


class Pace:
    """The rate of sending to one neighbour: a little more than what arrives there.

    Loss does not reduce it, since a network may lose a share of everything. But a full path spreads out what
    it delivers, and the time between two arrivals shows its capacity.
    """

    def __init__(self) -> None:
        self.bytes_per_s = _FIRST_BYTES_PER_S
        self._is_new = True
        self._delivered: deque[float] = deque(maxlen=_REPORTS)

    def after(self, due_s: float, now_s: float, size_bytes: int) -> float:
        """Return the time of the next datagram, after one of this size that was due at `due_s` and is sent
        now.

        Time lost in a sleep that was too long is made up for. Otherwise the neighbour would see less than the
        pace, which would become the new pace, and so on down.
        """
        takes_s = size_bytes / self.bytes_per_s
        return max(due_s, now_s - max(_CAUGHT_UP_S, _CAUGHT_UP * takes_s)) + takes_s

    def report_spacing(self, spacing_s: float, size_bytes: int) -> None:
        """Adjust to the neighbour's report: the time between two datagrams of this size at its end."""
        self._delivered.append(size_bytes / spacing_s if spacing_s > 0 else math.inf)
        # the best of the last reports: a busy receiver reads late
        delivered = max(self._delivered)
        if delivered < _BELOW * self.bytes_per_s:
            self._is_new = False
            self.bytes_per_s = max(_LEAST_BYTES_PER_S, delivered)
        else:
            growth = 2 if self._is_new else _GROWTH
            self.bytes_per_s = min(_MOST_BYTES_PER_S, growth * self.bytes_per_s)
