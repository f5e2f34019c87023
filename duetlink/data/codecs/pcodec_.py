"""Pcodec (https://github.com/pcodec/pcodec): bins of numbers, ANS codes of the bins, offsets within them.

Its numbers are 8 to 64 bits wide. Formats that it does not know are passed as the unsigned integers that hold
them; a complex number is passed as two real ones.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np
import pcodec
from pcodec import standalone

from duetlink.data.codecs.base import TENSOR, Array, Codec
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk

_HELD_AS = {"bool": "uint8", "complex64": "float32", "complex128": "float64"}


class Pcodec(Codec):
    """One standalone file. Every bit is kept, also those of NaNs and zeros."""

    number: ClassVar[int] = 16
    name: ClassVar[str] = "pcodec"
    kind: ClassVar[str] = TENSOR
    levels: ClassVar[range] = range(13)
    level: ClassVar[int] = 8
    overhead_bytes: ClassVar[int] = 36  # its table of bins

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        config = pcodec.ChunkConfig(compression_level=level, enable_8_bit=True)
        found: bytes = standalone.simple_compress(array.reshape(-1).view(_numbers(element)), config)
        return found

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        array = np.zeros(math.prod(shape), element.storage)
        numbers = array.view(_numbers(element))
        try:
            progress = standalone.simple_decompress_into(bytes(payload), numbers)
        except BaseException as error:
            if type(error).__name__ != "PanicException":  # a failed check in Rust is no Exception
                raise
            raise MalformedChunk(f"pcodec gave up on {len(payload)} bytes: {error}") from error
        if progress.n_processed != numbers.size or not progress.finished:
            raise MalformedChunk(f"a pcodec file that does not hold {numbers.size} numbers")
        return array.reshape(shape)


def _numbers(element: Element) -> np.dtype[np.generic]:
    return np.dtype(_HELD_AS.get(element.name, element.storage))
