"""The bytes unchanged: the fallback of every other codec."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from duetlink.data.codecs.base import BYTES, Array, Codec
from duetlink.data.codecs.element import Element


class Raw(Codec):
    """Identity. Decoding makes a view of the payload."""

    number: ClassVar[int] = 0
    name: ClassVar[str] = "raw"
    kind: ClassVar[str] = BYTES

    def encode(self, array: Array, element: Element, level: int) -> memoryview:
        return array.reshape(-1).view(np.uint8).data

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        return np.frombuffer(payload, element.storage).reshape(shape)
