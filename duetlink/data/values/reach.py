"""How much work it is to go through an array once, of which its sender decides: bounded by its memory.

Items of 0 bytes, rows without columns and fields that overlap can make a short message an array that nobody
can print or copy within a lifetime. Python integers are used: they do not overflow.
"""

from __future__ import annotations

from collections.abc import Sequence

from duetlink.errors import MalformedValue

# Rows without memory that an array or a table may have: 2^24 are gone through within a second.
FREE_ITEMS = 1 << 24
_MOST_SHARE = 16  # how often each byte may be shown, by fields that overlap


def check(shape: Sequence[int], size_bytes: int, item_work: int = 1) -> None:
    """Raises MalformedValue for an array of this shape and memory that shows far more than it holds.

    `item_work` is how many bytes and items are looked at when one item is.
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
