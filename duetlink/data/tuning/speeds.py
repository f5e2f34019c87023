"""How fast codecs are on these two machines: measured on real chunks, assumed until then."""

from __future__ import annotations

import statistics
import threading
from typing import Any

from duetlink.data.tuning.choice import Key
from duetlink.data.tuning.priors import known, prior
from duetlink.data.tuning.sample import Kind

SMALL_BYTES = 16 * 1024  # of an array: what codecs take for less is what a call takes
_LEAST_BYTES = 64 * 1024  # of a chunk whose time speaks for larger ones: the last of a column may be short
_NEWEST = 0.3  # weight of the latest chunk
_WHOLE_GAIN = 1.5
_LIMIT = 1024
_MOST_GAIN = 4.5

# (codec, level), name of the element, kind of data
Place = tuple[Key, str, Kind]


class Speeds:
    """Of one direction of a link. Bytes of arrays per second, of one worker. Any thread may call."""

    def __init__(self) -> None:
        self._encode: dict[Place, float] = {}
        self._decode: dict[tuple[str, Kind], float] = {}
        self._tried: dict[Place, float] = {}
        self._gains: dict[Place, float] = {}  # how many times faster than the table says
        self._machine = 1.0  # what is typical of those that were measured here
        self._lock = threading.Lock()

    def encode(self, place: Place) -> float:
        with self._lock:
            if (measured := self._encode.get(place)) is not None:
                return measured
            tried = self._tried.get(place)
            if tried is not None and not known(place[0]):
                return tried
            assumed = prior(place[0], place[2]).encode * self._machine
            # 64 KiB run slower than a chunk does, but not that much slower
            return assumed if tried is None else max(tried, min(assumed, _WHOLE_GAIN * tried))

    def decode(self, key: Key, kind: Kind) -> float:
        with self._lock:
            return self._decode.get((key[0], kind)) or prior(key, kind).decode

    def decode_measured(self, key: Key, kind: Kind) -> bool:
        """Whether the peer has told."""
        with self._lock:
            return (key[0], kind) in self._decode

    def tried(self, place: Place, bytes_per_s: float) -> None:
        """A sample was encoded at that speed."""
        with self._lock:
            _keep(self._tried, place, bytes_per_s)

    def encoded(self, place: Place, size_bytes: int, elapsed_s: float) -> None:
        """A chunk was encoded."""
        if size_bytes < _LEAST_BYTES or elapsed_s <= 0:
            return
        with self._lock:
            speed = _average(self._encode, place, size_bytes / elapsed_s)
            if known(place[0]):
                _keep(self._gains, place, speed / prior(place[0], place[2]).encode)
                self._machine = _typical(list(self._gains.values()))

    def decoded(self, codec: str, kind: Kind, size_bytes: int, elapsed_s: float) -> None:
        """The peer has decoded a chunk."""
        if not size_bytes or elapsed_s <= 0:
            return
        with self._lock:
            _average(self._decode, (codec, kind), size_bytes / elapsed_s)


def _typical(gains: list[float]) -> float:
    """The median, drawn to 1 where it is of few codecs: each differs from the table in its own way."""
    median = min(_MOST_GAIN, max(1 / _MOST_GAIN, statistics.median(gains)))
    return float(median ** (len(gains) / (len(gains) + 1)))


def _average(table: dict[Any, float], place: Any, speed: float) -> float:
    before = table.get(place)
    # of the times, not of the speeds: one quick chunk says less than one slow one
    latest = speed if before is None else 1 / (_NEWEST / speed + (1 - _NEWEST) / before)
    _keep(table, place, latest)
    return latest


def _keep(table: dict[Any, float], place: Any, value: float) -> None:
    table.pop(place, None)
    table[place] = value
    if len(table) > _LIMIT:
        del table[next(iter(table))]
