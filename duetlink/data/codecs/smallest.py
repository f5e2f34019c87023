"""Choose among a few codecs by a sample, and embed one array in another codec's payload.

codec u16 | size u64 | payload of that codec
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from duetlink.data.codecs.base import Array, Codec, Octets
from duetlink.data.codecs.element import Element
from duetlink.data.codecs.pcodec_ import Pcodec
from duetlink.data.codecs.planes import Planes
from duetlink.data.codecs.raw import Raw
from duetlink.data.codecs.zstd import Zstd
from duetlink.errors import MalformedChunk

SAMPLE_ITEMS = 16384
_PIECES = 4
_CODECS: tuple[Codec, ...] = (Pcodec(), Planes(), Zstd())
_DECODERS: dict[int, Codec] = {codec.number: codec for codec in (Raw(), *_CODECS)}
_HEAD = struct.Struct("<HQ")


def sample(array: Array) -> Array:
    """Return up to SAMPLE_ITEMS items of a flat array, in pieces spread over it."""
    if array.size <= SAMPLE_ITEMS:
        return array
    length = SAMPLE_ITEMS // _PIECES
    starts = np.linspace(0, array.size - length, _PIECES, dtype=np.int64)
    return np.concatenate([array[start : start + length] for start in starts])


def smallest(array: Array, element: Element, codecs: Sequence[Codec], level: int) -> tuple[Octets, Codec]:
    """Return the smallest payload of `array`, and its codec. `level` is pcodec's."""
    return min(
        ((codec.encode(array, element, level_of(codec, level)), codec) for codec in codecs),
        key=lambda found: len(found[0]),
    )


def level_of(codec: Codec, level: int) -> int:
    """Return `level` if the codec has pcodec's levels, else its default level."""
    return level if codec.levels == Pcodec.levels else codec.level


def encode(array: Array, element: Element, level: int) -> bytes:
    """Encode a flat array by the codec that is best on a sample of it, or raw. `level` is pcodec's."""
    part = sample(array)
    payload, codec = smallest(part, element, _CODECS, level)
    if part is not array:
        payload = codec.encode(array, element, level_of(codec, level))
    if len(payload) >= array.nbytes:
        codec = _DECODERS[Raw.number]
        payload = codec.encode(array, element, codec.level)
    return b"".join((_HEAD.pack(codec.number, len(payload)), payload))


def decode(data: memoryview, element: Element, items: int) -> tuple[Array, memoryview]:
    """Return the array at the beginning of `data`, and the data after it. Raises the errors of codecs."""
    number, size = _HEAD.unpack_from(data)
    if number not in _DECODERS or size > len(data) - _HEAD.size:
        raise MalformedChunk(f"a part of {size} bytes by codec {number} in {len(data)}")
    end = _HEAD.size + size
    return _DECODERS[number].decode(data[_HEAD.size : end], element, (items,)), data[end:]
