"""Blosc2 with fixed filters, one chunk each (https://github.com/Blosc/c-blosc2, README_CHUNK_FORMAT.rst).

The library believes the header of a chunk: sizes beyond its buffers, filters and codecs that it would load
from plugins, memory left as it was. So the header is compared, byte by byte, with the only ones that `encode`
makes, and the library sees none that differs.

Blosc2 is an optional library. It takes up to half a second to import: that is left to the first use, or to
the tuner, who loads it after a transfer that it might have made faster.
"""

from __future__ import annotations

import functools
import importlib
import importlib.util
import struct
from types import ModuleType
from typing import ClassVar

import numpy as np

from duetlink.data.codecs.base import BYTES, TENSOR, Array, Codec, array_bytes
from duetlink.data.codecs.element import Element
from duetlink.errors import MalformedChunk

if importlib.util.find_spec("blosc2") is None:
    raise ModuleNotFoundError("no blosc2", name="blosc2")

# version, version of the codec's format, flags, item size, array, block and chunk bytes,
# 6 filters, codec, its parameter, 6 parameters of filters, reserved, more flags
_HEADER = struct.Struct("<BBBBiii6s2s6sBB")
_EXTENDED, _COPIED, _NOT_SPLIT = 0x05, 0x02, 0x10
_ALL_ZERO = 0x10
_SHUFFLE, _BITSHUFFLE, _BYTEDELTA = 1, 2, 35
_LZ4, _ZSTD = 1, 5  # as arguments, and in the codec byte of the header
_FORMAT = {_LZ4: 1 << 5, _ZSTD: 4 << 5}  # in the header's flags


class Blosc2Codec(Codec):
    """The base of the codecs on Blosc2. An empty array is an empty payload. At most 2 GiB."""

    levels: ClassVar[range] = range(1, 10)
    compressor: ClassVar[int]
    filters: ClassVar[tuple[int, ...]]

    @property
    def ready(self) -> bool:
        return _library.cache_info().currsize == 1  # sys.modules has it already during the import

    def load(self) -> None:
        _library()

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        if not array.size:
            return b""
        filters = self._filters(element)
        chunk: bytes = _library().compress2(
            array.reshape(-1).view(np.uint8),
            codec=_library().Codec(self.compressor),
            clevel=level,
            typesize=element.size_bytes,
            filters=[_library().Filter(number) for number in filters],
            filters_meta=[element.size_bytes if number == _BYTEDELTA else 0 for number in filters],
            nthreads=1,
        )
        return chunk

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        size_bytes = array_bytes(element, shape)
        if not size_bytes:
            if len(payload):
                raise MalformedChunk(f"{len(payload)} bytes for an empty array")
            return np.zeros(shape, element.storage)
        self._check(payload, element, size_bytes)
        array = np.zeros(size_bytes, np.uint8)
        _library().decompress2(payload, dst=array, nthreads=1)
        return array.view(element.storage).reshape(shape)

    def _filters(self, element: Element) -> tuple[int, ...]:
        """Return the filters; a byte delta only for items of several bytes."""
        return self.filters if element.size_bytes > 1 else self.filters[:1]

    def _flags(self) -> tuple[int, int, int]:
        """Return the flags of a coded chunk, of one stored because coding saved nothing, and of a tiny
        one."""
        coded = _EXTENDED | _FORMAT[self.compressor]
        return coded, coded | _COPIED, _EXTENDED | _COPIED

    def _check(self, payload: memoryview, element: Element, size_bytes: int) -> None:
        filters = bytes(self._filters(element))
        parameters = bytes(element.size_bytes if number == _BYTEDELTA else 0 for number in filters)
        version, format_version, flags, item, size, block, chunk, *rest, special = _HEADER.unpack_from(
            payload
        )
        if (
            (version, format_version) != (5, 1)
            or flags & ~_NOT_SPLIT not in self._flags()
            or (item, size, chunk) != (element.size_bytes, size_bytes, len(payload))
            or not 0 < block <= size_bytes
            or rest != [filters.ljust(6, b"\0"), bytes((self.compressor, 0)), parameters.ljust(6, b"\0"), 0]
            or special not in (0, _ALL_ZERO)
        ):
            raise MalformedChunk(f"a Blosc2 header that {self.name} does not make for {size_bytes} bytes")


class Blosc2(Blosc2Codec):
    """Bytes of the same rank side by side, and LZ4: the quickest of the three."""

    number: ClassVar[int] = 5
    name: ClassVar[str] = "blosc2"
    kind: ClassVar[str] = BYTES
    level: ClassVar[int] = 5
    compressor: ClassVar[int] = _LZ4
    filters: ClassVar[tuple[int, ...]] = (_SHUFFLE,)


class Blosc2Bitshuffle(Blosc2Codec):
    """Bits of the same rank side by side, and zstd: for integers of which few bits vary."""

    number: ClassVar[int] = 18
    name: ClassVar[str] = "bitshuffle"
    kind: ClassVar[str] = TENSOR
    level: ClassVar[int] = 3
    compressor: ClassVar[int] = _ZSTD
    filters: ClassVar[tuple[int, ...]] = (_BITSHUFFLE,)


class Blosc2Bytedelta(Blosc2Codec):
    """Bytes of the same rank side by side, differences between neighbours, and zstd.

    For data that change slowly along the array.
    """

    number: ClassVar[int] = 19
    name: ClassVar[str] = "bytedelta"
    kind: ClassVar[str] = TENSOR
    level: ClassVar[int] = 1
    compressor: ClassVar[int] = _ZSTD
    filters: ClassVar[tuple[int, ...]] = (_SHUFFLE, _BYTEDELTA)


@functools.cache
def _library() -> ModuleType:
    library = importlib.import_module("blosc2")
    library.set_releasegil(True)  # off by default: other threads would wait for every chunk
    return library
