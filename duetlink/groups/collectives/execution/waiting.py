"""For whom operations wait: who is slow, now and over an epoch."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection


class Waiting:
    """Time that is waited for each member. One thread writes at a time; any may read.

    Several waits for one member at once count once.
    """

    def __init__(self) -> None:
        self.total_s: dict[int, float] = {}  # waits that are over, by rank
        self._since_s: dict[int, float] = {}
        self._waits: Counter[int] = Counter()

    @property
    def ranks(self) -> tuple[int, ...]:
        """Those who are waited for now."""
        return tuple(sorted(self._since_s))

    def seconds(self, rank: int) -> float:
        """So long this member has been waited for, the wait that goes on included."""
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
        """Those of `before` were waited for; those of `after` are."""
        for rank in after:
            if rank not in before:
                self.begin(rank)
        for rank in before:
            if rank not in after:
                self.end(rank)
