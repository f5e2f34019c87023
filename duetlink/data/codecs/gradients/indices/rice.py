"""Rice codes (Rice and Plaunt, 1971): a number's quotient by 2^k in unary, its remainder in k bits.

k u8 | bytes of quotients u64 | quotients | remainders
"""

from __future__ import annotations

import math
import struct

import numpy as np

from duetlink.data.codecs.gradients.indices import bits
from duetlink.data.codecs.gradients.indices.base import Positions
from duetlink.errors import MalformedChunk

_HEAD = struct.Struct("<BQ")
HEAD_BITS = 8 * _HEAD.size


def predicted_bits(mean: float) -> float:
    """Return the expected bits per number, at the best k, for a geometric distribution from 0 on."""
    k = _first_guess(mean)
    return min(_bits_at(candidate, mean) for candidate in (max(k - 1, 0), k, k + 1))


def encode(numbers: Positions) -> bytes:
    """Encode numbers from 0 on, at the k that makes the fewest bytes."""
    k = _best(numbers)
    quotients = bits.pack_ends(np.cumsum((numbers >> k) + 1) - 1)
    return _HEAD.pack(k, len(quotients)) + quotients + bits.pack(numbers & ((1 << k) - 1), k)


def decode(payload: memoryview, count: int, most: int) -> Positions:
    """Return `count` numbers whose sum is at most `most`; raise MalformedChunk for others."""
    if len(payload) < _HEAD.size:
        raise MalformedChunk(f"Rice codes in {len(payload)} bytes")
    k, size = _HEAD.unpack_from(payload)
    body = payload[_HEAD.size :]
    if k > bits.MAX_WIDTH or size > len(body):
        raise MalformedChunk(f"Rice codes of {k} bits with quotients in {size} of {len(body)} bytes")
    ends = bits.unpack_ends(body[:size], count, count + (most >> k))
    quotients = np.diff(ends, prepend=-1) - 1
    numbers: Positions = (quotients << k) | bits.unpack(body[size:], count, k).astype(np.int64)
    return numbers


def _best(numbers: Positions) -> int:
    if not numbers.size:
        return 0
    k = _first_guess(float(numbers.mean()))
    candidates = {max(k - 1, 0), k, min(k + 1, bits.MAX_WIDTH)}
    return min(candidates, key=lambda k: int((numbers >> k).sum()) + k * numbers.size)


def _first_guess(mean: float) -> int:
    return max(0, round(math.log2(max(mean * math.log(2), 1))))


def _bits_at(k: int, mean: float) -> float:
    more = (mean / (mean + 1)) ** (1 << k) if mean else 0.0  # chance that a number is 2^k or larger
    return 1 + k + more / (1 - more)
