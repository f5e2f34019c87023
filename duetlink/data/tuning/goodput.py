"""How many bytes per second a path takes, from when it took them.

The transport has buffers: what it takes at once says nothing about the link. Where it *held* the sender, they
were full. Between two such moments as many bytes have left as were put in, if the buffers did not run empty
in between, which they did not if the sender was held for a good share of the time. So speed is taken from
holding moment to holding moment. A sender that is never held is slower than the link, and its own rate is a
lower bound. So it is where processors may have held it: the receiver takes no more than it can decode.
"""

from __future__ import annotations

_CHANGE = 2.0  # times faster or slower, from which on it is another link: a codec's worth is rarely as steep
_HELD_SHARE = 0.7  # of the time between two moments; less is what the processors were busy with
_HELD_S = 0.0015  # shorter waits are the scheduler's
_MESSAGE_S = 0.01  # what a message may cost on any link, where processors are busy
_LARGE_BYTES = 256 << 10  # of larger ones the link's share is clear all the same
_STRETCH_S = 0.4  # that a figure is taken from: a change is followed in a second, a hiccup is not
_SETTLED_S, _SETTLED_BYTES = 0.02, 8 << 20  # either is enough for a first figure
_BUFFERS_BYTES = 8 << 20  # what may vanish into buffers without a link behind them
_HOPE = 4.0  # times more than a sender that is never held, a link may well carry: the next chunks show it
_PATIENCE_S = 1.0  # of a sender that is never held, after which that is hoped for; each time longer


class Goodput:
    """Of one path, as one transfer sees it. `estimate` is None until something is known."""

    def __init__(self, seed: float | None = None) -> None:
        """`seed`: what is known from before, until this transfer has measured itself."""
        self._seed = seed
        self._latest: float | None = None  # of the latest whole stretch
        self._stretch_bytes, self._stretch_s = 0, 0.0  # of the one that is not whole yet
        self._patience_s = _PATIENCE_S
        self._last_s: float | None = None
        self._anchored = False  # whether a holding moment has begun the piece that leaves now
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0  # of that piece
        self._free_bytes, self._free_s = 0, 0.0  # since the link last held the sender

    @property
    def measured(self) -> float | None:
        """From this transfer alone."""
        size, seconds = self._stretch_bytes, self._stretch_s
        enough = seconds >= _SETTLED_S or size >= _SETTLED_BYTES
        return self._latest or (size / seconds if enough and seconds > 0 else None)

    @property
    def lasting(self) -> bool:
        """Whether what was measured holds beyond this transfer: a receiver that is busy for a moment looks
        like a slow link."""
        return self._latest is not None or self._seed is None or (self.measured or 0.0) >= self._seed

    @property
    def free(self) -> bool:
        """Whether the link has not held the sender for so long that encoding may be what is slow."""
        return self._free_bytes > _BUFFERS_BYTES

    @property
    def estimate(self) -> float | None:
        return self.measured or self._seed

    def sent(self, wire_bytes: int, elapsed_s: float, now_s: float, *, processors: bool = False) -> bool:
        """The transport held the sender for `elapsed_s` until `now_s`, and has taken the bytes. `processors`:
        it may be for them, here or there, that it took so long. Returns whether that was a holding moment.
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
                self._forget(max(known, self._free_bytes / self._free_s * (1.0 if held else _HOPE)))
            return held
        if self.free:  # what was measured before so long a time says little by now
            self._forget(self.estimate)
        elif self._anchored and self._held_s >= _HELD_SHARE * self._time_s:
            self._add(self._bytes, self._time_s)
        self._restart()
        self._anchored = True
        return True

    def rested(self, now_s: float) -> None:
        """The sender kept back by itself until now: that says nothing of the link, and buffers ran empty."""
        self._last_s = now_s
        self._restart()

    def _restart(self) -> None:
        self._anchored = False
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0
        self._free_bytes, self._free_s = 0, 0.0

    def _forget(self, seed: float | None) -> None:
        """What was measured, for what is to be believed instead."""
        self._seed, self._latest = seed, None
        self._stretch_bytes, self._stretch_s = 0, 0.0

    def _add(self, size: int, seconds: float) -> None:
        self._stretch_bytes += size
        self._stretch_s += seconds
        if self._stretch_s >= _STRETCH_S:
            self._latest = self._stretch_bytes / self._stretch_s
            self._stretch_bytes, self._stretch_s = 0, 0.0


def alike(rate: float | None, other: float | None) -> bool:
    """Whether two rates may be of the same link, or nothing is known of either."""
    if rate is None or other is None:
        return rate is other
    return other / _CHANGE <= rate <= other * _CHANGE
