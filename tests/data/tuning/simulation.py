"""A transfer in virtual time: encoders, a buffer, a link, decoders, and processors that they share.

Codecs are models with a ratio and speeds per kind of data; no byte is compressed. On a link of one machine,
sending and receiving take a processor each, of the same ones that encode and decode.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from duetlink.data.codecs.base import BYTES, TENSOR, Array, Codec
from duetlink.data.codecs.element import FLOAT32, Element
from duetlink.data.codecs.raw import Raw
from duetlink.data.tuning.choice import Choice

MIB = 1 << 20
MB = 1e6


def _weights(size: int) -> Array:
    return np.random.default_rng(1).normal(0, 0.02, size).astype(np.float32)


def _noise(size: int) -> Array:
    return np.frombuffer(np.random.default_rng(2).bytes(4 * size), np.float32)


def _activations(size: int) -> Array:
    return np.maximum(_weights(size), 0)


def _sparse(size: int) -> Array:
    values = _weights(size)
    values[np.random.default_rng(3).random(size) >= 0.01] = 0
    return values


# of 2 MiB each, the largest chunk
DATA: dict[str, Array] = {
    "noise": _noise(MIB // 2),
    "1.2x": _weights(MIB // 2),
    "2x": _activations(MIB // 2),
    "90x": _sparse(MIB // 2),
}


class World:
    """What is simulated now; the fake codecs look here."""

    def __init__(self) -> None:
        self.kind = "noise"
        self.trials = 0
        self.advance: Callable[[float], None] = lambda seconds: None


@dataclass(frozen=True)
class Speed:
    ratio: float
    encode: float  # MB/s
    decode: float


class FakeCodec(Codec):
    """A codec with literal figures."""

    number = 0x9000

    def __init__(self, world: World, name: str, kind: str, figures: dict[str, Speed], levels: range) -> None:
        self.name, self.kind, self.levels, self.level = name, kind, levels, levels.start  # type: ignore[misc]
        self._world, self._figures = world, figures

    def at(self, kind: str) -> Speed:
        return self._figures[kind]

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        """Of a sample: takes its time, and a little more for the call."""
        speed = self.at(self._world.kind)
        self._world.trials += 1
        self._world.advance(array.nbytes / speed.encode / MB + 50e-6)
        return bytes(int(array.nbytes * speed.ratio) + 60)

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        raise NotImplementedError


def _row(noise: Speed, weights: Speed, activations: Speed, sparse: Speed) -> dict[str, Speed]:
    return {"noise": noise, "1.2x": weights, "2x": activations, "90x": sparse}


# the measured table: ratio, encode MB/s, decode MB/s
FIGURES: dict[str, tuple[str, range, dict[str, Speed]]] = {
    "zlib": (
        BYTES,
        range(6, 7),
        _row(Speed(1.0, 25, 300), Speed(0.928, 25, 250), Speed(0.54, 19, 200), Speed(0.0172, 177, 400)),
    ),
    "lzma": (
        BYTES,
        range(6, 7),
        _row(Speed(1.0, 3, 60), Speed(0.925, 2.8, 40), Speed(0.505, 1.8, 50), Speed(0.0156, 17, 300)),
    ),
    "zstd": (
        BYTES,
        range(3, 4),
        _row(Speed(1.0, 900, 3000), Speed(0.927, 390, 900), Speed(0.546, 93, 600), Speed(0.0182, 1460, 2500)),
    ),
    "lz4": (
        BYTES,
        range(1, 2),
        _row(Speed(1.0, 1800, 4000), Speed(1.0, 1200, 3000), Speed(0.78, 500, 2000), Speed(0.08, 1500, 3000)),
    ),
    "blosc2": (
        BYTES,
        range(5, 6),
        _row(
            Speed(1.0, 1500, 4000), Speed(0.934, 862, 2500), Speed(0.87, 419, 2000), Speed(0.058, 1946, 3000)
        ),
    ),
    "bitshuffle": (
        TENSOR,
        range(3, 4),
        _row(
            Speed(1.0, 900, 2000), Speed(0.882, 722, 1500), Speed(0.758, 463, 1500), Speed(0.052, 573, 1800)
        ),
    ),
    "bytedelta": (
        TENSOR,
        range(1, 2),
        _row(Speed(1.0, 120, 900), Speed(0.861, 98, 800), Speed(0.719, 32, 800), Speed(0.036, 117, 1000)),
    ),
    "planes": (
        TENSOR,
        range(1, 2),
        _row(Speed(1.0, 700, 1500), Speed(0.84, 472, 900), Speed(0.552, 193, 700), Speed(0.029, 339, 900)),
    ),
    "pcodec": (
        TENSOR,
        range(8, 9),
        _row(Speed(1.0, 160, 1500), Speed(0.83, 154, 1070), Speed(0.431, 175, 900), Speed(0.0107, 368, 1500)),
    ),
}


def codecs_of(world: World, slowdown: float = 1.0, names: dict[str, str] | None = None) -> list[Codec]:
    """Raw and the fakes, all slower by a factor; `names` renames some, to what no table knows."""
    made: list[Codec] = [Raw()]
    for name, (kind, levels, row) in FIGURES.items():
        slower = {
            data: Speed(figures.ratio, figures.encode / slowdown, figures.decode / slowdown)
            for data, figures in row.items()
        }
        made.append(FakeCodec(world, (names or {}).get(name, name), kind, slower, levels))
    return made


@dataclass
class Link:
    """`rates`: (from when on, MB/s). From `loopback_from` on it is one machine, and shares processors: one to
    send and one to receive, or `wire_cpu_s` of their time per byte, and `array_cpu_s` per byte of an array.
    """

    rates: list[tuple[float, float]]
    buffer_bytes: int = 4_000_000
    loopback_from: float = 400
    wire_cpu_s: float | None = None
    array_cpu_s: float = 0.0

    def at(self, now_s: float) -> float:
        return next(rate for since, rate in reversed(self.rates) if since <= now_s) * MB

    def processors(self, now_s: float, ratio: float) -> float:
        if self.wire_cpu_s is None:
            return 2.0
        return (self.wire_cpu_s + self.array_cpu_s / ratio) * self.at(now_s)

    def next_change(self, now_s: float) -> float:
        return min((since for since, _ in self.rates if since > now_s + 1e-12), default=math.inf)


class Fixed:
    """One choice for all chunks."""

    def __init__(self, choice: Choice, chunk_bytes: int = MIB, workers: int = 2) -> None:
        self._choice, self.chunk_bytes, self.workers = choice, chunk_bytes, workers

    def choose(self, array: Array, element: Element, now_s: float) -> Choice:
        return self._choice

    def ignore(self, *arguments: object) -> None:
        """Any input to a controller is harmless."""

    encoded = sent = decoded = finished = ignore


def speed_of(choice: Choice, kind: str) -> Speed:
    assert isinstance(choice.codec, FakeCodec)
    return choice.codec.at(kind)


@dataclass
class _Chunk:
    raw: int
    choice: Choice
    kind: str
    begun_s: float | None = None
    elapsed_s: float = 0.0
    left_s: float = 0.0  # of encoding
    ready: bool = False
    wire: int = 0
    end: float = 0.0  # of its bytes, counted from the first that was sent
    decode_s: float = 0.0


@dataclass
class Simulation:
    """`kinds`: which data from which byte on."""

    world: World
    link: Link
    controller: Any
    size: int
    kinds: list[tuple[int, str]]
    cpus: int = 2
    now: float = 0.0
    log: list[tuple[float, int, Choice]] = field(default_factory=list)  # when sent, raw bytes, choice

    def __post_init__(self) -> None:
        self.world.advance = self._try_for
        self._later: list[Callable[[], None]] | None = None  # what happens while the controller chooses
        self._encoding: deque[_Chunk] = deque()  # waiting or being encoded
        self._order: deque[_Chunk] = deque()  # not yet given to the transport
        self._wire: deque[_Chunk] = deque()  # given to it, not yet at the peer
        self._decoding: list[_Chunk] = []
        self._pushed = self._drained = 0.0
        self._pushing: tuple[_Chunk, float] | None = None
        self._position = 0
        self._delivered = 0

    def run(self) -> float:
        """Seconds until the last byte is decoded."""
        while self._delivered < self.size:
            before = None
            while before != (before := (self._position, self._pushed)):
                self._feed()
                self._push()
            self._advance(self._next_event())
        self.controller.finished(self.now)
        return self.now

    def kind_at(self, position: int) -> str:
        return next(kind for since, kind in reversed(self.kinds) if since <= position)

    def _feed(self) -> None:
        while len(self._order) <= self.controller.workers and self._position < self.size:
            if self._pushing is not None or (self._order and self._order[0].choice.raw):
                return  # the sender is in the transport's hands, or about to be
            raw = min(self.controller.chunk_bytes, self.size - self._position)
            self.world.kind = kind = self.kind_at(self._position)
            choice = self._choose(DATA[kind][: raw // 4])
            chunk = _Chunk(raw, choice, kind)
            self._position += raw
            self._order.append(chunk)
            if choice.raw:
                chunk.ready, chunk.wire = True, raw
            else:
                chunk.left_s = raw / speed_of(choice, kind).encode / MB
                self._encoding.append(chunk)

    def _push(self) -> None:
        if self._pushing is None and self._order and self._order[0].ready:
            chunk = self._order.popleft()
            self._pushed += chunk.wire
            chunk.end = self._pushed
            self._wire.append(chunk)
            self._pushing = (chunk, self.now)
        self._finish_push()

    def _finish_push(self) -> None:
        if self._pushing is None or self._pushed - self._drained > self.link.buffer_bytes + 1e-3:
            return
        chunk, since = self._pushing
        self._pushing = None
        self.log.append((self.now, chunk.raw, chunk.choice))
        elapsed_s, now_s = self.now - since, self.now
        self._tell(lambda: self.controller.sent(chunk.raw, chunk.wire, elapsed_s, now_s))

    def _tell(self, message: Callable[[], None]) -> None:
        if self._later is None:
            message()
        else:
            self._later.append(message)

    def _try_for(self, seconds: float) -> None:
        """The sender is busy for that long, inside `choose`."""
        end_s = self.now + seconds
        while (left_s := end_s - self.now) > 0:
            self._advance(min(left_s, max(1e-9, self._next_event())))

    def _choose(self, array: Array) -> Choice:
        later: list[Callable[[], None]] = []
        self._later = later
        choice: Choice = self.controller.choose(array, FLOAT32, self.now)
        self._later = None
        for message in later:
            message()
        return choice

    def _rates(self) -> tuple[float, float, float]:
        """Of each encoder, of the link in bytes/s, of each decoder."""
        active = min(len(self._encoding), self.controller.workers)
        draining = self._pushed > self._drained + 1e-6
        decoders = min(len(self._decoding), 2)
        if self.link.at(self.now) < self.link.loopback_from * MB:
            share = min(1.0, self.cpus / active) if active else 1.0
            return share, self.link.at(self.now) if draining else 0.0, 1.0
        jobs, head = active + decoders, self._wire[0] if draining else None
        wanted = self.link.processors(self.now, head.wire / head.raw) if head is not None else 0.0
        if wanted <= 2 * self.cpus / (jobs + 2):  # two threads that want so little have it
            share, drained = (min(1.0, (self.cpus - wanted) / jobs) if jobs else 1.0), 1.0
        else:
            share = drained = min(1.0, self.cpus / (jobs + wanted))
        return share, drained * self.link.at(self.now) if draining else 0.0, share

    def _active(self) -> list[_Chunk]:
        return list(self._encoding)[: self.controller.workers]

    def _next_event(self) -> float:
        encode, drain, decode = self._rates()
        times = [self.link.next_change(self.now) - self.now]
        times += [chunk.left_s / encode for chunk in self._active()]
        times += [chunk.decode_s / decode for chunk in self._decoding[:2]]
        if drain:
            times.append((self._wire[0].end - self._drained) / drain)
            if self._pushing is not None:
                times.append((self._pushed - self.link.buffer_bytes - self._drained) / drain)
        if self._pushing is None and self._order and self._order[0].ready and self._later is None:
            times.append(0.0)
        return max(0.0, min(times))

    def _advance(self, seconds: float) -> None:
        """Let that much time pass. What ends on the way ends at its end, which is exact for `_next_event`."""
        encode, drain, decode = self._rates()
        active, decoding = self._active(), self._decoding[:2]
        self.now += seconds
        self._drained = min(self._pushed, self._drained + drain * seconds)
        for chunk in active:
            chunk.left_s -= encode * seconds
            chunk.elapsed_s += encode * seconds  # processor time, as the real one counts
            if chunk.left_s <= 1e-9:
                self._encoding.remove(chunk)
                chunk.ready, chunk.wire = True, int(chunk.raw * speed_of(chunk.choice, chunk.kind).ratio) + 60
                self._tell(
                    partial(self.controller.encoded, chunk.choice, chunk.raw, chunk.wire, chunk.elapsed_s)
                )
        for chunk in decoding:
            chunk.decode_s -= decode * seconds
            if chunk.decode_s <= 1e-9:
                self._decoding.remove(chunk)
                self._delivered += chunk.raw
                decode_s = chunk.raw / speed_of(chunk.choice, chunk.kind).decode / MB
                self._tell(partial(self.controller.decoded, chunk.choice.codec.name, chunk.raw, decode_s))
        while self._wire and self._wire[0].end <= self._drained + 1e-3:
            chunk = self._wire.popleft()
            if chunk.choice.raw:
                self._delivered += chunk.raw
            else:
                chunk.decode_s = chunk.raw / speed_of(chunk.choice, chunk.kind).decode / MB
                self._decoding.append(chunk)
        self._finish_push()


def best_fixed(kind: str, link: Link, size: int, slowdown: float = 1.0) -> tuple[float, float]:
    """Seconds of the best single codec in hindsight, and of raw."""
    times = {}
    world = World()
    for codec in codecs_of(world, slowdown):
        chunk_bytes = 2 * MIB if codec.name == "raw" and link.at(0) >= 250 * MB else MIB
        fixed = Fixed(Choice(codec, codec.level), chunk_bytes)
        times[codec.name] = Simulation(world, link, fixed, size, [(0, kind)]).run()
    return min(times.values()), times["raw"]
