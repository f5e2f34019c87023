"""Floating point numbers byte by byte: exponents in one plane, mantissas in the others, and zstd.

The exponents of weights take few values, their mantissas nearly all (ZipNN, Hershcovitch et al. 2024,
arXiv:2411.05239, section 3). The sign is rotated to the lowest bit, so that the exponent fills the topmost
byte. Each plane is a zstd frame, or its plain bytes if that is not smaller.

    u64 sizes of the planes, lowest first | planes
"""

from __future__ import annotations

import math
import struct
from collections.abc import Iterator
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs import zstd
from duetlink.data.codecs.base import TENSOR, Array, Codec
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.scratch import scratch
from duetlink.errors import MalformedChunk

Plane = NDArray[np.uint8]


class Planes(Codec):
    """Level 1 is an entropy coder alone; a higher level also tries zstd's level of that number on each plane.

    Items other than floating point numbers are split without the rotation.
    """

    number: ClassVar[int] = 17
    name: ClassVar[str] = "planes"
    kind: ClassVar[str] = TENSOR
    levels: ClassVar[range] = range(1, 20)
    level: ClassVar[int] = 1

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        planes = [bytes(_compress(plane, level)) for plane in _split(array, element)]
        return b"".join((struct.pack(f"<{len(planes)}Q", *map(len, planes)), *planes))

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        word = _word(element)
        items = math.prod(shape) * element.size_bytes // word.itemsize
        sizes: tuple[int, ...] = struct.unpack_from(f"<{word.itemsize}Q", payload)
        start = 8 * word.itemsize
        if sum(sizes) != len(payload) - start:
            raise MalformedChunk(f"planes of {sum(sizes)} bytes in {len(payload)}")
        planes = []
        for size in sizes:
            planes.append(_decompress(payload[start : start + size], items))
            start += size
        return _join(planes, element).view(element.storage).reshape(shape)


def _word(element: Element) -> np.dtype[np.unsignedinteger]:
    """Return the unsigned integer to split: the item, or the real or imaginary part of a complex one."""
    parts = 2 if element.storage.kind == "c" else 1
    return np.dtype(f"<u{element.size_bytes // parts}")


def _rotated(element: Element) -> bool:
    return element.is_float or element.storage.kind == "c"


def _split(array: Array, element: Element) -> Iterator[Plane]:
    """Yield the planes, lowest first; each is valid until the next one is requested."""
    words = array.reshape(-1).view(_word(element))
    bits = 8 * words.itemsize
    shifted = scratch("planes, shifted", words.shape, words.dtype)
    plane = scratch("planes", words.shape, np.uint8)
    if _rotated(element):
        rotated = np.left_shift(words, 1, out=scratch("planes, rotated", words.shape, words.dtype))
        rotated |= np.right_shift(words, bits - 1, out=shifted)
        words = rotated
    for shift in range(0, bits, 8):
        np.copyto(plane, np.right_shift(words, shift, out=shifted), casting="unsafe")
        yield plane


def _join(planes: list[Plane], element: Element) -> NDArray[np.unsignedinteger]:
    words = planes[-1].astype(_word(element))
    for plane in reversed(planes[:-1]):
        words <<= 8
        words |= plane
    if _rotated(element):
        sign = words << (8 * words.itemsize - 1)
        words >>= 1
        words |= sign
    return words


def _compress(plane: Plane, level: int) -> bytes | memoryview:
    tried = [zstd.compress(plane.data, zstd.ENTROPY)]
    if level > 1:
        tried.append(zstd.compress(plane.data, level))
    smallest = min(tried, key=len)
    return smallest if len(smallest) < plane.size else plane.data


def _decompress(plane: memoryview, size_bytes: int) -> Plane:
    if len(plane) != size_bytes:
        plane = memoryview(zstd.decompress(plane, size_bytes))
    return np.frombuffer(plane, np.uint8)
