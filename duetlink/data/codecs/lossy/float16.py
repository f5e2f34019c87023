"""IEEE 754 binary16: 11 significant bits."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import BY_NAME, Element
from duetlink.data.codecs.lossy.narrow import Narrow
from duetlink.data.codecs.lossy.numbers import Floats


class Float16(Narrow):
    """A relative error of 2^-11, and what is below 2^-38 of its block's largest may vanish."""

    number: ClassVar[int] = 32
    name: ClassVar[str] = "float16"
    narrow: ClassVar[Element] = BY_NAME["float16"]
    top: ClassVar[int] = 15

    def rounded(self, floats: Floats) -> Array:
        return floats.astype(np.float16)

    def widened(self, items: Array) -> NDArray[np.float16]:
        return items.view(np.float16)
