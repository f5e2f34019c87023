"""What a transfer knows of one kind of data in its object: which codec makes how much of it."""

from __future__ import annotations

from collections.abc import Iterator

from duetlink.data.codecs.element import Element
from duetlink.data.tuning.choice import Choice, Key
from duetlink.data.tuning.priors import prior
from duetlink.data.tuning.sample import Features, Kind

_FEW = 8  # chunks, which say less than a sample from all over what comes next
_NEWEST = 0.1  # least weight of the latest chunk
_DRIFT = 1.2  # factor by which a ratio may move before the others are looked at again; squared each time


class Subject:
    """Ratios by choice, from a sample of this object and from chunks of it; and what is in force."""

    def __init__(self, element: Element, features: Features) -> None:
        self.element = element
        self.features = features
        self.choice: Choice | None = None
        self.decided = 1.0  # what its choice was thought to make of the data
        self.looked_at = 0  # how many chunks had been chosen when its data were sampled last
        self._sampled: dict[Key, float] = {}
        self._seen: dict[Key, float] = {}
        self._expected: dict[Key, float] = {}
        self._chunks: dict[Key, int] = {}
        self._drift = _DRIFT
        self._sent_with: set[str] = set()

    @property
    def kind(self) -> Kind:
        return self.features.kind

    def ratio(self, key: Key) -> float | None:
        """Of real chunks where there were any, else of the sample; None where neither."""
        seen = self._seen.get(key)
        return self._sampled.get(key) if seen is None else seen

    def ease(self, kind: Kind) -> float:
        """What codecs make of these data as a multiple of what is usual, down to a tenth: the best of those
        that were tried speaks for the others; one that makes nothing of them does not, nor one alone that
        does worse than usual.
        """
        ratios = {**self._sampled, **self._seen}
        eases = [ratio / prior(key, kind).ratio for key, ratio in ratios.items() if ratio < 1]
        least = min(eases, default=1.0)
        return max(0.1, least if len(eases) > 1 else min(1.0, least))

    def seen(self, key: Key) -> bool:
        """Whether a real chunk has been encoded so."""
        return key in self._seen

    def sent_with(self, codec_name: str) -> bool:
        """Whether a real chunk has been encoded by it, at any level."""
        return codec_name in self._sent_with

    def sampled(self, key: Key, ratio: float) -> None:
        """A sample was encoded."""
        self._sampled[key] = ratio

    def encoded(self, key: Key, ratio: float) -> bool:
        """A chunk was encoded; returns whether the data have drifted, so that the others' ratios are void."""
        self._sent_with.add(key[0])
        before = self._seen.get(key, ratio)
        self._chunks[key] = self._chunks.get(key, 0) + 1
        latest = before + max(_NEWEST, 1 / self._chunks[key]) * (ratio - before)
        self._seen[key] = latest
        expected = self._expected.setdefault(key, self._sampled.get(key, ratio))
        if self._chunks[key] < _FEW or 1 / self._drift <= latest / expected <= self._drift:
            return False
        self._drift **= 2  # the parts of an object that differ from chunk to chunk are one kind of data
        self._sampled.clear()
        self._seen, self._expected, self._chunks = {key: latest}, {key: latest}, {key: 1}
        return True


class Subjects:
    """All kinds of data that a transfer has met, and the one that it met last for each element."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, Kind], Subject] = {}
        self._latest: dict[str, Subject] = {}

    def __iter__(self) -> Iterator[Subject]:
        """The latest of each element."""
        return iter(self._latest.values())

    def latest(self, element: Element) -> Subject | None:
        return self._latest.get(element.name)

    def meet(self, element: Element, features: Features) -> Subject:
        """The subject of such data, now the latest of its element."""
        latest = self._latest.get(element.name)
        if latest is not None and latest.features.alike(features):
            return latest
        subject = self._all.setdefault((element.name, features.kind), Subject(element, features))
        self._latest[element.name] = subject
        return subject

    def sent_by(self, choice: Choice) -> Subject | None:
        """One that the choice is in force for, or any, where there is one."""
        latest = list(self)
        in_force = (subject for subject in latest if subject.choice == choice)
        return next(in_force, next(iter(latest), None))
