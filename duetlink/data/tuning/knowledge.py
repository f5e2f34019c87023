"""What all transfers of one sending direction know together. Any thread may call."""

from __future__ import annotations

import itertools
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from duetlink.data.codecs.base import Codec
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.registry import codecs
from duetlink.data.tuning.choice import Choice
from duetlink.data.tuning.compression import Compression, role_of
from duetlink.data.tuning.decision import Decision
from duetlink.data.tuning.loading import Loader
from duetlink.data.tuning.priors import choices
from duetlink.data.tuning.speeds import Place, Speeds

_FIRST_PAUSE_S = 10.0
_LONGEST_PAUSE_S = 320.0
_SAME_LINK = 2.0
MUCH_SMALLER = 0.8  # a ratio that makes other data, or another choice, of this one


@dataclass(frozen=True, slots=True)
class _Pause:
    """A choice that made things worse than the model said, on a link of that goodput and for data of which it
    makes that share."""

    until_s: float
    length_s: float
    goodput: float | None
    ratio: float

    def holds(self, now_s: float, goodput: float | None, ratio: float) -> bool:
        other_link = self.goodput and goodput and not 1 / _SAME_LINK <= goodput / self.goodput <= _SAME_LINK
        return now_s < self.until_s and not other_link and ratio > MUCH_SMALLER * self.ratio


class Knowledge:
    """Speeds of codecs, goodput of paths, choices that disappointed, and the configuration."""

    def __init__(
        self,
        compression: Compression,
        available: frozenset[str],
        cpus: int,
        record: Callable[[Decision], None],
        clock: Callable[[], float],
        *,
        workers: int,
        together: bool,
        wanted: Callable[[str], None],
    ) -> None:
        self.compression = compression
        self.available = available
        self.workers = workers
        self.cpus = cpus
        self.together = together
        self.record = record
        self.wanted = wanted
        self.clock = clock
        self.speeds = Speeds()
        self.numbers: Iterator[int] = itertools.count()
        self._goodput: dict[str, float] = {}
        self._pauses: dict[tuple[str, Place], _Pause] = {}
        self._latest: dict[tuple[str, str], Choice] = {}
        self._call_s: dict[str, float] = {}
        self._loader = Loader()
        self._lock = threading.Lock()

    def candidates(self, element: Element) -> list[Choice]:
        """All choices but raw that both sides have and that take such items."""
        there = [codec for codec in codecs() if codec.name in self.available]
        return [choice for codec in there for choice in choices(codec, element, role_of(element))]

    def load(self, codec: Codec) -> None:
        """Make it ready in a while, and let the peer do so, who will have to decode."""
        if self._loader.load(codec):
            self.wanted(codec.name)

    def load_for_peer(self, name: str) -> None:
        """The peer has asked for that codec, which it is about to encode with."""
        codec = next((codec for codec in codecs() if codec.name == name), None)
        if codec is not None and name in self.available:
            self._loader.load(codec)

    def call_s(self, codec: Codec) -> float | None:
        """What a call of its encoder takes beside the items; None where nobody knows yet."""
        with self._lock:
            return self._call_s.get(codec.name)

    def set_call_s(self, codec: Codec, elapsed_s: float) -> None:
        with self._lock:
            self._call_s[codec.name] = elapsed_s

    def goodput(self, path: str) -> float | None:
        """Bytes per second, as measured last."""
        with self._lock:
            return self._goodput.get(path)

    def set_goodput(self, path: str, bytes_per_s: float) -> None:
        with self._lock:
            self._goodput[path] = bytes_per_s

    def latest(self, path: str, element: Element) -> Choice | None:
        """What was chosen last for such items."""
        with self._lock:
            return self._latest.get((path, element.name))

    def set_latest(self, path: str, element: Element, choice: Choice) -> None:
        with self._lock:
            self._latest[path, element.name] = choice

    def pause(self, path: str, place: Place, now_s: float, goodput: float | None, ratio: float) -> None:
        """Do not choose it for a while: longer each time, while the link is the same. `ratio`: of the data at
        hand.
        """
        with self._lock:
            before = self._pauses.get((path, place))
            length_s = _FIRST_PAUSE_S if before is None else min(_LONGEST_PAUSE_S, 2 * before.length_s)
            self._pauses[path, place] = _Pause(now_s + length_s, length_s, goodput, ratio)

    def acquit(self, path: str, place: Place) -> None:
        """It was not the choice that made things worse."""
        with self._lock:
            self._pauses.pop((path, place), None)

    def paused(self, path: str, place: Place, now_s: float, goodput: float | None, ratio: float) -> bool:
        with self._lock:
            pause = self._pauses.get((path, place))
            return pause is not None and pause.holds(now_s, goodput, ratio)

    def link_changed(self) -> None:
        """Forget what the link was like."""
        with self._lock:
            self._goodput.clear()
            self._pauses.clear()
