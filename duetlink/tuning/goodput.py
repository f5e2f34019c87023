"""How many bytes per second a path takes, from when it took them.

The transport has buffers: what it takes at once says nothing about the link. Where it *held* the sender, they
were full. Between two such moments as many bytes have left as were put in, if the buffers did not run empty
in between, which they did not if the sender was held for a good share of the time. So speed is taken from
holding moment to holding moment. A sender that is never held is slower than the link, and its own rate is a
lower bound.
"""

from __future__ import annotations

from collections import deque

_HELD_SHARE = 0.2  # of the time between two moments, for the sender to count as held
_HELD_S = 0.0003
_WINDOW_S = 1.0
_WINDOW_CHUNKS = 8
_RECENT_S = 0.2
_LONG_CHUNK_S = 0.4  # one chunk that took so long is evidence enough
_CHANGE = 2.0
_SETTLED_S = 0.02
_SETTLED_BYTES = 8 << 20
_BUFFER_BYTES = 4 << 20  # what may vanish into buffers without a link behind them


class Goodput:
    """Of one path, as one transfer sees it. `estimate` is None until something is known."""

    def __init__(self, seed: float | None = None) -> None:
        """`seed`: what is known from before, until this transfer has measured itself."""
        self._seed = seed
        self._pieces: deque[tuple[int, float]] = deque()  # between holding moments: bytes, seconds
        self._last_s: float | None = None
        self._anchored = False
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0  # since the last holding moment
        self._free_bytes, self._free_s = 0, 0.0  # since the sender was last held

    @property
    def measured(self) -> float | None:
        """From this transfer alone."""
        total_s = sum(seconds for _, seconds in self._pieces)
        total = sum(size for size, _ in self._pieces)
        if total_s < _SETTLED_S and total < _SETTLED_BYTES:
            return None
        return total / total_s if total_s > 0 else None

    @property
    def estimate(self) -> float | None:
        known = self.measured or self._seed
        floor = self.floor
        # nothing holds the sender: the link may well carry twice that
        return known if floor is None else max(known or 0.0, 2 * floor)

    @property
    def floor(self) -> float | None:
        """What the link carries at least, where the sender is not held; else None."""
        if self._free_bytes <= 2 * _BUFFER_BYTES or self._free_s < _SETTLED_S:
            return None
        return (self._free_bytes - _BUFFER_BYTES) / self._free_s

    def sent(self, wire_bytes: int, elapsed_s: float, now_s: float) -> tuple[bool, bool]:
        """The transport held the sender for `elapsed_s` until `now_s`, and has taken the bytes.

        Returns whether that was a holding moment, and whether the link has changed: by more than a factor of
        two, in which case what was measured before is forgotten.
        """
        passed_s = elapsed_s if self._last_s is None else max(elapsed_s, now_s - self._last_s)
        self._last_s = now_s
        self._bytes += wire_bytes
        self._time_s += passed_s
        self._held_s += elapsed_s
        if elapsed_s < max(_HELD_S, _HELD_SHARE * passed_s):
            self._free_bytes += wire_bytes
            self._free_s += passed_s
            return False, False
        self._free_bytes, self._free_s = 0, 0.0
        anchored = self._anchored and self._held_s >= _HELD_SHARE * self._time_s
        piece = self._bytes, self._time_s
        self._anchored = True
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0
        return True, anchored and self._add(piece)

    def _add(self, piece: tuple[int, float]) -> bool:
        before = self.measured or self._seed
        self._pieces.append(piece)
        recent = self._recent()
        changed = before is not None and recent is not None and not _within(recent[0] / recent[1], before)
        if changed and recent is not None:
            self._seed = None
            self._pieces = deque([recent])
        total_s = sum(seconds for _, seconds in self._pieces)
        while len(self._pieces) > _WINDOW_CHUNKS and total_s - self._pieces[0][1] > _WINDOW_S:
            total_s -= self._pieces.popleft()[1]
        return changed

    def _recent(self) -> tuple[int, float] | None:
        """The latest pieces as one, enough of them to speak of a change."""
        size, seconds = 0, 0.0
        for count, piece in enumerate(reversed(self._pieces), 1):
            size += piece[0]
            seconds += piece[1]
            if (count >= 2 and seconds >= _RECENT_S) or (count == 1 and seconds >= _LONG_CHUNK_S):
                return size, seconds
        return None


def _within(rate: float, other: float) -> bool:
    return other / _CHANGE <= rate <= other * _CHANGE
