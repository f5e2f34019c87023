"""Finds out whose packets are in the queue: send less for a few rounds, and compare before and after.

By Little's law, bytes in flight = rate x round trip. If the whole queue is ours, it becomes shorter by all
that was withdrawn, at an unchanged rate. If we share it, our rate drops, the more the smaller our share. If
there is no queue and only the path is long, the round trip stays the same.
"""

from __future__ import annotations

from enum import Enum

from duetlink.net.tunnel.path_model import PathModel

WITHDRAWN = 0.75  # the share of the bytes in flight that stays
LEAST_WITHDRAWN = 0.08  # the share that must have been withdrawn for a verdict
OWNS_ALL = (0.85, 1.3)  # above 1.3 another flow has withdrawn as well
OWNS_NOTHING = 0.1


class Verdict(Enum):
    ALONE = "the queue was ours"
    SHARED = "the queue is also that of others"
    LONGER = "there was no queue: the path itself is this long"
    UNKNOWN = "too little was withdrawn, or more than we did"


class Withdrawal:
    """Compares the round before with one after; `share` is our part of the queue, averaged over verdicts."""

    __slots__ = ("_rate", "_rtt_s", "share")

    def __init__(self) -> None:
        self._rate = self._rtt_s = 0.0
        self.share = 0.5

    @property
    def before_bytes(self) -> float:
        """Bytes in flight before the withdrawal."""
        return self._rate * self._rtt_s

    def begin(self, model: PathModel) -> None:
        self._rate = model.round_rate
        self._rtt_s = model.round_rtt_s

    def judge(self, model: PathModel) -> Verdict:
        """Return the verdict, after a whole round with less in flight."""
        if not self._rate:
            return Verdict.UNKNOWN
        rate = model.round_rate / self._rate
        inflight = rate * model.round_rtt_s / self._rtt_s
        if inflight > 1 - LEAST_WITHDRAWN:
            return Verdict.UNKNOWN
        own = 1 - (1 - rate) / (1 - inflight)  # the part of the withdrawal that shortened the round trip
        self.share += (min(max(own, 0.0), 1.0) - self.share) / 2
        if own > OWNS_ALL[0]:
            return Verdict.ALONE if own < OWNS_ALL[1] else Verdict.UNKNOWN
        return Verdict.LONGER if own < OWNS_NOTHING else Verdict.SHARED
