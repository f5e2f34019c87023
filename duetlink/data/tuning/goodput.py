"""Measure how many bytes per second a path carries.

The transport has buffers: bytes that it takes at once say nothing about the link. If it *held* (blocked) the
sender, the buffers were full. Between two such moments as many bytes have left as were put in, provided that
the buffers did not run empty in between; they did not if the sender was held for most (70 %) of the time. So
the speed is measured from one holding moment to the next. A sender that is never held is slower than the
link, and its own rate is a lower bound. The same holds if processors may have held it: a receiver takes no
more than it can decode.
"""

from __future__ import annotations

_CHANGE = 2.0  # a link that is this many times faster or slower may need another codec; less rarely matters
_HELD_SHARE = 0.7  # least share of the time that the sender was held; with less, processors were the limit
_HELD_S = 0.0015  # shorter waits are due to the scheduler
_MESSAGE_S = 0.01  # a message may take this long on any link while processors are busy
_LARGE_BYTES = 256 << 10  # for larger messages the link's share of the time is clear in any case
_INTERVAL_S = 0.4  # measuring interval: a change is followed within a second, a hiccup is not
_SETTLED_S, _SETTLED_BYTES = 0.02, 8 << 20  # either is enough for a first figure
_BUFFERS_BYTES = 8 << 20  # as much may disappear into buffers
_OPTIMISM = (
    4.0  # assume a link this many times faster than a sender that is never held; the next chunks test it
)
_PATIENCE_S = 1.0  # time without being held after which _OPTIMISM is assumed; doubled each time


class Goodput:
    """The goodput of one path, in bytes per second, as one transfer measures it."""

    def __init__(self, seed: float | None = None) -> None:
        """Start from `seed`, an earlier estimate, which counts until this transfer has measured itself."""
        self._seed = seed
        self._latest: float | None = None  # rate of the latest complete interval
        self._interval_bytes, self._interval_s = 0, 0.0  # of the interval in progress
        self._patience_s = _PATIENCE_S
        self._last_s: float | None = None
        self._anchored = False  # the bytes below began at a holding moment
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0  # since that moment
        self._free_bytes, self._free_s = 0, 0.0  # since the link last held the sender

    @property
    def measured(self) -> float | None:
        """The rate that this transfer alone measured; None before it has."""
        size, seconds = self._interval_bytes, self._interval_s
        enough = seconds >= _SETTLED_S or size >= _SETTLED_BYTES
        return self._latest or (size / seconds if enough and seconds > 0 else None)

    @property
    def lasting(self) -> bool:
        """True if the measurement should be kept for later transfers.

        A lower rate than the seed is kept only after a whole measuring interval: a receiver that is busy for
        a moment looks like a slow link.
        """
        return self._latest is not None or self._seed is None or (self.measured or 0.0) >= self._seed

    @property
    def free(self) -> bool:
        """True if so much was sent without being held that encoding, not the link, may be the slow part."""
        return self._free_bytes > _BUFFERS_BYTES

    @property
    def estimate(self) -> float | None:
        return self.measured or self._seed

    def sent(self, wire_bytes: int, elapsed_s: float, now_s: float, *, processors: bool = False) -> bool:
        """Record that the transport held the sender for `elapsed_s` until `now_s` and has taken the bytes.

        With `processors`, the time may be due to the processors of either side. Returns True if this was a
        holding moment.
        """
        passed_s = elapsed_s if self._last_s is None else max(elapsed_s, now_s - self._last_s)
        self._last_s = now_s
        clear = elapsed_s >= _MESSAGE_S or wire_bytes >= _LARGE_BYTES
        held = clear and elapsed_s >= max(_HELD_S, _HELD_SHARE * passed_s)
        self._bytes += wire_bytes
        self._time_s += passed_s
        self._held_s += elapsed_s * clear
        if not held or processors:
            self._free_bytes += wire_bytes
            self._free_s += passed_s
            self._anchored &= not held
            known = self.estimate or 0.0
            impatient = self._free_s >= self._patience_s
            more = self._free_bytes > known * self._free_s + _BUFFERS_BYTES and self._free_s >= _SETTLED_S
            if more or (impatient and not held):
                self._patience_s *= 2 if impatient else 1
                self._forget(max(known, self._free_bytes / self._free_s * (1.0 if held else _OPTIMISM)))
            return held
        if self.free:  # the measurement is too old by now
            self._forget(self.estimate)
        elif self._anchored and self._held_s >= _HELD_SHARE * self._time_s:
            self._add(self._bytes, self._time_s)
        self._restart()
        self._anchored = True
        return True

    def rested(self, now_s: float) -> None:
        """Restart the measurement after the sender paused until `now_s`: buffers have run empty."""
        self._last_s = now_s
        self._restart()

    def _restart(self) -> None:
        self._anchored = False
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0
        self._free_bytes, self._free_s = 0, 0.0

    def _forget(self, seed: float | None) -> None:
        self._seed, self._latest = seed, None
        self._interval_bytes, self._interval_s = 0, 0.0

    def _add(self, size: int, seconds: float) -> None:
        self._interval_bytes += size
        self._interval_s += seconds
        if self._interval_s >= _INTERVAL_S:
            self._latest = self._interval_bytes / self._interval_s
            self._interval_bytes, self._interval_s = 0, 0.0


def alike(rate: float | None, other: float | None) -> bool:
    """Return True if two rates differ by less than a factor of two, or both are unknown."""
    if rate is None or other is None:
        return rate is other
    return other / _CHANGE <= rate <= other * _CHANGE
