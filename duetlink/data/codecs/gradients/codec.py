"""The base of gradient codecs: float32 items, some of them left out."""

from __future__ import annotations

import math
from typing import ClassVar

from duetlink.data.codecs.base import GRADIENT, Bound, Codec
from duetlink.data.codecs.element import FLOAT32, Element


class GradientCodec(Codec):
    """A codec without an error bound: a compressor must remember what it leaves out."""

    kind: ClassVar[str] = GRADIENT

    @property
    def lossless(self) -> bool:
        return False

    def accepts(self, element: Element) -> bool:
        return element == FLOAT32

    def bound(self, element: Element, level: int) -> Bound:
        return Bound(math.inf, math.inf)
