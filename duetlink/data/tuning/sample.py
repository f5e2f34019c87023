"""Classify the data of a chunk from a sample of at most 64 KiB."""

from __future__ import annotations

import enum
import math

import numpy as np

from duetlink.data.codecs.base import Array

SAMPLE_BYTES = 64 * 1024  # enough to predict a codec's ratio; classifying it takes 0.3 ms
_PIECES = 8  # spread over the data, each long enough to contain repeats at a short distance
_WORDS = 2048  # number of 8-byte words among which repeats are counted; sorting them is most of the cost

# Order-0 entropy in bits per byte, at most 8.
_NOISE_BITS = 7.97  # bytes drawn at random have 8; a sample of 64 KiB says that within 0.005
_REDUNDANT_BITS = 7.0  # trained weights in float32 have 7.3 to 7.5
_SPARSE_BITS = 1.0  # float32 with 1 % at random places has 0.2
# Shares of items that are zero, a little below 90 % and 50 % (ReLU), since a sample varies.
_SPARSE_ZEROS, _REDUNDANT_ZEROS = 0.85, 0.2
# Shares of repeated words: columns with few values have 0.9, weights 0.
_REDUNDANT_REPEATS, _NOISE_REPEATS = 0.2, 0.02


class Kind(enum.Enum):
    """A class of data by compressibility.

    Codecs' speeds and ratios differ more between two kinds than between two codecs within one kind.
    """

    NOISE = "noise"  # all byte values equally frequent: incompressible
    DENSE = "dense"  # trained weights: part of each item is noise
    REDUNDANT = "redundant"
    SPARSE = "sparse"  # nearly all items have one value


def take(array: Array) -> Array:
    """Return at most SAMPLE_BYTES of an array's items, flat and in order."""
    flat = array.reshape(-1)
    pieces = [flat[start:end] for start, end in places(flat.size, flat.itemsize)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def places(items: int, item_bytes: int) -> list[tuple[int, int]]:
    """Return the index ranges (start, end) that make a sample: all items, or eight equally spaced pieces."""
    if items * item_bytes <= SAMPLE_BYTES:
        return [(0, items)]
    piece = max(1, SAMPLE_BYTES // _PIECES // item_bytes)
    return [(start, start + piece) for start in np.linspace(0, items - piece, _PIECES).astype(int).tolist()]


def kind_of(sample: Array) -> Kind:
    """Classify a flat sample that `take` made, in about 0.3 ms for 64 KiB."""
    if not sample.nbytes:
        return Kind.SPARSE
    octets = sample.view(np.uint8)
    counts = np.bincount(octets, minlength=256)
    present = counts[counts > 0] / len(octets)
    bits = float(-(present * np.log2(present)).sum())
    # a small sample has less entropy than what it was drawn from (Miller and Madow 1955)
    bits += (len(present) - 1) / (2 * len(octets) * math.log(2))
    words = octets[: len(octets) // 8 * 8].view(np.uint64)
    words = words[:: max(1, -(-len(words) // _WORDS))]
    repeats = 1 - len(np.unique(words)) / len(words) if len(words) else 0.0
    zeros = 1 - np.count_nonzero(sample) / len(sample)
    if zeros >= _SPARSE_ZEROS or bits <= _SPARSE_BITS:
        return Kind.SPARSE
    if bits <= _REDUNDANT_BITS or zeros >= _REDUNDANT_ZEROS or repeats >= _REDUNDANT_REPEATS:
        return Kind.REDUNDANT
    return Kind.NOISE if bits >= _NOISE_BITS and repeats < _NOISE_REPEATS else Kind.DENSE
