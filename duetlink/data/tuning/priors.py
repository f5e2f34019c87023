"""The speed and ratio assumed for each codec until it has been measured here.

They were measured on arrays of 2 MiB in float32, by one thread: trained weights (dense), activations and
differences of weights (redundant), 1 % sparse. `decimals` and `frame_of_reference` are guesses, for data that
suit them. Speeds are bytes of arrays per second, ratios the encoded share.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator

from duetlink.data.codecs.base import BYTES, GRADIENT, TENSOR, Codec
from duetlink.data.codecs.element import Element
from duetlink.data.tuning.choice import Choice, Key
from duetlink.data.tuning.model import Figures
from duetlink.data.tuning.sample import Kind

_MB = 1e6
# Figures of an unknown codec: optimistic, so that it is tried once.
_UNKNOWN = (200.0, 0.1) * 3 + (400.0,)
_DECODE_SPARSE = 2.5  # measured: sparse data decode this many times faster

# By name and level: encode MB/s and ratio of dense, of redundant and of sparse data, and decode MB/s of dense
# data. Only these levels are ever considered. None: the codec's own default.
_PRIORS: dict[str, dict[int | None, tuple[float, ...]]] = {
    "lz4": {None: (1200, 1.0, 600, 0.80, 1500, 0.08, 2500)},
    "zstd": {
        1: (450, 0.93, 180, 0.58, 1500, 0.020, 1000),
        3: (390, 0.927, 100, 0.60, 1460, 0.0182, 900),
        9: (60, 0.92, 35, 0.54, 250, 0.017, 800),
    },
    "blosc2": {None: (862, 0.934, 680, 0.76, 1946, 0.058, 2500)},
    "bitshuffle": {None: (722, 0.882, 515, 0.69, 573, 0.052, 1500)},
    "bytedelta": {None: (98, 0.861, 60, 0.65, 117, 0.036, 800)},
    "planes": {None: (472, 0.840, 240, 0.56, 339, 0.029, 900)},
    "pcodec": {None: (154, 0.830, 160, 0.48, 368, 0.0107, 1070)},
    "decimals": {None: (500, 0.20, 500, 0.20, 800, 0.010, 2000)},
    "frame_of_reference": {None: (900, 0.80, 900, 0.30, 1200, 0.03, 2500)},
    "sparse": {None: (900, 1.03, 500, 0.53, 1500, 0.012, 3000)},
    "zlib": {None: (25, 0.928, 13, 0.63, 177, 0.0172, 250)},
    "lzma": {None: (2.8, 0.925, 1.85, 0.545, 17, 0.0156, 60)},
}

# Never chosen by cost: raw is always a candidate, and delta needs a version that the peer has.
_NEVER = frozenset({"raw", "delta"})


@functools.cache
def prior(key: Key, kind: Kind) -> Figures:
    levels = _PRIORS.get(key[0], {})
    row = levels.get(key[1]) or levels.get(None) or _UNKNOWN
    encode, ratio = {Kind.REDUNDANT: row[2:4], Kind.SPARSE: row[4:6]}.get(kind, row[:2])
    decode = row[6] * (_DECODE_SPARSE if kind is Kind.SPARSE else 1.0)
    return Figures(encode * _MB, decode * _MB, ratio)


def choices(codec: Codec, element: Element, role: str) -> Iterator[Choice]:
    """Yield the levels of a codec that may be chosen for items of `element`."""
    if codec.name in _NEVER or not codec.lossless or codec.kind == GRADIENT:
        return
    if not codec.accepts(element) or (role == BYTES and codec.kind == TENSOR):
        return
    for level in _PRIORS.get(codec.name, {None: None}):
        level = codec.level if level is None else level
        if level in codec.levels:
            yield Choice(codec, level)
