"""Integers as offsets from the least one of their vector, in as few bytes as that takes, by planes.

Frame of reference (Goldstein et al. 1998, "Compressing relations and indexes"): an array is cut into vectors,
each with its least item. The offsets are small if neighbours have similar values, whatever their type could
hold, and an entropy coder uses the space that the widest of them leave unused.

    log2 of a vector's items u8 | element of the offsets u8 | least items | offsets (planes.py)

The least items are encoded as offsets themselves, in one vector:

    the least of all i64 | element u8 | size u32 | planes
"""

from __future__ import annotations

import math
import struct
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.base import TENSOR, Array, Codec
from duetlink.data.codecs.element import BY_NUMBER, UNSIGNED, Element, narrowest, words
from duetlink.data.codecs.planes import Planes
from duetlink.data.codecs.scratch import scratch
from duetlink.errors import MalformedChunk

_SHORTEST, _LONGEST = 6, 9  # log2 of a vector's items
_MANY_VECTORS = 256  # vectors get longer beyond this number: columns of a small table share none
_HEAD = struct.Struct("<BB")
_LEAST = struct.Struct("<qBI")
_PLANES = Planes()

Vectors = NDArray[np.generic]  # two dimensions; the last vector is padded with its last item
Unsigned = NDArray[np.unsignedinteger]


class FrameOfReference(Codec):
    """The codec for integers of 2 bytes and more."""

    number: ClassVar[int] = 22
    name: ClassVar[str] = "frame_of_reference"
    kind: ClassVar[str] = TENSOR
    overhead_bytes: ClassVar[int] = 100

    def accepts(self, element: Element) -> bool:
        return element.storage.kind in "iu" and element.size_bytes > 1 and not element.is_float

    def encode(self, array: Array, element: Element, level: int) -> bytes:
        return encode(vectors_of(array.reshape(-1)), array.size) if array.size else b""

    def decode(self, payload: memoryview, element: Element, shape: tuple[int, ...]) -> Array:
        items = math.prod(shape)
        if not items and not len(payload):
            return np.empty(shape, element.storage)
        return decode(payload, element, items).reshape(-1)[:items].reshape(shape)


def vectors_of(flat: Array) -> Vectors:
    """Cut a flat array into vectors; copies only if the last one is not full."""
    log2 = min(_LONGEST, max(_SHORTEST, (flat.size // _MANY_VECTORS).bit_length() - 1))
    missing = -flat.size % (1 << log2)
    whole = np.concatenate((flat, np.repeat(flat[-1:], missing))) if missing else flat
    return whole.reshape(-1, 1 << log2)


def encode(vectors: Vectors, items: int) -> bytes:
    """Encode the first `items` integers of the vectors."""
    least = vectors.min(axis=1, keepdims=True)
    unsigned = words(vectors)
    offsets = scratch("frame of reference", unsigned.shape, unsigned.dtype)
    np.subtract(unsigned, words(least), out=offsets)
    width = narrowest(int(offsets.max()))
    narrow = scratch("frame of reference, narrow", offsets.shape, width.storage)
    np.copyto(narrow, offsets, casting="unsafe")
    head = _HEAD.pack(vectors.shape[1].bit_length() - 1, width.number)
    return b"".join((head, _encode_least(least), _PLANES.encode(narrow.reshape(-1)[:items], width, 1)))


def decode(payload: memoryview, element: Element, items: int) -> Vectors:
    """Return the vectors that `encode` was given; the padding of the last one may be anything.

    Raises:
        MalformedChunk: the payload is malformed.
    """
    log2, number = _HEAD.unpack_from(payload)
    width = _width(number, element)
    if not _SHORTEST <= log2 <= _LONGEST:
        raise MalformedChunk(f"vectors of 2^{log2} integers")
    count = -(-items >> log2)
    least, rest = _decode_least(payload[_HEAD.size :], element, count)
    vectors = np.zeros((count, 1 << log2), element.storage)
    unsigned = words(vectors)
    unsigned.reshape(-1)[:items] = _PLANES.decode(rest, width, (items,))
    unsigned += least  # wraps round, as the difference did
    return vectors


def _encode_least(least: Vectors) -> bytes:
    base = least.min()
    offsets = words(least) - words(base)
    width = narrowest(int(offsets.max()))
    planes = _PLANES.encode(offsets.astype(width.storage), width, 1)
    return _LEAST.pack(words(base).astype(np.uint64).view(np.int64), width.number, len(planes)) + planes


def _decode_least(data: memoryview, element: Element, count: int) -> tuple[Unsigned, memoryview]:
    """Return the least items as words of shape (count, 1), and the data after them."""
    base, number, size = _LEAST.unpack_from(data)
    rest = data[_LEAST.size :]
    if size > len(rest):
        raise MalformedChunk(f"least integers of {size} bytes in {len(rest)}")
    offsets = _PLANES.decode(rest[:size], _width(number, element), (count, 1))
    word = words(np.empty(0, element.storage)).dtype
    return offsets.astype(word) + np.int64(base).astype(word), rest[size:]


def _width(number: int, element: Element) -> Element:
    width = BY_NUMBER.get(number)
    if width not in UNSIGNED or width.size_bytes > element.size_bytes:
        raise MalformedChunk(f"offsets of element {number} for {element.name}")
    return width
