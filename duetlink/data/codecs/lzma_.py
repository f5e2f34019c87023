"""LZMA2, as in xz, without xz's container: the chunk has the size and the checksum.

A container says how large a dictionary its reader must allocate. Here both sides know the size of the array,
and no dictionary is larger.
"""

from __future__ import annotations

import lzma
from typing import Any, ClassVar

import numpy as np

from duetlink.data.codecs.base import BYTES, Array, Codec, array_bytes
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk

# dictionary sizes of liblzma's presets 0 to 9
_PRESET_DICTIONARY_BYTES = tuple(1 << bits for bits in (18, 20, 21, 22, 22, 23, 23, 24, 25, 26))
_MIN_DICTIONARY_BYTES = 4096


class Lzma(Codec):
    """One raw LZMA2 stream."""

    number: ClassVar[int] = 2
    name: ClassVar[str] = "lzma"
    kind: ClassVar[str] = BYTES
    levels: ClassVar[range] = range(10)
    level: ClassVar[int] = 6

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        filters = _filters(array.nbytes, level)
        return lzma.compress(array.reshape(-1).view(np.uint8).data, lzma.FORMAT_RAW, filters=filters)

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        size_bytes = array_bytes(element, shape)
        stream = lzma.LZMADecompressor(lzma.FORMAT_RAW, filters=_filters(size_bytes, self.levels[-1]))
        found = stream.decompress(payload, size_bytes + 1)
        if len(found) != size_bytes or not stream.eof or stream.unused_data:
            raise MalformedChunk(f"an LZMA2 stream that does not hold {size_bytes} bytes")
        return np.frombuffer(found, element.storage).reshape(shape)


def _filters(size_bytes: int, level: int) -> list[dict[str, Any]]:
    dictionary_bytes = max(min(_PRESET_DICTIONARY_BYTES[level], size_bytes), _MIN_DICTIONARY_BYTES)
    return [{"id": lzma.FILTER_LZMA2, "preset": level, "dict_size": dictionary_bytes}]
