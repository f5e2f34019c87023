"""Compression ratios of one kind of data in a transfer, and the measured outcome of a decision."""

from __future__ import annotations

from duetlink.data.codecs.element import Element
from duetlink.data.tuning.choice import Choice, Key
from duetlink.data.tuning.decision import Decision, Plan
from duetlink.data.tuning.sample import Kind

_FEW = 8  # fewer chunks than this say less about the object than a sample spread over it
_NEWEST = 0.1  # least weight of the latest chunk, since parts of an object differ
_DRIFT = 1.2  # a ratio that moves by more than this factor voids the others; squared after each drift
_SKIPPED = 2  # first chunks of a plan, not counted: buffers still hold chunks of the previous plan
_ENOUGH_S, _ENOUGH_CHUNKS = 0.15, 64  # after either, the rate is known within 3 %
_LEAST_CHUNKS = 10  # required within _ENOUGH_S, so that one delayed chunk does not decide
_BUFFERED_CHUNKS = 16  # as many chunks may sit in buffers if the path never held the sender


class DataProfile:
    """The ratios of each choice for one kind of data in this object, and the plan in force.

    Ratios come first from a sample, then from real chunks.
    """

    def __init__(self, element: Element, kind: Kind) -> None:
        self.element, self.kind = element, kind
        self.choice: Choice | None = None
        self.plan: Plan | None = None
        self.speed: float | None = None  # bytes/s of the path at the time of the decision
        self.due: str | None = ""  # the reason for the next decision; None: no decision is due
        self.look_at = 0  # index of the chunk at which the data are sampled next
        self.ratios: dict[Key, float] = {}
        self.outcomes: dict[Choice, float] = {}  # bytes of arrays per second, on this link as it is
        self.used: set[str] = set()  # codecs by which real chunks were encoded
        self._expected: dict[Key, float] = {}
        self._chunks: dict[Key, int] = {}
        self._drift = _DRIFT

    def encoded(self, key: Key, ratio: float) -> bool:
        """Record the ratio of an encoded chunk; return True if the data have drifted.

        After a drift only this codec's ratio is kept: the others were measured on different data.
        """
        self.used.add(key[0])
        count = self._chunks[key] = self._chunks.get(key, 0) + 1
        expected = self._expected.setdefault(key, self.ratios.get(key, ratio))
        before = ratio if count == 1 else self.ratios[key]
        latest = self.ratios[key] = before + max(_NEWEST, 1 / count) * (ratio - before)
        if count < _FEW or 1 / self._drift <= latest / expected <= self._drift:
            return False
        self._drift **= 2  # data that vary from chunk to chunk must not cause a decision each time
        self.ratios, self._expected, self._chunks = {key: latest}, {key: latest}, {key: 1}
        return True


class Outcome:
    """The rate that a decision achieves, measured over the chunks sent under it.

    It is measured from the first to the latest moment at which the path held the sender, because bytes that
    go into empty buffers at once say nothing about the path's speed.
    """

    def __init__(self, decision: Decision, profile: DataProfile, choice: Choice) -> None:
        self.decision, self.profile, self.choice = decision, profile, choice
        self.rested()

    def rested(self) -> None:
        """Restart the measurement after a pause, when buffers are empty."""
        self._chunks, self._held = 0, False
        self._bytes, self._time_s = 0, 0.0
        self._open_bytes, self._open_s = 0, 0.0  # since the last holding moment

    def sent(self, raw_bytes: int, passed_s: float, held: bool) -> None:
        """Record a chunk; `passed_s` is the time since the chunk before."""
        self._chunks += 1
        if self._chunks <= _SKIPPED:
            return
        self._open_bytes += raw_bytes
        self._open_s += passed_s
        if held:
            if self._held:
                self._bytes += self._open_bytes
                self._time_s += self._open_s
            self._held, self._open_bytes, self._open_s = True, 0, 0.0

    @property
    def rate(self) -> float | None:
        """Bytes of arrays per second; None until enough was sent to judge.

        If the path never held the sender, all that was sent counts.
        """
        size, seconds = (self._bytes, self._time_s) if self._held else (self._open_bytes, self._open_s)
        some = seconds >= _ENOUGH_S and self._chunks >= (_LEAST_CHUNKS if self._held else _BUFFERED_CHUNKS)
        enough = some or self._chunks >= _ENOUGH_CHUNKS
        return size / seconds if enough and seconds > 0 else None
