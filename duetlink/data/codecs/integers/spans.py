"""The highest and lowest bit that the items of a block use, to choose and justify a shared exponent.

Theory. A float is an integer times a power of two. If all items of a block, of all members, are multiples of
2^low and smaller than 2^(top + 1), so are all sums of some of them, up to ceil(log2 n) bits more above. As
long as such a sum has no more bits than a mantissa, floating point addition does not round it, in any order:
then the sum of the integers and the sum of the floats are the same number, in the same bits.

This does not hold for -0.0 (integers have one zero), NaN and infinity. Subnormal items are left out with
them. A bit's position is given as the exponent of a float whose leading bit it is, without the bias, so 1.0
has bit 0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.element import Element
from duetlink.data.codecs.integers.floats import bits_of

BLOCK_ITEMS = 256  # two exponents of 2 bytes for 1 KiB of float32: 0.4 %
SPECIAL = 32767  # the "highest bit" of a block with items that integers cannot represent
NONE = -32768  # the "bits" of a block that is all zero
_CHUNK_BLOCKS = 128  # blocks processed together, in a core's cache

Exponents = NDArray[np.int16]


@dataclass(frozen=True, slots=True)
class Spans:
    """The highest bit of each block, and the negative of its lowest bit.

    Two members' spans are combined by taking the larger value of each.
    """

    top: Exponents
    neg_low: Exponents

    @classmethod
    def of(cls, array: NDArray[Any], element: Element, *, lows: bool = True) -> Spans:
        """Return the spans of a flat array of the element's storage, which is a floating point format.

        Without `lows` the lowest bits are not computed, and nothing can be proven.
        """
        blocks = -(-array.size // BLOCK_ITEMS)
        top = np.empty(blocks, np.int16)
        neg_low = np.empty(blocks, np.int16)
        words = bits_of(array, element)
        step = _CHUNK_BLOCKS * BLOCK_ITEMS
        for start in range(0, array.size, step):
            part = words[start : start + step]
            short = -part.size % BLOCK_ITEMS
            if short:
                part = np.concatenate([part, np.zeros(short, part.dtype)])
            rows = part.reshape(-1, BLOCK_ITEMS)
            first = start // BLOCK_ITEMS
            top[first : first + len(rows)], neg_low[first : first + len(rows)] = _spans(rows, element, lows)
        return cls(top, neg_low)

    @classmethod
    def from_flat(cls, flat: Exponents) -> Spans:
        """Return the spans from their `flat` form."""
        half = flat.size // 2
        return cls(flat[:half], flat[half:])

    @property
    def flat(self) -> Exponents:
        """The concatenation of both arrays, to be combined with those of the other members by "max"."""
        return np.concatenate([self.top, self.neg_low])

    def special(self) -> NDArray[np.bool_]:
        """Return a mask of the blocks that contain NaN, an infinity, -0.0 or a subnormal number."""
        special: NDArray[np.bool_] = self.top == SPECIAL
        return special

    def proven(self, element: Element, members: int) -> NDArray[np.bool_]:
        """Return a mask of the blocks in which every order of additions gives the exact sum."""
        top, low = self.top.astype(np.int32), -self.neg_low.astype(np.int32)
        highest = top + (members - 1).bit_length()  # highest possible bit of a sum
        fits = highest - low + 1 <= element.mantissa_bits + 1
        in_range = highest <= largest_exponent(element)
        proven: NDArray[np.bool_] = (self.top == NONE) | (~self.special() & fits & in_range)
        return proven

    def width_bits(self, members: int) -> NDArray[np.int32]:
        """Return the bits of signed integers that hold every sum exactly; undefined for special blocks."""
        top, low = self.top.astype(np.int32), -self.neg_low.astype(np.int32)
        width = top + (members - 1).bit_length() - low + 2
        return np.where(self.top == NONE, 1, width)


def largest_exponent(element: Element) -> int:
    return (1 << (element.exponent_bits - 1)) - 1


def _spans(rows: NDArray[Any], element: Element, lows: bool) -> tuple[NDArray[Any], NDArray[Any]]:
    """Return the highest bit and the negative of the lowest bit of each row of words."""
    word, mantissa, bias = rows.dtype.type, element.mantissa_bits, largest_exponent(element)
    magnitude = rows << word(1)
    smallest_normal = word(1 << (mantissa + 1))
    odd = (magnitude < smallest_normal) & (rows != 0)  # -0.0, or a subnormal number
    largest = magnitude.max(axis=1)
    top = (largest >> word(mantissa + 1)).astype(np.int32) - bias
    zero = largest == 0
    wrong = odd.any(axis=1) | (top > bias)
    tops = np.where(wrong, SPECIAL, np.where(zero, NONE, top))
    if not lows:
        return tops, np.full_like(tops, SPECIAL)
    # isolate the lowest set bit, a power of two; converting it to a float gives its exponent
    whole = (rows & word((1 << mantissa) - 1)) | word(1 << mantissa)
    whole &= ~whole + word(1)
    wide, shift, wide_bias = (np.uint64, 52, 1023) if rows.itemsize == 8 else (np.uint32, 23, 127)
    lowest = whole.astype(np.float64 if rows.itemsize == 8 else np.float32).view(wide) >> wide(shift)
    lowest += (magnitude >> word(mantissa + 1)).astype(wide)
    lowest[rows == 0] = np.iinfo(wide).max
    low = lowest.min(axis=1).astype(np.int64) - (wide_bias + bias + mantissa)
    return tops, np.where(wrong, SPECIAL, np.where(zero, NONE, -low))
