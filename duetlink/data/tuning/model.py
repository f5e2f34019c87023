"""Predict the speed of a choice: a pipeline is as fast as its slowest part.

Encoding (on several workers), sending and decoding overlap once a transfer runs, so one byte of an array
takes

    max(1 / (encode * workers), ratio / goodput, 1 / (decode * workers))  seconds,

with encode and decode in bytes of arrays per second of one worker, and ratio the encoded share of the bytes.
If both ends are on one machine, there is a fourth part: the processors, which read, encode, send, receive,
decode and write. A link as fast as `PROCESSOR_BOUND_BYTES_PER_S` is also assumed to be limited by processors.
The first chunk passes all parts one after another.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from duetlink.data.tuning.compression import FEWEST_BYTES, LATENCY, LEAST_CPU

# From this rate on (bytes/s), processors are assumed to be the limit: TLS within one machine reaches it.
PROCESSOR_BOUND_BYTES_PER_S = 250e6
# Processor seconds per byte on the wire, at most: TLS and Flight on both ends, measured.
_MOST_WIRE_CPU_S = 5e-9
# Processor seconds per byte sent and received: TLS and Flight, a carrier beside them, SCTP in Python.
_WIRE_CPU_S = {"tcp": 3e-9, "punched": 8e-9, "udp": 15e-9, "relay": 15e-9, "channel": 300e-9}
_OTHER_WIRE_CPU_S = 5e-9
# Processor seconds per byte of an array, both ends, at any ratio: to digest, gather and write it.
_ARRAY_CPU_S = 0.8e-9
# "cpu": how many times slower than raw a choice may be; users do not notice 5 %.
_CPU_PATIENCE = 1.05
# "throughput": occupying all processors of this machine costs as much as 5 % of speed; TLS needs them too.
_CPU_PRICE = 0.05


@dataclass(frozen=True, slots=True)
class Figures:
    """The speeds and the ratio of one choice for one kind of data.

    `encode` and `decode` are bytes of arrays per second of one worker; `ratio` is encoded bytes per array
    byte.
    """

    encode: float
    decode: float
    ratio: float


RAW = Figures(math.inf, math.inf, 1.0)


@dataclass(frozen=True, slots=True)
class Line:
    """One path and its two ends, as the cost model sees them.

    `goodput` is in bytes per second. `workers` threads encode and as many decode; a fraction is possible if
    other programs load the machine. `cpus` counts the processors of this machine; `together` says that the
    peer runs on the same ones. `path` is the path's name.
    """

    goodput: float
    workers: float
    cpus: int
    round_trip_s: float = 0.0
    together: bool = False
    path: str = "tcp"

    @property
    def processor_bound(self) -> bool:
        return self.goodput >= PROCESSOR_BOUND_BYTES_PER_S


def rate(figures: Figures, line: Line) -> float:
    """Return bytes of arrays per second once a transfer runs."""
    return min(line.goodput / figures.ratio, processors_rate(figures, line))


def processors_rate(figures: Figures, line: Line) -> float:
    """Return bytes of arrays per second if the link were infinitely fast."""
    slowest = min(figures.encode, figures.decode) * line.workers
    if line.together or line.processor_bound:
        wire_s = max(0.0, min(line.cpus / line.goodput, _MOST_WIRE_CPU_S) - _ARRAY_CPU_S)
        slowest = min(slowest, line.cpus / (_ARRAY_CPU_S + _codec_s(figures) + figures.ratio * wire_s))
    return slowest


def delivery_s(figures: Figures, line: Line, size_bytes: int, chunk_bytes: int) -> float:
    """Return the seconds until the last byte of an object of `size_bytes` is decoded."""
    first = min(size_bytes, chunk_bytes)
    fill_s = first * (_codec_s(figures) + figures.ratio / line.goodput)
    return line.round_trip_s + fill_s + (size_bytes - first) / rate(figures, line)


def cpu_s(figures: Figures, line: Line) -> float:
    """Return processor seconds per byte of an array, on both sides together."""
    return _codec_s(figures) + figures.ratio * _WIRE_CPU_S.get(line.path, _OTHER_WIRE_CPU_S)


def cost(objective: str, figures: Figures, line: Line, size_bytes: int, chunk_bytes: int) -> float:
    """Return the quantity that `objective` minimises: seconds, a ratio or processor seconds.

    Infinite for a choice that the objective rules out.
    """
    if objective == FEWEST_BYTES:
        return figures.ratio
    if objective == LATENCY:
        return delivery_s(figures, line, size_bytes, chunk_bytes)
    if objective == LEAST_CPU:
        slow = rate(figures, line) * _CPU_PATIENCE < rate(RAW, line)
        return math.inf if slow else cpu_s(figures, line)
    found = rate(figures, line)
    share = min(1.0, found / figures.encode / line.cpus)
    return (1 + _CPU_PRICE * share) / found


def _codec_s(figures: Figures) -> float:
    return 1 / figures.encode + 1 / figures.decode
