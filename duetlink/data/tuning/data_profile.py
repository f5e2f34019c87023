"""What a transfer knows of one kind of data in its object, and what a decision for them brought."""

from __future__ import annotations

from duetlink.data.codecs.element import Element
from duetlink.data.tuning.choice import Choice, Key
from duetlink.data.tuning.decision import Decision, Plan
from duetlink.data.tuning.sample import Kind

_FEW = 8  # chunks, which say less than a sample from all over what comes next
_NEWEST = 0.1  # least weight of the latest chunk: the parts of an object waver
_DRIFT = 1.2  # factor by which a ratio may move before the others are void; squared each time
_SKIPPED = 2  # chunks that still meet the buffers that their predecessors left
_ENOUGH_S, _ENOUGH_CHUNKS = 0.15, 64  # either says what a decision brings within 3 %
_LEAST_CHUNKS = 10  # in that time: each of few may have met a hiccup
_BUFFERED_CHUNKS = 16  # that buffers may have swallowed, where the path never held the sender


class DataProfile:
    """Ratios by choice, from a sample of this object and from chunks of it, and the plan in force."""

    def __init__(self, element: Element, kind: Kind) -> None:
        self.element, self.kind = element, kind
        self.choice: Choice | None = None
        self.plan: Plan | None = None
        self.speed: float | None = None  # of the path, when it was decided
        self.due: str | None = ""  # why to decide anew; None: no reason to
        self.look_at = 0  # how many chunks have been chosen when the data are to be sampled next
        self.ratios: dict[Key, float] = {}
        self.outcomes: dict[Choice, float] = {}  # bytes of arrays per second, on this link as it is
        self.used: set[str] = set()  # codecs by which real chunks were encoded
        self._expected: dict[Key, float] = {}
        self._chunks: dict[Key, int] = {}
        self._drift = _DRIFT

    def encoded(self, key: Key, ratio: float) -> bool:
        """A chunk was encoded; returns whether the data have drifted, so that the others' ratios are void."""
        self.used.add(key[0])
        count = self._chunks[key] = self._chunks.get(key, 0) + 1
        expected = self._expected.setdefault(key, self.ratios.get(key, ratio))
        before = ratio if count == 1 else self.ratios[key]
        latest = self.ratios[key] = before + max(_NEWEST, 1 / count) * (ratio - before)
        if count < _FEW or 1 / self._drift <= latest / expected <= self._drift:
            return False
        self._drift **= 2  # the parts of an object that differ from chunk to chunk are one kind of data
        self.ratios, self._expected, self._chunks = {key: latest}, {key: latest}, {key: 1}
        return True


class Outcome:
    """What a decision really brings, over the chunks sent under it: from the first moment at which the path
    held the sender to the latest, for what buffers take at once is not speed."""

    def __init__(self, decision: Decision, profile: DataProfile, choice: Choice) -> None:
        self.decision, self.profile, self.choice = decision, profile, choice
        self.rested()

    def rested(self) -> None:
        """What comes now begins with empty buffers, and is timed anew."""
        self._chunks, self._held = 0, False
        self._bytes, self._time_s = 0, 0.0
        self._open_bytes, self._open_s = 0, 0.0  # since the last holding moment

    def sent(self, raw_bytes: int, passed_s: float, held: bool) -> None:
        """`passed_s` since the chunk before."""
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
        """Bytes of arrays per second; None until there is enough to judge by. A sender that is never held
        is judged by all that it sent."""
        size, seconds = (self._bytes, self._time_s) if self._held else (self._open_bytes, self._open_s)
        some = seconds >= _ENOUGH_S and self._chunks >= (_LEAST_CHUNKS if self._held else _BUFFERED_CHUNKS)
        enough = some or self._chunks >= _ENOUGH_CHUNKS
        return size / seconds if enough and seconds > 0 else None
