"""Natural compression (Horvath et al., MSML 2022, arXiv:1905.10988): sign and exponent.

A number between two powers of two is rounded to one of them at random, so that its expected value is the
number: random bits are added to the mantissa, the carry goes into the exponent, and the mantissa is dropped.

    exponents | signs, one bit each | items kept unchanged                                  (sections.py)

Exponents are bytes, or u16 for float64. Items that are kept have the exponent of infinity: infinities, NaNs,
subnormal numbers, and numbers whose next power of two is beyond the largest number.
"""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import TENSOR, Array, Bound
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.lossy.numbers import FLOATS
from duetlink.data.codecs.lossy.sections import Sections, pack
from duetlink.data.codecs.lossy.stochastic import Stochastic


class Natural(Stochastic):
    """Unbiased; an item becomes at most twice itself, and at least half."""

    number: ClassVar[int] = 37
    name: ClassVar[str] = "natural"
    kind: ClassVar[str] = TENSOR

    @property
    def lossless(self) -> bool:
        return False

    def accepts(self, element: Element) -> bool:
        return element in FLOATS

    def bound(self, element: Element, level: int) -> Bound:
        return Bound(1.0)

    def encode_by(self, chance: np.random.Philox, array: Array, element: Element, level: int) -> bytes:
        words = array.reshape(-1).view(_word(element))
        magnitudes = words & words.dtype.type(_infinity(element) | _fraction(element))
        kept = (magnitudes > _infinity(element) - _fraction(element) - 1) | (
            (magnitudes <= _fraction(element)) & (magnitudes != 0)
        )
        up = _random(chance, words) & words.dtype.type(_fraction(element))
        up[magnitudes == 0] = 0
        magnitudes += up
        magnitudes >>= words.dtype.type(element.mantissa_bits)
        magnitudes[kept] = _infinity(element) >> element.mantissa_bits
        signs = words >> words.dtype.type(8 * element.size_bytes - 1)
        return pack(magnitudes.astype(_exponent(element)), np.packbits(signs.astype(np.bool_)), words[kept])

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        items = math.prod(shape)
        sections = Sections(payload)
        exponents = sections.take(_exponent(element), items)
        signs = np.unpackbits(sections.take(np.uint8, -(-items // 8)), count=items)
        kept = exponents >= _infinity(element) >> element.mantissa_bits
        words = exponents.astype(_word(element)) << element.mantissa_bits
        words |= signs.astype(words.dtype) << (8 * element.size_bytes - 1)
        words[kept] = sections.take(words.dtype, int(kept.sum()))
        sections.end()
        return words.view(element.storage).reshape(shape)


def _word(element: Element) -> np.dtype[np.unsignedinteger]:
    return np.dtype(f"<u{element.size_bytes}")


def _exponent(element: Element) -> np.dtype[np.unsignedinteger]:
    return np.dtype(np.uint8 if element.exponent_bits <= 8 else np.uint16)


def _infinity(element: Element) -> int:
    return ((1 << element.exponent_bits) - 1) << element.mantissa_bits


def _fraction(element: Element) -> int:
    return (1 << element.mantissa_bits) - 1


def _random(chance: np.random.Philox, words: NDArray[Any]) -> NDArray[Any]:
    found: NDArray[np.uint64] = chance.random_raw(-(-words.nbytes // 8))
    return found.view(words.dtype)[: words.size]
