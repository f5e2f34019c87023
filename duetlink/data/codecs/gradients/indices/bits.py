"""Numbers in few bits or in unary, most significant bit first, vectorised."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from duetlink.errors import MalformedChunk

MAX_WIDTH = 56  # a number and up to 7 bits before it in its first byte fit 64 bits

Words: TypeAlias = NDArray[np.uint64]
Widths: TypeAlias = NDArray[np.int64]


def byte_count(bits: int) -> int:
    return -(-bits // 8)


def pack(values: NDArray[np.integer], widths: Widths | int) -> bytes:
    """Write `values` (n,), each below 2^width, in `widths` bits each; zeros fill the last byte.

    The bytes of all numbers are added up, since no two numbers share a bit.
    """
    words = values.astype(np.uint64)
    ends = np.cumsum(np.broadcast_to(widths, words.shape), dtype=np.int64)
    total = int(ends[-1]) if ends.size else 0
    found = np.zeros(byte_count(total) + 8, np.uint8)
    first = (ends - widths) >> 3
    words <<= np.minimum(64 - (ends - (first << 3)), 63).astype(np.uint64)  # 64: a number of no bits, 0
    used = byte_count(7 + int(np.max(widths, initial=0)))
    for byte in range(used):
        part = (words >> np.uint64(56 - 8 * byte)) & np.uint64(255)
        sums = np.bincount(first, weights=part)
        found[byte : byte + sums.size] += sums.astype(np.uint8)
    return found[: byte_count(total)].tobytes()


def unpack(payload: memoryview, count: int, width: int) -> Words:
    """Return `count` numbers of one width; raise MalformedChunk unless the payload has exactly their size."""
    if not 0 <= width <= MAX_WIDTH or len(payload) != byte_count(count * width):
        raise MalformedChunk(f"{count} numbers of {width} bits in {len(payload)} bytes")
    return take(readable(payload), np.arange(count, dtype=np.int64) * width, width)


def readable(payload: memoryview) -> NDArray[np.uint8]:
    """Return a copy of the payload for `take`, padded so that the last number can be read as 8 bytes."""
    padded = np.zeros(len(payload) + 8, np.uint8)
    padded[: len(payload)] = np.frombuffer(payload, np.uint8)
    return padded


def take(padded: NDArray[np.uint8], starts: Widths, widths: Widths | int) -> Words:
    """Return the numbers at bit positions `starts` (n,), none beyond the end of the payload."""
    first = starts >> 3
    words = np.zeros(starts.size, np.uint64)
    for byte in range(byte_count(7 + int(np.max(widths, initial=0)))):
        words |= padded[first + byte].astype(np.uint64) << np.uint64(56 - 8 * byte)
    words <<= (starts & 7).astype(np.uint64)
    shift = 64 - np.asarray(widths, np.int64)
    return np.where(shift == 64, np.uint64(0), words >> np.minimum(shift, 63).astype(np.uint64))


def pack_ends(ends: NDArray[np.int64]) -> bytes:
    """Write numbers in unary, each as that many 0 bits and a 1, given the positions of the ones.

    `ends` are sorted and unique; zeros fill the last byte.
    """
    ones = np.zeros(int(ends[-1]) + 1 if ends.size else 0, np.bool_)
    ones[ends] = True
    return np.packbits(ones).tobytes()


def unpack_ends(payload: memoryview, count: int, most_bits: int) -> NDArray[np.int64]:
    """Return the positions of the ones; raise MalformedChunk unless `count` lie within `most_bits`."""
    if len(payload) > most_bits // 8 + 1:
        raise MalformedChunk(f"{len(payload)} bytes of at most {most_bits} bits")
    found = np.unpackbits(np.frombuffer(payload, np.uint8))
    ones = np.count_nonzero(found)
    if ones != count:
        raise MalformedChunk(f"{ones} ones where {count} should be")
    return np.flatnonzero(found)
