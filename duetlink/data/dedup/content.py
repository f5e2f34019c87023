"""Content-defined chunks of a byte stream: FastCDC's normalised chunking (Xia et al., ATC 2016, section 4).

A chunk ends after a byte whose rank (`gear.py`) is high enough: two above the target's logarithm until the
chunk has its target size, two below from then on (level 2 of the paper). Unlike in the paper, the window
continues across a cut: the 32 bytes before a position alone decide whether it is a candidate, and only the
choice among candidates depends on the cut before.
"""

from __future__ import annotations

from bisect import bisect_left

from duetlink.data.dedup.gear import Gear
from duetlink.data.dedup.pieces import Pieces

NORMALISATION_BITS = 2


def smallest(target_bytes: int) -> int:
    """Return the least size of a chunk, except for the last one of a stream."""
    return target_bytes // 4


def largest(target_bytes: int) -> int:
    return target_bytes * 8


def content_sizes(pieces: Pieces, start: int, end: int, target_bytes: int, gear: Gear) -> list[int]:
    """Return the sizes of the chunks from `start` to `end`. `target_bytes` is a power of two.

    The loop takes one step per block and per chunk; between blocks only the start of the current chunk is
    kept.
    """
    bits = target_bytes.bit_length() - 1
    least, most = smallest(target_bytes), largest(target_bytes)
    sizes: list[int] = []
    scan = gear.scan(pieces, start, end, bits - NORMALISATION_BITS, bits + NORMALISATION_BITS)
    for block_end, common, rare in scan:
        while True:
            middle, last = start + target_bytes, start + most
            rare_at = bisect_left(rare, start + least)
            common_at = bisect_left(common, middle)
            if rare_at < len(rare) and rare[rare_at] < middle:
                cut = rare[rare_at]
            elif common_at < len(common) and common[common_at] < last:
                cut = common[common_at]
            elif last <= block_end:
                cut = last
            else:
                break
            sizes.append(cut - start)
            start = cut
    if start < end:
        sizes.append(end - start)
    return sizes
