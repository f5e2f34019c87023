"""A window of received packet numbers: rejects duplicates, and provides the bits of an acknowledgement."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

# Four times what a sender may have in flight, so that only packets that were lost long ago are too old.
WINDOW_PACKETS = 32_768
_MASK = WINDOW_PACKETS - 1


class ReplayWindow:
    """A sliding window over 64-bit packet numbers, as in RFC 4303 §3.4.3, for whole batches."""

    def __init__(self) -> None:
        self.largest = -1
        self._seen = np.zeros(WINDOW_PACKETS, np.bool_)

    def admit(self, numbers: NDArray[np.int64]) -> NDArray[np.bool_]:
        """Return True for each number that is new, and remember it.

        The numbers are authentic and not negative.
        """
        if not len(numbers):
            return np.zeros(0, np.bool_)
        rising = int(numbers[0]) > self.largest and bool((numbers[1:] > numbers[:-1]).all())
        self._advance(max(self.largest, int(numbers.max())))
        # if a batch spans more than the window, only its upper part is accepted
        new = numbers > self.largest - WINDOW_PACKETS
        if not rising:
            new &= ~self._seen[numbers & _MASK]
            first = np.zeros(len(numbers), np.bool_)
            first[np.unique(numbers, return_index=True)[1]] = True
            new &= first
        self._seen[numbers[new] & _MASK] = True
        return new

    def received(self, start: int) -> NDArray[np.bool_]:
        """Return, for each number from `start` to the largest, if it has arrived.

        `start` must be in the window.
        """
        found: NDArray[np.bool_] = self._seen[np.arange(start, self.largest + 1) & _MASK]
        return found

    def _advance(self, largest: int) -> None:
        fresh = largest - self.largest
        if fresh >= WINDOW_PACKETS:
            self._seen[:] = False
        elif fresh > 0:
            self._seen[np.arange(self.largest + 1, largest + 1) & _MASK] = False
        self.largest = largest
