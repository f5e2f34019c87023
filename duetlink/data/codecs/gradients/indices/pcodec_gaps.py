"""Gaps through pcodec: bins of their distribution and ANS codes, near its entropy for any clustering."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.data.codecs.gradients.indices.entropy import bits_per_position
from duetlink.data.codecs.gradients.indices.gaps import gaps_of, positions_of
from duetlink.data.codecs.pcodec_ import Pcodec

_UINT32, _UINT64 = BY_NAME["uint32"], BY_NAME["uint64"]
_HEAD_BITS = 400  # of a file and its table of bins, about
_LOSS = 0.03  # bits above the entropy, about


class PcodecGaps(IndexCodec):
    """A pcodec file of uint32 gaps, or of uint64 ones for arrays of 2^32 items and more."""

    number: ClassVar[int] = 1
    name: ClassVar[str] = "pcodec"

    def predicted_bits(self, size: int, count: int) -> float:
        return _HEAD_BITS + count * (bits_per_position(size, count) + _LOSS)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        element = _UINT32 if size <= 1 << 32 else _UINT64
        return Pcodec().encode(gaps_of(positions).astype(element.storage), element, Pcodec.level)

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        element = _UINT32 if size <= 1 << 32 else _UINT64
        return positions_of(Pcodec().decode(payload, element, (count,)).astype(np.int64), size)
