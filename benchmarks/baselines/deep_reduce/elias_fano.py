"""Elias-Fano (Elias 1974, Fano 1971): low bits as they are, high ones in unary; any item is found in place.

    bytes of high bits u64 | high bits: a 1 at (position >> low) + rank | low bits

The number of low bits follows from the size and the count.
"""

from __future__ import annotations

import struct
from typing import ClassVar

import numpy as np

from duetlink.data.codecs.gradients.indices import bits
from duetlink.data.codecs.gradients.indices.base import IndexCodec, Positions
from duetlink.errors import MalformedChunk

_SIZE = struct.Struct("<Q")


class EliasFano(IndexCodec):
    """At most 2 + ceil(log2(size / count)) bits a position, whatever the positions are."""

    number: ClassVar[int] = 3
    name: ClassVar[str] = "elias_fano"

    def predicted_bits(self, size: int, count: int) -> float:
        low = _low_bits(size, count)
        return 8 * _SIZE.size + count * (low + 1) + (size >> low)

    def encode(self, positions: Positions, size: int, seed: int) -> bytes:
        low = _low_bits(size, positions.size)
        high = bits.pack_ends((positions >> low) + np.arange(positions.size))
        return _SIZE.pack(len(high)) + high + bits.pack(positions & ((1 << low) - 1), low)

    def decode(self, payload: memoryview, size: int, count: int) -> Positions:
        (high_bytes,) = _SIZE.unpack_from(payload)
        body = payload[_SIZE.size :]
        if high_bytes > len(body):
            raise MalformedChunk(f"high bits in {high_bytes} of {len(body)} bytes")
        low = _low_bits(size, count)
        ends = bits.unpack_ends(body[:high_bytes], count, count + (size >> low))
        high = ends - np.arange(count)
        positions = (high << low) | bits.unpack(body[high_bytes:], count, low).astype(np.int64)
        if count and (positions[-1] >= size or (np.diff(positions) <= 0).any()):
            raise MalformedChunk(f"positions that do not rise, or not below {size}")
        return positions


def _low_bits(size: int, count: int) -> int:
    return max(size // max(count, 1), 1).bit_length() - 1
