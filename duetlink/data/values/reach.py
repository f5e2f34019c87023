"""Limit the work of visiting a peer's array once, in proportion to its memory.

Items of 0 bytes, rows without columns and fields that overlap can turn a short message into an array that
would take a lifetime to print or copy. The arithmetic uses Python integers, which do not overflow.
"""

from __future__ import annotations

from collections.abc import Sequence

from duetlink.errors import MalformedValue

# Rows without memory that an array or a table may have: visiting 2^24 takes less than a second.
FREE_ITEMS = 1 << 24
_MOST_SHARE = 16  # times that each byte may be shown, by fields that overlap


def check(shape: Sequence[int], size_bytes: int, item_work: int = 1) -> None:
    """Raise MalformedValue for an array of this shape and memory that shows far more than it holds.

    `item_work` is the number of bytes and items that reading one item visits.
    """
    visited = item_work
    for length in shape:
        if length == 0:
            break
        visited *= length
    if visited > _MOST_SHARE * size_bytes + FREE_ITEMS:
        raise MalformedValue(
            f"an array of shape {tuple(shape)[:8]} shows {visited:,} items or bytes in {size_bytes:,} bytes"
        )
