"""Numbers in unary, one after another: that many 0 bits, then a 1."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import MalformedChunk


def pack_ends(ends: NDArray[np.int64]) -> bytes:
    """A bit string with ones at `ends` (sorted, unique), and zeros to the end of the last one's byte."""
    bits = np.zeros(int(ends[-1]) + 1 if ends.size else 0, np.bool_)
    bits[ends] = True
    return np.packbits(bits).tobytes()


def unpack_ends(payload: memoryview, count: int, most_bits: int) -> NDArray[np.int64]:
    """Where the ones are; raises MalformedChunk unless there are `count`, within `most_bits` and a byte."""
    if len(payload) > most_bits // 8 + 1:
        raise MalformedChunk(f"{len(payload)} bytes of at most {most_bits} bits")
    bits = np.unpackbits(np.frombuffer(payload, np.uint8))
    ones = np.count_nonzero(bits)
    if ones != count:
        raise MalformedChunk(f"{ones} ones where {count} should be")
    return np.flatnonzero(bits)
