"""Whose queue is it? Put less in flight for a few rounds, and see what gives way.

By Little's law, in flight = rate x round trip. Whoever owns the whole queue shortens it by all that was
withdrawn, at an unchanged rate. Whoever shares it loses rate, the more the smaller the share. And where
there is no queue at all and only the path is long, the round trip stays as it was.
"""

from __future__ import annotations

from enum import Enum

from duetlink.net.tunnel.path_model import PathModel

WITHDRAWN = 0.75  # of what was in flight stays
LEAST_WITHDRAWN = 0.08  # of what was in flight, for a verdict
OWNS_ALL = (0.85, 1.3)  # more than all: somebody else has withdrawn too
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
        """What was in flight before."""
        return self._rate * self._rtt_s

    def begin(self, model: PathModel) -> None:
        self._rate = model.round_rate
        self._rtt_s = model.round_rtt_s

    def judge(self, model: PathModel) -> Verdict:
        """To be asked when a whole round has passed with less in flight."""
        if not self._rate:
            return Verdict.UNKNOWN
        rate = model.round_rate / self._rate
        inflight = rate * model.round_rtt_s / self._rtt_s
        if inflight > 1 - LEAST_WITHDRAWN:
            return Verdict.UNKNOWN
        own = 1 - (1 - rate) / (1 - inflight)  # what the round trip answered for
        self.share += (min(max(own, 0.0), 1.0) - self.share) / 2
        if own > OWNS_ALL[0]:
            return Verdict.ALONE if own < OWNS_ALL[1] else Verdict.UNKNOWN
        return Verdict.LONGER if own < OWNS_NOTHING else Verdict.SHARED
