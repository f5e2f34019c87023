"""Four bits an item: 7 levels of each sign per block of 64, the block size of QLoRA (arXiv:2305.14314)."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import Array
from duetlink.data.codecs.lossy.blocks import BlockCodec
from duetlink.data.codecs.lossy.sections import Sections

_OFFSET = 7


class Block4(BlockCodec):
    """The nearest multiple of the block's largest magnitude / 7; two in a byte, the first in its low half."""

    number: ClassVar[int] = 35
    name: ClassVar[str] = "block4"
    block: ClassVar[int] = 64

    def steps(self, level: int) -> int:
        return _OFFSET

    def _stored(self, multiples: NDArray[np.int8]) -> Array:
        nibbles = (multiples + np.int8(_OFFSET)).view(np.uint8).reshape(-1, 2)
        return nibbles[:, 0] | nibbles[:, 1] << 4

    def _loaded(self, sections: Sections, items: int) -> NDArray[np.int8]:
        packed = sections.take(np.uint8, items // 2)
        nibbles = np.empty((packed.size, 2), np.uint8)
        nibbles[:, 0] = packed & 15
        nibbles[:, 1] = packed >> 4
        return nibbles.view(np.int8) - np.int8(_OFFSET)
