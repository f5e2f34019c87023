"""Gaps in Rice codes, which fit the geometric gaps of positions that are all as likely."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.gradients.indices import rice
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.data.codecs.gradients.indices.gaps import gaps_of, positions_of


class GapRice(IndexCodec):
    """Within 4 % of the entropy of random positions up to a density of 1 %."""

    number: ClassVar[int] = 2
    name: ClassVar[str] = "gap_rice"

    def predicted_bits(self, size: int, count: int) -> float:
        return rice.HEAD_BITS + (count * rice.predicted_bits((size - count) / count) if count else 0)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        return rice.encode(gaps_of(positions))

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        return positions_of(rice.decode(payload, count, size - count), size)
