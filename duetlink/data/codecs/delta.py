"""The change since a version that the peer has: the differing bits, or the difference, by another codec.

    name of that version, 16 bytes | chunk of the change

The change is a flat array of integers as wide as the items: unsigned, the exclusive or of both; signed, their
difference, modulo 2^width. Fine-tuned weights keep their exponents, so either is small.
"""

from __future__ import annotations

import math
from typing import ClassVar

import numpy as np

from duetlink.data.codecs import chunk, smallest
from duetlink.data.codecs.base import (
    Array,
    Codec,
    Octets,
    References,
    UnknownVersion,
    VersionCodec,
    array_bytes,
)
from duetlink.data.codecs.element import BY_NAME, Element
from duetlink.data.codecs.pcodec_ import Pcodec
from duetlink.data.codecs.planes import Planes
from duetlink.data.codecs.registry import by_number
from duetlink.data.codecs.sparse import Sparse
from duetlink.data.codecs.zstd import Zstd
from duetlink.errors import LocalProtocolError, MalformedChunk, UnknownCodec

NAME_BYTES = 16
_CODECS: tuple[Codec, ...] = (Pcodec(), Planes(), Sparse(), Zstd())


class Delta(VersionCodec):
    """The decoder; encoding is the function `delta.encode`."""

    number: ClassVar[int] = 21
    name: ClassVar[str] = "delta"
    levels: ClassVar[range] = Pcodec.levels
    level: ClassVar[int] = Pcodec.level

    def encode(self, array: Array, element: Element, level: int) -> Octets:
        raise LocalProtocolError(
            "a delta needs the version that the peer has: duetlink.data.codecs.delta.encode"
        )

    def decode_version(
        self, payload: memoryview, element: Element, shape: tuple[int, ...], references: References
    ) -> Array:
        name = bytes(payload[:NAME_BYTES])
        inner = payload[NAME_BYTES:]
        change_bytes, width = array_bytes(element, shape), min(element.size_bytes, 8)
        header = chunk.read_header(inner, max(change_bytes, len(inner)))
        if header.element not in _elements(width) or header.shape != (change_bytes // width,):
            raise MalformedChunk(
                f"a change of {header.shape} {header.element.name} for {shape} {element.name}"
            )
        try:
            reference = references(name)
        except KeyError:
            raise UnknownVersion(f"the version {name.hex()} is not here") from None
        if reference.dtype != element.storage or reference.size != math.prod(shape):
            raise MalformedChunk(
                f"the version {name.hex()} has {reference.size} {reference.dtype}, the chunk {shape}"
            )
        change, _ = chunk.decode(inner, codecs=_decoder)
        return _after(_words(reference, width), change).view(element.storage).reshape(shape)


def encode(array: Array, element: Element, reference: Array, name: bytes, level: int | None = None) -> bytes:
    """Encode `array` for a peer that has `reference` under that name of NAME_BYTES bytes; return the chunk.

    Raises:
        LocalProtocolError: the two differ in dtype or size, the name has another length, or there is no such
            level.
        CodecFailed: a codec failed.
    """
    level = Delta.level if level is None else level
    if (array.dtype, array.size) != (reference.dtype, reference.size) or array.dtype != element.storage:
        raise LocalProtocolError(
            f"no delta of {array.size} {array.dtype} to {reference.size} {reference.dtype}"
        )
    if len(name) != NAME_BYTES or level not in Delta.levels:
        raise LocalProtocolError(
            f"a version's name has {NAME_BYTES} bytes, not {len(name)}; levels are 0 to {Delta.levels[-1]},"
            f" not {level!r}"
        )
    width = min(element.size_bytes, 8)
    new, old = _words(array, width), _words(reference, width)
    codec, change_element = _best(smallest.sample(old), smallest.sample(new), _elements(width), level)
    change = _between(old, new, change_element)
    inner = chunk.encode(change, codec, smallest.level_of(codec, level), change_element)
    outer = Delta()
    return chunk.frame(outer, element, array.shape, outer.bound(element, level), name + inner)


def change(array: Array, element: Element, reference: Array) -> tuple[Array, Element]:
    """Return the flat exclusive or, as unsigned integers: encode it with any codec, then call `wrap`."""
    width = min(element.size_bytes, 8)
    unsigned = _elements(width)[0]
    return _between(_words(reference, width), _words(array, width), unsigned), unsigned


def wrap(inner: bytes, element: Element, shape: tuple[int, ...], name: bytes) -> bytes:
    """Return the chunk of an array whose `change` was encoded as the chunk `inner`."""
    outer = Delta()
    return chunk.frame(outer, element, shape, outer.bound(element, Delta.level), name + inner)


def _best(old: Array, new: Array, elements: tuple[Element, ...], level: int) -> tuple[Codec, Element]:
    """Return the codec and the integers that make the change between two samples smallest."""
    found = []
    for element in elements:
        payload, codec = smallest.smallest(_between(old, new, element), element, _CODECS, level)
        found.append((len(payload), codec, element))
    _, codec, element = min(found, key=lambda tried: tried[0])
    return codec, element


def _elements(width_bytes: int) -> tuple[Element, Element]:
    return BY_NAME[f"uint{8 * width_bytes}"], BY_NAME[f"int{8 * width_bytes}"]


def _words(array: Array, width_bytes: int) -> Array:
    return np.ascontiguousarray(array).reshape(-1).view(f"<u{width_bytes}")


def _between(old: Array, new: Array, element: Element) -> Array:
    if element.storage.kind == "u":
        return np.bitwise_xor(new, old)
    return np.subtract(new, old).view(element.storage)


def _after(old: Array, change: Array) -> Array:
    if change.dtype.kind == "u":
        return np.bitwise_xor(old, change)
    return np.add(old, change.view(old.dtype))


def _decoder(number: int) -> Codec:
    codec = by_number(number)
    if isinstance(codec, VersionCodec) or not codec.lossless:
        raise UnknownCodec(f"no change is made by codec {codec.name}")
    return codec
