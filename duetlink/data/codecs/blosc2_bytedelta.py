"""Blosc2: bytes of the same rank side by side, the difference of each to the one before, and zstd."""

from __future__ import annotations

from typing import ClassVar

from duetlink.data.codecs.base import TENSOR
from duetlink.data.codecs.blosc2_frame import BYTEDELTA, SHUFFLE, ZSTD, Blosc2Codec


class Blosc2Bytedelta(Blosc2Codec):
    """For what changes slowly along the array."""

    number: ClassVar[int] = 19
    name: ClassVar[str] = "bytedelta"
    kind: ClassVar[str] = TENSOR
    level: ClassVar[int] = 1
    compressor: ClassVar[int] = ZSTD
    filters: ClassVar[tuple[int, ...]] = (SHUFFLE, BYTEDELTA)
