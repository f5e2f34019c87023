"""Blosc2: bits of the same rank side by side, and zstd."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.base import TENSOR
from duetlink.data.codecs.blosc2_frame import BITSHUFFLE, ZSTD, Blosc2Codec


class Blosc2Bitshuffle(Blosc2Codec):
    """For integers of which few bits vary."""

    number: ClassVar[int] = 18
    name: ClassVar[str] = "bitshuffle"
    kind: ClassVar[str] = TENSOR
    level: ClassVar[int] = 3
    compressor: ClassVar[int] = ZSTD
    filters: ClassVar[tuple[int, ...]] = (BITSHUFFLE,)
