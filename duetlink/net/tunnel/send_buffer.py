"""The outgoing stream: bytes at 64-bit positions that are not acknowledged yet, and which of them were lost.

The ring buffer is followed by a copy of its beginning, so that the payload of each datagram is one contiguous
slice.
"""

from __future__ import annotations

import heapq
import math
from collections import deque

import numpy as np
from numpy.lib.stride_tricks import as_strided
from numpy.typing import NDArray

Octets = NDArray[np.uint8]


class SendBuffer:
    """Positions: `acknowledged` <= `sent` <= `end`.

    Bytes written beyond the ring's capacity wait in a queue.
    """

    def __init__(self, capacity_bytes: int, row_bytes: int, start: int) -> None:
        """Use a ring of `capacity_bytes`, from which rows of at most `row_bytes` can be taken."""
        self.acknowledged = start
        self.sent = start
        self._written = start  # position up to which the ring is filled
        self._capacity = capacity_bytes
        self._mirror = row_bytes
        # its pages are used only when the stream first reaches them
        self._ring = np.empty(capacity_bytes + row_bytes, np.uint8)
        self._queue: deque[Octets] = deque()
        self._queued_bytes = 0
        self._lost: list[int] = []  # a heap of positions: the one that the receiver waits for comes first
        self._lost_sizes: dict[int, int] = {}

    @property
    def end(self) -> int:
        return self._written + self._queued_bytes

    @property
    def unsent_bytes(self) -> int:
        return self.end - self.sent

    @property
    def available_bytes(self) -> int:
        """Unsent bytes that `fresh` can return now."""
        return self._written - self.sent

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Append a copy of `data`."""
        octets = np.frombuffer(data, np.uint8)
        if not self._queue:
            taken = self._store(octets)
            octets = octets[taken:]
        if len(octets):
            self._queue.append(octets.copy())
            self._queued_bytes += len(octets)

    def fresh(self, size_bytes: int, most_rows: int, limit: int) -> Octets:
        """Return unsent bytes below `limit` as rows of `size_bytes`, or as one shorter row: a view of the
        ring.

        They count as sent when `advance` is called.
        """
        available = min(self._written, limit) - self.sent
        at = self.sent % self._capacity
        # rows may reach into the copy after the ring, but not beyond it
        rows = min(most_rows, available // size_bytes, (len(self._ring) - at) // size_bytes)
        if rows > 0:
            return self._ring[at : at + rows * size_bytes].reshape(rows, size_bytes)
        return self._ring[at : at + max(0, min(available, size_bytes))].reshape(1, -1)

    def advance(self, count_bytes: int) -> None:
        self.sent += count_bytes

    def release(self, position: int) -> None:
        """Free all bytes below `position`, which the peer has received."""
        if position <= self.acknowledged:
            return
        self.acknowledged = position
        while self._queue:
            taken = self._store(self._queue[0])
            self._queued_bytes -= taken
            if taken < len(self._queue[0]):
                self._queue[0] = self._queue[0][taken:]
                return
            self._queue.popleft()

    # -- retransmission -----------------------------------------------------------------------------------

    @property
    def has_lost(self) -> bool:
        self._tidy()
        return bool(self._lost)

    def lose(self, position: int, size_bytes: int) -> None:
        """Mark bytes that must be sent again."""
        if position not in self._lost_sizes:
            heapq.heappush(self._lost, position)
        self._lost_sizes[position] = max(size_bytes, self._lost_sizes.get(position, 0))

    def found(self, position: int, size_bytes: int) -> None:
        """Unmark bytes that have arrived after all."""
        if size_bytes >= self._lost_sizes.get(position, math.inf):
            del self._lost_sizes[position]

    def again(self, size_bytes: int, most_rows: int) -> tuple[NDArray[np.int64], Octets]:
        """Return positions and rows, of equal size up to `size_bytes`, of lost bytes: a copy."""
        positions: list[int] = []
        row_bytes = 0
        while len(positions) < most_rows and self.has_lost:
            position = self._lost[0]
            lost_bytes = self._lost_sizes[position]
            if positions and min(lost_bytes, size_bytes) != row_bytes:
                break
            heapq.heappop(self._lost)
            del self._lost_sizes[position]
            row_bytes = min(lost_bytes, size_bytes)
            if lost_bytes > row_bytes:
                self.lose(position + row_bytes, lost_bytes - row_bytes)
            positions.append(position)
        found = np.array(positions, np.int64)
        windows = as_strided(self._ring, (self._capacity, row_bytes), (1, 1), writeable=False)
        return found, windows[found % self._capacity]

    def _tidy(self) -> None:
        """Forget lost bytes that the peer has received meanwhile; the ring may hold other bytes there."""
        while self._lost and self._lost[0] < self.acknowledged:
            position = heapq.heappop(self._lost)
            left = position + self._lost_sizes.pop(position, 0) - self.acknowledged
            if left > 0:
                self.lose(self.acknowledged, left)
        while self._lost and self._lost[0] not in self._lost_sizes:
            heapq.heappop(self._lost)

    # -- the ring ------------------------------------------------------------------------------------------

    def _store(self, octets: Octets) -> int:
        """Copy as much as fits to the ring; return how much."""
        taken = min(len(octets), self._capacity - (self._written - self.acknowledged))
        done = 0
        while done < taken:
            at = self._written % self._capacity
            size = min(taken - done, self._capacity - at)
            self._ring[at : at + size] = octets[done : done + size]
            if at < self._mirror:
                shared = min(size, self._mirror - at)
                self._ring[self._capacity + at : self._capacity + at + shared] = octets[done : done + shared]
            self._written += size
            done += size
        return taken
