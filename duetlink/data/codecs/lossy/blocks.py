"""Blocks of consecutive items, each with its own step, in 8 or 4 bits an item.

A payload is steps, multiples and kept blocks (levels.py, sections.py). Blocks of 256 items are those of
Dettmers et al. (arXiv:2110.02861), blocks of 64 those of QLoRA (arXiv:2305.14314).
"""

from __future__ import annotations

import math
from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import TENSOR, Array, Bound, Codec
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.lossy.levels import QuantisedBlocks, dequantise, quantise, step_bound
from duetlink.data.codecs.lossy.numbers import FLOATS, Floats, computed_in, from_floats, to_floats
from duetlink.data.codecs.lossy.sections import Sections, pack

_LEVELS = 7  # levels of each sign in 4 bits


class BlockCodec(Codec):
    """Blocks of consecutive items, each with its own step."""

    kind: ClassVar[str] = TENSOR
    block: ClassVar[int]  # items

    @property
    def lossless(self) -> bool:
        return False

    def accepts(self, element: Element) -> bool:
        return element in FLOATS

    def bound(self, element: Element, level: int) -> Bound:
        return step_bound(element, self.steps(level), 0.5)

    @abstractmethod
    def steps(self, level: int) -> int:
        """Return the number of steps from 0 to the largest magnitude of a block; at most 127."""

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return self._pack(quantise(to_floats(array, element), self.block, self.steps(level), _nearest))

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        items = math.prod(shape)
        quantised = self._unpack(Sections(payload), -(-items // self.block), computed_in(element))
        return from_floats(dequantise(quantised, items), element).reshape(shape)

    def _pack(self, quantised: QuantisedBlocks) -> bytes:
        return pack(quantised.steps, self._stored(quantised.multiples), quantised.kept)

    def _unpack(self, sections: Sections, blocks: int, dtype: np.dtype[np.floating[Any]]) -> QuantisedBlocks:
        steps = sections.take(dtype, blocks)
        kept = int(np.isnan(steps).sum())
        multiples = self._loaded(sections, (blocks - kept) * self.block).reshape(-1, self.block)
        found = QuantisedBlocks(
            steps, multiples, sections.take(dtype, kept * self.block).reshape(-1, self.block)
        )
        sections.end()
        return found

    def _stored(self, multiples: NDArray[np.int8]) -> Array:
        """Return the multiples in the form in which they are written."""
        return multiples

    def _loaded(self, sections: Sections, items: int) -> NDArray[np.int8]:
        """Read `items` multiples that `_stored` wrote."""
        return sections.take(np.int8, items)


def _nearest(multiples: Floats) -> Floats:
    return np.rint(multiples, out=multiples)


class Block8(BlockCodec):
    """127 levels of each sign: the nearest multiple of the block's largest magnitude / 127."""

    number: ClassVar[int] = 34
    name: ClassVar[str] = "block8"
    block: ClassVar[int] = 256

    def steps(self, level: int) -> int:
        return 127


class Block4(BlockCodec):
    """7 levels of each sign: the nearest multiple of the block's largest magnitude / 7.

    A byte holds two items, the first in its low half.
    """

    number: ClassVar[int] = 35
    name: ClassVar[str] = "block4"
    block: ClassVar[int] = 64

    def steps(self, level: int) -> int:
        return _LEVELS

    def _stored(self, multiples: NDArray[np.int8]) -> Array:
        nibbles = (multiples + np.int8(_LEVELS)).view(np.uint8).reshape(-1, 2)
        return nibbles[:, 0] | nibbles[:, 1] << 4

    def _loaded(self, sections: Sections, items: int) -> NDArray[np.int8]:
        packed = sections.take(np.uint8, items // 2)
        nibbles = np.empty((packed.size, 2), np.uint8)
        nibbles[:, 0] = packed & 15
        nibbles[:, 1] = packed >> 4
        return nibbles.view(np.int8) - np.int8(_LEVELS)
