"""The incoming stream: pieces at 64-bit positions, in any order, are assembled to contiguous bytes."""

from __future__ import annotations

import bisect

import numpy as np
from numpy.typing import NDArray

Octets = NDArray[np.uint8]

# About as many as a sender would make that leaves a hole before every datagram. More are refused.
_MAX_PIECES = 16_384


class Reassembly:
    """Holds at most `capacity_bytes`. Positions: `taken` <= `complete` <= `limit`.

    All bytes below `complete` have arrived; `take` returns those between `taken` and `complete`. Bytes that
    arrive in order are kept as views of their batch and are copied once, by `take`. The others wait in a ring
    buffer.
    """

    def __init__(self, capacity_bytes: int, start: int) -> None:
        self.taken = start
        self.complete = start
        self._capacity = capacity_bytes
        # its pages are used only when pieces arrive out of order
        self._ring = np.empty(capacity_bytes, np.uint8)
        self._views: list[Octets] = []  # of [taken, taken + _viewed_bytes)
        self._viewed_bytes = 0
        # of the pieces beyond `complete`: sorted, disjoint and not adjacent
        self._starts: list[int] = []
        self._ends: list[int] = []

    @property
    def limit(self) -> int:
        """The position from which on no byte is accepted."""
        return self.taken + self._capacity

    @property
    def ready_bytes(self) -> int:
        return self.complete - self.taken

    @property
    def furthest(self) -> int:
        """The position from which on no byte has arrived."""
        return self._ends[-1] if self._ends else self.complete

    def insert(self, position: int, rows: Octets) -> bool:
        """Add rows of consecutive bytes from `position`; return False if they reach beyond the limit.

        The rows must not be changed until `settle` or `take`.
        """
        end = position + rows.size
        if end > self.limit or (position > self.complete and len(self._starts) >= _MAX_PIECES):
            return False
        if end <= self.complete:
            return True
        if position < self.complete:
            flat = rows.reshape(-1)[self.complete - position :]
            rows, position = flat.reshape(1, -1), self.complete
        if position == self.complete == self.taken + self._viewed_bytes:
            self._views.append(rows)
            self._viewed_bytes += rows.size
            self.complete = end
        else:
            self._store(position, rows.reshape(-1))
            self._note(position, end)
        # pieces that are now contiguous with it
        while self._starts and self._starts[0] <= self.complete:
            self.complete = max(self.complete, self._ends.pop(0))
            del self._starts[0]
        return True

    def settle(self) -> None:
        """Copy all views of batches to the ring, so that the batches' memory can be reused."""
        position = self.taken
        for view in self._views:
            self._store(position, view.reshape(-1))
            position += view.size
        self._views, self._viewed_bytes = [], 0

    def take(self) -> memoryview:
        """Return all complete bytes, in memory that the caller owns."""
        taken = np.empty(self.ready_bytes, np.uint8)
        at = 0
        for view in self._views:
            taken[at : at + view.size].reshape(view.shape)[:] = view
            at += view.size
        while at < len(taken):
            start = (self.taken + at) % self._capacity
            size = min(len(taken) - at, self._capacity - start)
            taken[at : at + size] = self._ring[start : start + size]
            at += size
        self._views, self._viewed_bytes = [], 0
        self.taken = self.complete
        return taken.data

    def _store(self, position: int, octets: Octets) -> None:
        done = 0
        while done < len(octets):
            at = (position + done) % self._capacity
            size = min(len(octets) - done, self._capacity - at)
            self._ring[at : at + size] = octets[done : done + size]
            done += size

    def _note(self, start: int, end: int) -> None:
        """Add a piece and merge it with those that it touches."""
        first = bisect.bisect_left(self._ends, start)
        last = bisect.bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
