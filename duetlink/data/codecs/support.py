"""The support of an array: a bitmap of the items that are not zero. Members combine theirs by "or".

Only an item whose bits are all 0 counts as zero; -0.0 does not. So an item outside of every member's support
is +0.0, or 0, in every sum.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import Element

# A multiple of 8 that stays in a core's cache as items and as bools.
_CHUNK_ITEMS = 1 << 15

Bitmap = NDArray[np.uint8]
Places = NDArray[np.int64]


def nonzero(flat: Array, element: Element) -> NDArray[np.bool_]:
    """Return a mask of the items that have any bit set."""
    words: NDArray[np.bool_] = flat.view(f"<u{min(element.size_bytes, 8)}") != 0
    return np.logical_or(words[0::2], words[1::2]) if element.size_bytes == 16 else words


def bitmap_of(flat: Array, element: Element) -> Bitmap:
    """Return one bit per item; the first item is the highest bit of the first byte. Padding bits are 0."""
    bitmap = np.empty((flat.size + 7) // 8, np.uint8)
    for start in range(0, flat.size, _CHUNK_ITEMS):
        packed = np.packbits(nonzero(flat[start : start + _CHUNK_ITEMS], element))
        bitmap[start // 8 : start // 8 + packed.size] = packed
    return bitmap


def places_of(bitmap: Bitmap, items: int) -> Places:
    """Return the indices of set bits, in order, ignoring bits beyond `items` that a peer may have set."""
    # as bools: NumPy finds set bools more than ten times as quickly as non-zero bytes
    used = np.flatnonzero(bitmap != 0)
    places: Places
    if used.size > bitmap.size // 2:
        places = np.flatnonzero(np.unpackbits(bitmap).view(np.bool_))
    else:
        bits = np.flatnonzero(np.unpackbits(bitmap[used]).view(np.bool_))
        places = (used[bits >> 3] << 3) + (bits & 7)
    return places if not places.size or places[-1] < items else places[places < items]


def count(bitmap: Bitmap) -> int:
    return int(np.bitwise_count(bitmap).sum(dtype=np.int64))
