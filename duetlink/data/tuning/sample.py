"""What kind of data a chunk holds, from a sample of at most 64 KiB of it."""

from __future__ import annotations

import enum
import math
from dataclasses import dataclass

import numpy as np

from duetlink.data.codecs.base import Array

SAMPLE_BYTES = 64 * 1024
_PIECES = 8
_WORDS = 2048  # of 8 bytes, among which repeats are counted: sorting them is most of the cost

_NOISE_BITS = 7.97  # bytes drawn at random have 8; a sample of 64 KiB says that within 0.005
_REDUNDANT_BITS = 7.0
_SPARSE_BITS = 1.0

# Samples that differ by less may be of the same data.
_ALIKE_BITS = 0.25
_ALIKE_SHARE = 0.05


class Kind(enum.Enum):
    """Classes in which speeds and ratios of codecs differ by more than the codec does."""

    NOISE = "noise"  # every byte value as often as every other: nothing to win
    DENSE = "dense"  # trained weights: part of each item is noise
    REDUNDANT = "redundant"
    SPARSE = "sparse"  # nearly all one value


@dataclass(frozen=True, slots=True)
class Features:
    """Of a sample: order-0 entropy of its bytes (0 to 8 bits), share of items that are zero, and share of
    8-byte words that stand there once more."""

    entropy_bits: float
    zero_fraction: float
    repeats: float

    @property
    def kind(self) -> Kind:
        if self.zero_fraction >= 0.9 or self.entropy_bits <= _SPARSE_BITS:
            return Kind.SPARSE
        if self.entropy_bits <= _REDUNDANT_BITS or self.zero_fraction >= 0.2 or self.repeats >= 0.2:
            return Kind.REDUNDANT
        return Kind.NOISE if self.entropy_bits >= _NOISE_BITS and self.repeats < 0.02 else Kind.DENSE

    def alike(self, other: Features) -> bool:
        """Whether the other sample may be of the same data, which may lie where two kinds meet."""
        if Kind.NOISE in (self.kind, other.kind):
            return self.kind is other.kind
        return (
            abs(self.entropy_bits - other.entropy_bits) <= _ALIKE_BITS
            and abs(self.zero_fraction - other.zero_fraction) <= _ALIKE_SHARE
            and abs(self.repeats - other.repeats) <= _ALIKE_SHARE
        )


def take(array: Array) -> Array:
    """At most SAMPLE_BYTES of an array's items, flat and in order."""
    flat = array.reshape(-1)
    pieces = [flat[start:end] for start, end in places(flat.size, flat.itemsize)]
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def places(items: int, item_bytes: int) -> list[tuple[int, int]]:
    """Which of so many items make a sample: all, or eight pieces (start, end) at equal distances."""
    if items * item_bytes <= SAMPLE_BYTES:
        return [(0, items)]
    piece = max(1, SAMPLE_BYTES // _PIECES // item_bytes)
    return [(start, start + piece) for start in np.linspace(0, items - piece, _PIECES).astype(int).tolist()]


def features(sample: Array) -> Features:
    """Of a flat sample as `take` makes; a third of a millisecond for 64 KiB."""
    if not sample.nbytes:
        return Features(0.0, 1.0, 0.0)
    octets = sample.view(np.uint8)
    counts = np.bincount(octets, minlength=256)
    present = counts[counts > 0] / len(octets)
    entropy_bits = float(-(present * np.log2(present)).sum())
    # a small sample has less entropy than what it was drawn from (Miller and Madow 1955)
    entropy_bits += (len(present) - 1) / (2 * len(octets) * math.log(2))
    words = octets[: len(octets) // 8 * 8].view(np.uint64)
    words = words[:: max(1, -(-len(words) // _WORDS))]
    repeats = 1 - len(np.unique(words)) / len(words) if len(words) else 0.0
    return Features(min(8.0, entropy_bits), 1 - np.count_nonzero(sample) / len(sample), repeats)
