"""How many bytes per second a path takes, from when it took them.

The transport has buffers: what it takes at once says nothing about the link. Where it *held* the sender, they
were full. Between two such moments as many bytes have left as were put in, if the buffers did not run empty
in between, which they did not if the sender was held for a good share of the time. So speed is taken from
holding moment to holding moment. A sender that is never held is slower than the link, and its own rate is a
lower bound. So it is where processors may have held it: the receiver takes no more than it can decode.
"""

from __future__ import annotations

from collections import deque

_HELD_SHARE = 0.7  # of the time between two moments; less is what the processors were busy with
_HELD_S = 0.0015
_MESSAGE_S = 0.01  # what a message may cost on any link, where processors are busy
_LARGE_BYTES = 256 << 10  # of larger ones the link's share is clear all the same
_WINDOW_S = 1.0
_WINDOW_PIECES = 8
_PIECE_S = 0.02  # shorter ones are joined
_RECENT_S = 0.2
_LONG_CHUNK_S = 0.4  # one chunk that took so long is evidence enough
_CHANGE = 2.0
_SETTLED_S = 0.02
_SETTLED_BYTES = 8 << 20
_LASTING_S = 0.25
_SLOWER = 1.25
_BUFFER_BYTES = 4 << 20  # what may vanish into buffers without a link behind them
_HOPE = 2.0  # times more than a sender that is never held, a link may well carry
_LONG_HOPE = 4.0
_PATIENCE_S = 1.0  # after which even that is tried, on a link known to be slower too; each time longer


class Goodput:
    """Of one path, as one transfer sees it. `estimate` is None until something is known."""

    def __init__(self, seed: float | None = None) -> None:
        """`seed`: what is known from before, until this transfer has measured itself."""
        self._seed = self._before = seed
        self._pieces: deque[tuple[int, float]] = deque()  # between holding moments: bytes, seconds
        self._total_bytes, self._total_s = 0, 0.0  # of the pieces
        self._last_s: float | None = None
        self._anchored = False
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0  # since the last holding moment
        self._free_bytes, self._free_s = 0, 0.0  # since the link last held the sender
        self._free_held_s = 0.0  # of which something else, processors, may have held it
        self._patience_s = _PATIENCE_S

    @property
    def measured(self) -> float | None:
        """From this transfer alone."""
        if self._total_s < _SETTLED_S and self._total_bytes < _SETTLED_BYTES:
            return None
        return self._total_bytes / self._total_s if self._total_s > 0 else None

    @property
    def lasting(self) -> bool:
        """Whether what was measured holds beyond this transfer: the beginning of one says little, and a short
        one less where it was slower than those before, for a receiver that is busy looks like a slow link.
        """
        if self._total_s >= _LASTING_S:
            return True
        slower = self._before is not None and self._total_bytes * _SLOWER < self._before * self._total_s
        return self._total_bytes >= _SETTLED_BYTES and not slower

    @property
    def estimate(self) -> float | None:
        known, floor = self.measured or self._seed, self.floor
        if floor is not None and self._processors_held:
            return max(known or 0.0, floor)
        if floor is not None and self._free_s >= self._patience_s:
            return max(known or 0.0, _LONG_HOPE * floor)
        return known if floor is None or (known or 0.0) >= floor else _HOPE * floor

    @property
    def floor(self) -> float | None:
        """What the link carries at least, where it does not hold the sender; else None."""
        if self._free_bytes <= 2 * _BUFFER_BYTES or self._free_s < _SETTLED_S:
            return None
        return (self._free_bytes - _BUFFER_BYTES) / self._free_s

    @property
    def _processors_held(self) -> bool:
        """Whether, rather than free, the sender was held by something that need not be the link."""
        return self._free_held_s >= _HELD_SHARE * self._free_s > 0

    def sent(
        self, wire_bytes: int, elapsed_s: float, now_s: float, *, processors: bool = False
    ) -> tuple[bool, bool]:
        """The transport held the sender for `elapsed_s` until `now_s`, and has taken the bytes. `processors`:
        it may be for them, here or there, that it took so long.

        Returns whether that was a holding moment, and whether the link has changed: by more than a factor of
        two, in which case what was measured before is forgotten.
        """
        passed_s = elapsed_s if self._last_s is None else max(elapsed_s, now_s - self._last_s)
        self._last_s = now_s
        self._bytes += wire_bytes
        self._time_s += passed_s
        clear = elapsed_s >= _MESSAGE_S or wire_bytes >= _LARGE_BYTES
        self._held_s += elapsed_s * clear
        held = clear and elapsed_s >= max(_HELD_S, _HELD_SHARE * passed_s)
        if processors or not held:
            self._free_bytes += wire_bytes
            self._free_s += passed_s
            if held:
                self._free_held_s += elapsed_s
                self._restart()
            return held, self._outgrown()
        if self.floor is not None:  # what was measured before so long a time says little by now
            self._seed = self.estimate
            self._forget()
            self._anchored = False
        if self._free_s >= self._patience_s:
            self._patience_s *= 2
        self._free_bytes, self._free_s, self._free_held_s = 0, 0.0, 0.0
        anchored = self._anchored and self._held_s >= _HELD_SHARE * self._time_s
        piece = self._bytes, self._time_s
        self._restart()
        self._anchored = True
        return True, anchored and self._add(piece)

    def rested(self, now_s: float) -> None:
        """The sender kept back by itself until now: that says nothing of the link, and buffers ran empty."""
        self._last_s = now_s
        self._restart()
        self._free_bytes, self._free_s, self._free_held_s = 0, 0.0, 0.0

    def _restart(self) -> None:
        """What leaves next begins a piece, from the next holding moment on."""
        self._anchored = False
        self._bytes, self._time_s, self._held_s = 0, 0.0, 0.0

    def _outgrown(self) -> bool:
        """Whether the sender, never held, is faster than the link was: then it is another link."""
        floor, before = self.floor, self.measured or self._seed
        if floor is None or (before is not None and floor <= before):
            return False
        self._forget()
        self._anchored = False
        self._seed = floor if self._processors_held else _HOPE * floor
        return before is not None and self._seed > _CHANGE * before

    def _add(self, piece: tuple[int, float]) -> bool:
        before = self.measured or self._seed
        self._keep(piece)
        measured, recent = self.measured, self._recent()
        if before is not None and recent is not None and not _within(recent[0] / recent[1], before):
            newest = self._pieces[-1]  # alone it is certainly of the link as it is now
            self._forget()
            self._keep(newest)
            self._seed = newest[0] / newest[1]
            return True
        if before is not None and measured is not None and not _within(measured, before):
            self._seed = None
            return True
        return False

    def _keep(self, piece: tuple[int, float]) -> None:
        size, seconds = piece
        self._total_bytes += size
        self._total_s += seconds
        if self._pieces and self._pieces[-1][1] < _PIECE_S:
            size += self._pieces[-1][0]
            seconds += self._pieces.pop()[1]
        self._pieces.append((size, seconds))
        while len(self._pieces) > _WINDOW_PIECES and self._total_s - self._pieces[0][1] > _WINDOW_S:
            size, seconds = self._pieces.popleft()
            self._total_bytes -= size
            self._total_s -= seconds

    def _forget(self) -> None:
        self._pieces.clear()
        self._total_bytes, self._total_s = 0, 0.0

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
