"""The time that operations spend waiting for each member, to find the slow ones."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection


class Waiting:
    """The time spent waiting for each member, in seconds. One thread writes at a time; any may read.

    Several waits for one member at the same time count once.
    """

    def __init__(self) -> None:
        self.total_s: dict[int, float] = {}  # of ended waits, by rank
        self._since_s: dict[int, float] = {}
        self._waits: Counter[int] = Counter()

    @property
    def ranks(self) -> tuple[int, ...]:
        """The ranks that are being waited for now."""
        return tuple(sorted(self._since_s))

    def seconds(self, rank: int) -> float:
        """Return the seconds spent waiting for this member, including a wait that still goes on."""
        since_s = self._since_s.get(rank)
        return self.total_s.get(rank, 0.0) + (time.monotonic() - since_s if since_s is not None else 0.0)

    def begin(self, rank: int) -> None:
        if not self._waits[rank]:
            self._since_s[rank] = time.monotonic()
        self._waits[rank] += 1

    def end(self, rank: int) -> None:
        self._waits[rank] -= 1
        if not self._waits[rank]:
            waited_s = time.monotonic() - self._since_s.pop(rank)
            self.total_s[rank] = self.total_s.get(rank, 0.0) + waited_s

    def follow(self, before: Collection[int], after: Collection[int]) -> None:
        """Begin the waits for the ranks that are only in `after`, and end those that are only in `before`."""
        for rank in after:
            if rank not in before:
                self.begin(rank)
        for rank in before:
            if rank not in after:
                self.end(rank)
