"""Numbers in a narrower float format, with an exponent per block, so that nothing overflows or vanishes.

Each block of 4096 items is scaled by a power of two that brings its largest finite magnitude near the top of
the narrow format. The narrow items go through the planes codec.

    exponents i16 (sections.py) | planes of the narrow items
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import TENSOR, Array, Bound, Codec
from duetlink.data.codecs.element import BFLOAT16, BY_NAME, Element
from duetlink.data.codecs.lossy.numbers import FLOATS, Floats, computed_in, rounding, to_bfloat16, to_floats
from duetlink.data.codecs.lossy.sections import Sections, pack
from duetlink.data.codecs.planes import Planes

BLOCK = 4096


class Narrow(Codec):
    """A float format of 16 bits for float32 and float64. Infinities stay; NaNs stay NaNs."""

    kind: ClassVar[str] = TENSOR
    narrow: ClassVar[Element]
    top: ClassVar[int]  # scaled magnitudes are below 2^top

    @property
    def lossless(self) -> bool:
        return False

    def accepts(self, element: Element) -> bool:
        return element in FLOATS and element.size_bytes > self.narrow.size_bytes

    def bound(self, element: Element, level: int) -> Bound:
        # the narrow format's smallest number, over a largest one of 2^(top - 1)
        least = 2 - (1 << self.narrow.exponent_bits - 1) - self.narrow.mantissa_bits
        return Bound(rounding(self.narrow), math.ldexp(1.0, least - (self.top - 1)))

    @abstractmethod
    def rounded(self, floats: Floats) -> Array:
        """Round to the nearest narrow items; return them flat."""

    @abstractmethod
    def widened(self, items: Array) -> NDArray[np.float32] | NDArray[np.float16]:
        """Return narrow items as NumPy floats."""

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        floats = to_floats(array, element)
        exponents = _exponents(floats)
        scaled = _scaled(floats, self.top - exponents)
        return pack(exponents) + Planes().encode(self.rounded(scaled), self.narrow, 1)

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        items = math.prod(shape)
        sections = Sections(payload)
        exponents = sections.take(np.int16, -(-items // BLOCK))
        narrow = self.widened(Planes().decode(sections.rest(), self.narrow, (items,)))
        floats = narrow.astype(computed_in(element), copy=False)
        found = _scaled(floats, exponents - np.int32(self.top))
        beyond = np.isinf(found) & np.isfinite(floats)  # rounded up from below the largest number
        if beyond.any():
            found[beyond] = np.copysign(np.finfo(found.dtype).max, found[beyond])
        return found.reshape(shape)


def _exponents(floats: Floats) -> NDArray[np.int16]:
    """Return, per block, the e with 2^(e-1) <= largest finite magnitude < 2^e."""
    starts = np.arange(0, floats.size, BLOCK)
    if not starts.size:
        return np.zeros(0, np.int16)
    magnitudes = np.abs(floats)
    largest = np.maximum.reduceat(magnitudes, starts)
    if not np.isfinite(largest).all():
        magnitudes[~np.isfinite(magnitudes)] = 0
        largest = np.maximum.reduceat(magnitudes, starts)
    return np.frexp(largest)[1].astype(np.int16)


def _scaled(floats: Floats, exponents: NDArray[np.integer]) -> Floats:
    """Multiply each block by 2^exponent: exact unless the result is subnormal.

    It takes two factors, since a single one may overflow.
    """
    halves = np.asarray(exponents, np.int32) >> 1
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        first = np.ldexp(floats.dtype.type(1), halves)
        second = np.ldexp(floats.dtype.type(1), np.asarray(exponents, np.int32) - halves)
        found: Floats = _by_block(floats, first)
        return _by_block(found, second)


def _by_block(floats: Floats, factors: Floats) -> Floats:
    found = np.empty_like(floats)
    whole = floats.size // BLOCK
    np.multiply(
        floats[: whole * BLOCK].reshape(whole, BLOCK),
        factors[:whole, None],
        out=found[: whole * BLOCK].reshape(whole, BLOCK),
    )
    np.multiply(floats[whole * BLOCK :], factors[whole:], out=found[whole * BLOCK :])
    return found


class Float16(Narrow):
    """IEEE 754 binary16: 11 significant bits. The relative error is at most 2^-11.

    Items below 2^-38 of their block's largest may vanish.
    """

    number: ClassVar[int] = 32
    name: ClassVar[str] = "float16"
    narrow: ClassVar[Element] = BY_NAME["float16"]
    top: ClassVar[int] = 15

    def rounded(self, floats: Floats) -> Array:
        return floats.astype(np.float16)

    def widened(self, items: Array) -> NDArray[np.float16]:
        return items.view(np.float16)


class Bfloat16(Narrow):
    """The upper half of a float32, rounded to nearest: 8 significant bits. A relative error of 2^-8."""

    number: ClassVar[int] = 33
    name: ClassVar[str] = "bfloat16"
    narrow: ClassVar[Element] = BFLOAT16
    top: ClassVar[int] = 64  # far from both ends of its exponents

    def rounded(self, floats: Floats) -> Array:
        return to_bfloat16(floats.astype(np.float32, copy=False))

    def widened(self, items: Array) -> NDArray[np.float32]:
        return (items.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
