"""The measurements that all transfers of one sending direction of a link share.

    controller = CodecController(tuner, "scans", "tcp", size_bytes, now_s)
    choice = controller.choose(chunk, element, now_s)        # before each chunk is encoded
    ...
    controller.sent(raw_bytes, wire_bytes, held_s, now_s)    # after the transport has taken it

A `CodecController` samples the data (`sample.py`), tries codecs on the sample, and takes the least cost of a
model (`model.py`). It decides again when the link's goodput (`goodput.py`) or the data have changed. Codecs'
libraries are loaded on a thread of their own.
"""

from __future__ import annotations

import itertools
import logging
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from duetlink.data.codecs.base import Codec
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.registry import codecs
from duetlink.data.tuning.choice import Choice, Key
from duetlink.data.tuning.compression import Compression, role_of
from duetlink.data.tuning.decision import Decision
from duetlink.data.tuning.priors import choices
from duetlink.data.tuning.sample import Kind

_logger = logging.getLogger(__name__)

SMALL_BYTES = 16 * 1024  # for smaller arrays, the fixed cost of a call dominates a codec's time
_LEAST_BYTES = 64 * 1024  # smaller chunks, such as the last one of a column, do not count as a measurement
_NEWEST = 0.3  # weight of the latest chunk: after six chunks, nine tenths of the average is new

SpeedKey = tuple[Key, str, Kind]  # key of a measured speed: choice, name of the element, kind of data


@dataclass(slots=True, eq=False)
class Tuner:
    """Shared measurements of speeds: bytes of arrays per second of one worker.

    Any thread may call, and read and set fields; of two figures recorded at the same moment, one may be lost.

    `compression` may be set; it applies from the next chunk of running transfers on. `available` are the
    names of the codecs that both sides have. `record` is called with each decision, and again when its
    outcome is known, on the thread of that call; it must not call the tuner. `clock` only times the encoding
    of samples. `workers` threads encode, and as many decode: one per processor by default. `together` says
    that the peer uses the same processors. `wanted` is called with the name of a codec that is being loaded
    here, so that the peer loads it too (`load_for_peer`).
    """

    compression: Compression
    available: frozenset[str]
    cpus: int
    record: Callable[[Decision], None]
    clock: Callable[[], float] = time.perf_counter
    workers: int = 0
    together: bool = False
    wanted: Callable[[str], None] = lambda codec: None
    numbers: Iterator[int] = field(default_factory=itertools.count)
    goodput: dict[str, float] = field(default_factory=dict)  # by path: bytes per second, as measured last
    latest: dict[tuple[str, str], Choice] = field(
        default_factory=dict
    )  # the latest choice, by path and element
    tried: dict[SpeedKey, float] = field(default_factory=dict)  # measured on samples
    encode: dict[SpeedKey, float] = field(default_factory=dict)  # measured on chunks
    decode: dict[tuple[str, Kind], float] = field(default_factory=dict)
    call_s: dict[str, float] = field(default_factory=dict)  # by codec: fixed cost of a call
    banned: dict[tuple[str, SpeedKey], float] = field(default_factory=dict)  # end of a choice's ban, by path
    _asked: set[str] = field(default_factory=set)
    _loading: threading.Lock = field(default_factory=threading.Lock)

    def __post_init__(self) -> None:
        self.workers = self.workers or self.cpus

    def link_changed(self) -> None:
        """Forget how fast the paths are, after the link has moved to another network."""
        self.goodput.clear()
        self.banned.clear()

    def candidates(self, element: Element) -> list[Choice]:
        """Return all choices except raw that both sides have and that accept such items."""
        there = [codec for codec in codecs() if codec.name in self.available]
        return [choice for codec in there for choice in choices(codec, element, role_of(element))]

    def encoded(self, speed_key: SpeedKey, size_bytes: int, elapsed_s: float) -> None:
        if size_bytes >= _LEAST_BYTES and elapsed_s > 0:
            self.encode[speed_key] = _average(self.encode.get(speed_key), size_bytes / elapsed_s)

    def decoded(self, codec: str, kind: Kind, size_bytes: int, elapsed_s: float) -> None:
        """Record the speed at which the peer decoded a chunk."""
        if size_bytes and elapsed_s > 0:
            self.decode[codec, kind] = _average(self.decode.get((codec, kind)), size_bytes / elapsed_s)

    def load(self, codec: Codec) -> None:
        """Load the codec's library on another thread, and have the peer load it too."""
        if codec.name not in self._asked:
            self.wanted(codec.name)
            self._load(codec)

    def load_for_peer(self, name: str) -> None:
        """Load a codec that the peer is about to encode with; unknown names are ignored."""
        for codec in codecs():
            if codec.name == name and name in self.available and name not in self._asked:
                self._load(codec)

    def _load(self, codec: Codec) -> None:
        self._asked.add(codec.name)
        threading.Thread(target=self._work, args=(codec,), name="duetlink-load").start()

    def _work(self, codec: Codec) -> None:
        with self._loading:  # one at a time: two codecs may need the same library
            try:
                codec.load()
            except Exception as error:  # the codec stays not ready, and is not chosen
                _logger.warning("codec %s is installed, but does not load: %s", codec.name, error)


def _average(before: float | None, speed: float) -> float:
    """Average the times, not the speeds, so that one quick chunk weighs less than one slow one."""
    return speed if before is None else 1 / (_NEWEST / speed + (1 - _NEWEST) / before)
