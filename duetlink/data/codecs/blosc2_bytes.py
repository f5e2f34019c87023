"""Blosc2: bytes of the same rank side by side, and LZ4."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.base import BYTES
from duetlink.data.codecs.blosc2_frame import LZ4, SHUFFLE, Blosc2Codec


class Blosc2(Blosc2Codec):
    """The quickest of the three."""

    number: ClassVar[int] = 5
    name: ClassVar[str] = "blosc2"
    kind: ClassVar[str] = BYTES
    level: ClassVar[int] = 5
    compressor: ClassVar[int] = LZ4
    filters: ClassVar[tuple[int, ...]] = (SHUFFLE,)
