"""The upper half of a float32, rounded to nearest: 8 significant bits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import BFLOAT16, Element
from duetlink.data.codecs.lossy.narrow import Narrow
from duetlink.data.codecs.lossy.numbers import Floats, to_bfloat16


class Bfloat16(Narrow):
    """A relative error of 2^-8."""

    number: ClassVar[int] = 33
    name: ClassVar[str] = "bfloat16"
    narrow: ClassVar[Element] = BFLOAT16
    top: ClassVar[int] = 64  # far from both ends of its exponents

    def rounded(self, floats: Floats) -> Array:
        return to_bfloat16(floats.astype(np.float32, copy=False))

    def widened(self, items: Array) -> NDArray[np.float32]:
        return (items.view(np.uint16).astype(np.uint32) << 16).view(np.float32)
