"""How long a round waits for its neighbours, and how fast it sends to each. Pure: the time comes in."""

from __future__ import annotations

import math
from collections import deque

# RFC 6298 §2, for round trips: the mean follows by an eighth, the deviation by a quarter, and four of them
_MEAN, _DEVIATION, _DEVIATIONS = 1 / 8, 1 / 4, 4
_LONGER, _MOST_LONGER = 1.5, 4.0  # than the deadline: what a round counts as that was not ready, or took long
_LEAST_S = 0.005  # what a busy machine keeps a thread waiting

_FIRST_BYTES_PER_S = 4e6  # 32 Mbit/s
_LEAST_BYTES_PER_S = 2e3
_MOST_BYTES_PER_S = 1e9
_GROWTH = 1.1  # of a pace that all arrived by; 2 until the path was seen to be full
_REPORTS = 3
_CAUGHT_UP = 16  # datagrams that are sent at once where the sender did not get its turn,
_CAUGHT_UP_S = 0.01  # or what is due within so long, if that is more
_BELOW = 0.9  # less of the pace than this arrives: the path is full


class Patience:
    """A deadline for rounds, from how long rounds took."""

    def __init__(self, most_s: float) -> None:
        self._most_s = most_s
        self._mean_s: float | None = None
        self._deviation_s = 0.0

    @property
    def wait_s(self) -> float:
        """How long a round may take; the most, before any has been seen."""
        if self._mean_s is None:
            return self._most_s
        return min(self._most_s, max(_LEAST_S, self._mean_s + _DEVIATIONS * self._deviation_s))

    @property
    def mean_s(self) -> float | None:
        """How long rounds take; None before any has been seen."""
        return self._mean_s

    def took(self, duration_s: float) -> None:
        """A round had all it waited for after so long."""
        if self._mean_s is None:
            self._mean_s, self._deviation_s = duration_s, duration_s / 2
        else:
            # of a machine that slept, the round took hours
            duration_s = min(duration_s, _MOST_LONGER * self.wait_s)
            self._deviation_s += _DEVIATION * (abs(duration_s - self._mean_s) - self._deviation_s)
            self._mean_s += _MEAN * (duration_s - self._mean_s)

    def missed(self, duration_s: float) -> None:
        """A round ended after so long, and neighbours that are alive were not ready: wait longer."""
        if self._mean_s is not None:
            duration_s = _LONGER * self.wait_s
        self.took(min(self._most_s, duration_s))


class Pace:
    """How fast to send to one neighbour: as fast as what was sent arrives there, and a little more.

    Loss does not slow it down, since a network may lose a part of everything; but a path that is full spreads
    what it delivers, and the time between two arrivals tells how much it takes.
    """

    def __init__(self) -> None:
        self.bytes_per_s = _FIRST_BYTES_PER_S
        self._is_new = True
        self._delivered: deque[float] = deque(maxlen=_REPORTS)

    def after(self, due_s: float, now_s: float, size_bytes: int) -> float:
        """When the next datagram is due, after one of this size that was due at `due_s` and is sent now.

        What a sleep that was too long has cost is caught up with. Else the neighbour would see less than the
        pace, which would become the pace, and less again.
        """
        takes_s = size_bytes / self.bytes_per_s
        return max(due_s, now_s - max(_CAUGHT_UP_S, _CAUGHT_UP * takes_s)) + takes_s

    def told(self, spacing_s: float, size_bytes: int) -> None:
        """The neighbour says that so much time lay between one datagram of this size and the next."""
        self._delivered.append(size_bytes / spacing_s if spacing_s > 0 else math.inf)
        # the best of the last ones: a receiver that was busy elsewhere reads late
        delivered = max(self._delivered)
        if delivered < _BELOW * self.bytes_per_s:
            self._is_new = False
            self.bytes_per_s = max(_LEAST_BYTES_PER_S, delivered)
        else:
            growth = 2 if self._is_new else _GROWTH
            self.bytes_per_s = min(_MOST_BYTES_PER_S, growth * self.bytes_per_s)
