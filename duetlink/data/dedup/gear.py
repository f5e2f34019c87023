"""The gear fingerprint at every position of a byte stream, by NumPy.

Gear (Xia et al., "Ddelta", Performance Evaluation 2014; used by FastCDC, ATC 2016) rolls over the bytes: h =
(h << 1) + TABLE[byte], modulo 2^16 here. A byte is shifted out after 16 steps, so h depends on the last 16
bytes alone, and is computed for all positions at once by doubling the window four times:

    h_1(i) = TABLE[byte i]        h_2w(i) = h_w(i) + (h_w(i - w) << w)

It runs block by block, in memory that stays in the cache; NumPy releases the GIL in each step. The rank of a
position is the number of leading zeros of the fingerprint there, at most 11; if it is 11, those of the
fingerprint 16 bytes before are added. So 32 bytes of content decide, and chunks may be large although the
words are small.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from duetlink.data.dedup.pieces import Pieces

GEAR_BYTES = 16
WINDOW_BYTES = 2 * GEAR_BYTES
SIEVE_BITS = 11
MAX_BITS = SIEVE_BITS + 16
BLOCK_BYTES = 128 << 10

# Both sides must use this table, in every version: cut points depend on it. Runs of one byte value have few
# candidates.
TABLE: NDArray[np.uint16] = np.frombuffer(hashlib.shake_256(b"duetlink gear 1").digest(512), "<u2").astype(
    np.uint16
)
# Indexed by two bytes at once: half as many look-ups.
_PAIRS: NDArray[np.uint32] = TABLE[np.arange(1 << 16, dtype=np.uint16).view(np.uint8)].view(np.uint32)


class Gear:
    """Working memory for blocks of up to `block_bytes` bytes. One thread at a time may use it."""

    def __init__(self, block_bytes: int = BLOCK_BYTES) -> None:
        self._block_bytes = block_bytes
        self._prints = np.empty(block_bytes + WINDOW_BYTES, np.uint16)
        self._shifted = np.empty_like(self._prints)
        self._sieved = np.empty(len(self._prints), np.bool_)

    def fingerprints(self, data: memoryview) -> NDArray[np.uint16]:
        """Return a fingerprint per byte, of up to 16 bytes that end with it; valid until the next call."""
        prints = self._prints[: len(data)]
        shifted = self._shifted[: len(data)]
        even = len(data) & ~1
        pairs = np.frombuffer(data[:even], np.uint16)
        # no index is out of bounds: the mode only spares the copy that mode "raise" makes
        _PAIRS.take(pairs, out=prints[:even].view(np.uint32), mode="wrap")
        if even < len(data):
            prints[even] = TABLE[data[even]]
        width = 1
        while width < GEAR_BYTES:
            np.left_shift(prints[:-width], width, out=shifted[:-width])
            prints[width:] += shifted[:-width]
            width *= 2
        return prints

    def scan(
        self, pieces: Pieces, start: int, end: int, bits: int, more_bits: int
    ) -> Iterator[tuple[int, list[int], list[int]]]:
        """Yield, for each block from `start` to `end`, its end and two lists of positions to cut at.

        They are the positions after a byte of rank `bits` or more, and among those the ones of rank
        `more_bits` or more. 11 <= bits <= more_bits <= 27. The first position is after 32 bytes.
        """
        for block in range(start, end, self._block_bytes):
            block_end = min(block + self._block_bytes, end)
            first = max(block - WINDOW_BYTES + 1, start)
            prints = self.fingerprints(pieces.view(first, block_end))
            sieved = self._sieved[: len(prints)]
            found = np.flatnonzero(np.less(prints, 1 << (16 - SIEVE_BITS), out=sieved))
            found = found[found >= WINDOW_BYTES - 1]
            before = prints[found - GEAR_BYTES]
            common = found[before < 1 << (MAX_BITS - bits)]
            rare = found[before < 1 << (MAX_BITS - more_bits)]
            yield block_end, (common + (first + 1)).tolist(), (rare + (first + 1)).tolist()
