"""What is assumed of each codec until it has been measured here.

Measured on arrays of 2 MiB in float32, by one thread: trained weights (dense), activations and differences of
weights (redundant), 1 % sparse. `decimals` and `frame_of_reference` are guesses, for data that suit them.
Speeds are bytes of arrays per second, ratios the encoded share. Every figure gives way to a measured one; a
codec that is not in the table is tried first.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass

from duetlink.data.codecs.base import BYTES, GRADIENT, TENSOR, Codec
from duetlink.data.codecs.element import Element
from duetlink.data.tuning.choice import Choice, Key
from duetlink.data.tuning.model import Figures
from duetlink.data.tuning.sample import Kind

_MB = 1e6

# A codec that nobody has told us of: quick enough to be worth a try on most links.
_UNKNOWN = Figures(200 * _MB, 400 * _MB, 0.8)

# How much faster nearly nothing is decoded.
_DECODE_SPARSE = 2.5

# Encoders from here on are "fast"; slower ones must be hidden by the link (objective "bytes").
FAST_BYTES_PER_S = 60 * _MB

# The best ratio that is worth hoping for, where a try would cost: on links that are quick themselves.
HOPED_RATIO = {Kind.NOISE: 1.0, Kind.DENSE: 0.75, Kind.REDUNDANT: 0.3, Kind.SPARSE: 0.02}

# Processor seconds per byte sent and received: TLS and Flight, a carrier beside them, SCTP in Python.
WIRE_CPU_S = {"tcp": 3e-9, "punched": 8e-9, "udp": 15e-9, "relay": 15e-9, "channel": 300e-9}
OTHER_WIRE_CPU_S = 5e-9


@dataclass(frozen=True, slots=True)
class Prior:
    """(encode MB/s, ratio) per kind of data, and decode MB/s of dense data."""

    dense: tuple[float, float]
    redundant: tuple[float, float]
    sparse: tuple[float, float]
    decode: float

    def figures(self, kind: Kind) -> Figures:
        encode, ratio = {Kind.REDUNDANT: self.redundant, Kind.SPARSE: self.sparse}.get(kind, self.dense)
        decode = self.decode * (_DECODE_SPARSE if kind is Kind.SPARSE else 1.0)
        return Figures(encode * _MB, decode * _MB, 1.0 if kind is Kind.NOISE else ratio)


# By name and level; the levels given are those that are ever considered. None: the codec's own default.
_PRIORS: dict[str, dict[int | None, Prior]] = {
    "lz4": {None: Prior((1200, 1.0), (600, 0.80), (1500, 0.08), 2500)},
    "zstd": {
        1: Prior((450, 0.93), (180, 0.58), (1500, 0.020), 1000),
        3: Prior((390, 0.927), (100, 0.60), (1460, 0.0182), 900),
        9: Prior((60, 0.92), (35, 0.54), (250, 0.017), 800),
    },
    "blosc2": {None: Prior((862, 0.934), (680, 0.76), (1946, 0.058), 2500)},
    "bitshuffle": {None: Prior((722, 0.882), (515, 0.69), (573, 0.052), 1500)},
    "bytedelta": {None: Prior((98, 0.861), (60, 0.65), (117, 0.036), 800)},
    "planes": {None: Prior((472, 0.840), (240, 0.56), (339, 0.029), 900)},
    "pcodec": {None: Prior((154, 0.830), (160, 0.48), (368, 0.0107), 1070)},
    "decimals": {None: Prior((500, 0.20), (500, 0.20), (800, 0.010), 2000)},
    "frame_of_reference": {None: Prior((900, 0.80), (900, 0.30), (1200, 0.03), 2500)},
    "sparse": {None: Prior((900, 1.03), (500, 0.53), (1500, 0.012), 3000)},
    "zlib": {None: Prior((25, 0.928), (13, 0.63), (177, 0.0172), 250)},
    "lzma": {None: Prior((2.8, 0.925), (1.85, 0.545), (17, 0.0156), 60)},
}

# These need what a chunk alone does not give: a version that the peer has.
_NEVER = frozenset({"raw", "delta"})


@functools.cache
def prior(key: Key, kind: Kind) -> Figures:
    """What is assumed of a codec at a level."""
    levels = _PRIORS.get(key[0], {})
    row = levels.get(key[1]) or levels.get(None)
    return row.figures(kind) if row else _UNKNOWN


def known(key: Key) -> bool:
    """Whether the table knows it."""
    return key[0] in _PRIORS


def choices(codec: Codec, element: Element, role: str) -> Iterator[Choice]:
    """The levels of a codec that may be chosen for items of `element`; none if it never is."""
    if codec.name in _NEVER or not codec.lossless or codec.kind == GRADIENT:
        return
    if not codec.accepts(element) or (role == BYTES and codec.kind == TENSOR):
        return
    for level in _PRIORS.get(codec.name, {None: None}):
        level = codec.level if level is None else level
        if level in codec.levels:
            yield Choice(codec, level)
