"""An encoded array as it travels: a header that describes it, and the payload of one codec.

    magic "DLC1" | flags u8 | codec u16 | element u8 | dimensions u8 | relative f64 | block f64
    | shape u64 ... | payload size u64 | checksum u64 | payload                      (little-endian)

Flag 1: lossless, and both bounds are 0. The checksum is XXH3-64 of everything else; it detects accidents, not
attacks: the link authenticates what a peer sends. Nothing is guessed from bytes: a reader knows that it gets
a chunk. The reader needs neither the codec's level nor its name.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import xxhash
from numpy.typing import NDArray

from duetlink.data.codecs.base import (
    Array,
    Bound,
    Codec,
    Octets,
    References,
    UnknownVersion,
    VersionCodec,
    no_references,
)
from duetlink.data.codecs.element import BY_NUMBER, UINT8, Element, element_of
from duetlink.data.codecs.registry import by_number
from duetlink.errors import CodecFailed, LimitExceeded, LocalProtocolError, MalformedChunk, UnknownCodec

MAGIC = b"DLC1"
MAX_DIMENSIONS = 64
MAX_BYTES = 1 << 40
_LOSSLESS = 1
_HEAD = struct.Struct("<4sBHBBdd")
_TAIL = struct.Struct("<QQ")
MIN_BYTES = _HEAD.size + _TAIL.size
HEADER_BYTES = MIN_BYTES + 8  # of an array of one dimension


@dataclass(frozen=True, slots=True)
class Header:
    """The description of a chunk's array and payload."""

    codec: int
    element: Element
    shape: tuple[int, ...]
    bound: Bound
    payload_bytes: int
    header_bytes: int

    @property
    def array_bytes(self) -> int:
        """The size of the decoded array."""
        return math.prod(self.shape) * self.element.size_bytes

    @property
    def chunk_bytes(self) -> int:
        """The size of header and payload together."""
        return self.header_bytes + self.payload_bytes


def encode(array: Array, codec: Codec, level: int | None = None, element: Element | None = None) -> bytes:
    """Encode an array as a chunk. `element` is needed if NumPy lacks the type, as for bfloat16 in uint16.

    Raises:
        LocalProtocolError: the codec does not accept such items, or has no such level.
        CodecFailed: the codec raised; the array is unchanged.
    """
    element = element_of(array) if element is None else element
    level = codec.level if level is None else level
    if level not in codec.levels:
        raise LocalProtocolError(
            f"codec {codec.name} has levels {codec.levels.start} to {codec.levels.stop - 1}, not {level!r}"
        )
    if array.dtype != element.storage or not codec.accepts(element):
        raise LocalProtocolError(f"codec {codec.name} takes no {element.name} held as {array.dtype}")
    if array.ndim > MAX_DIMENSIONS:
        raise LocalProtocolError(f"an array of {array.ndim} dimensions; at most {MAX_DIMENSIONS} can travel")
    try:
        payload = codec.encode(np.ascontiguousarray(array).reshape(array.shape), element, level)
    except Exception as error:
        raise CodecFailed(f"codec {codec.name} could not encode {array.nbytes} bytes: {error}") from error
    return frame(codec, element, array.shape, codec.bound(element, level), payload)


def frame(codec: Codec, element: Element, shape: tuple[int, ...], bound: Bound, payload: Octets) -> bytes:
    """Return a payload of `codec` with its header in front."""
    head = _HEAD.pack(
        MAGIC,
        _LOSSLESS if bound.lossless else 0,
        codec.number,
        element.number,
        len(shape),
        bound.relative,
        bound.block,
    )
    head += struct.pack(f"<{len(shape)}Q", *shape) + struct.pack("<Q", len(payload))
    return b"".join((head, _checksum(head, payload), payload))


def read_header(data: memoryview, limit_bytes: int = MAX_BYTES) -> Header:
    """Parse the header of the chunk at the beginning of `data`, which may continue after it.

    Raises:
        MalformedChunk: no chunk begins here, or `data` ends within the header.
        LimitExceeded: the array or the payload is above `limit_bytes`.
    """
    if len(data) < MIN_BYTES:
        raise MalformedChunk(f"{len(data)} bytes are too few for a chunk's header")
    magic, flags, codec, number, dimensions, relative, block = _HEAD.unpack_from(data)
    if magic != MAGIC:
        raise MalformedChunk("the bytes do not start as a chunk does")
    element = BY_NUMBER.get(number)
    if element is None or flags & ~_LOSSLESS or dimensions > MAX_DIMENSIONS:
        raise MalformedChunk(f"a chunk of element {number} with flags {flags} in {dimensions} dimensions")
    end = _HEAD.size + 8 * dimensions
    if len(data) < end + _TAIL.size:
        raise MalformedChunk("a chunk's header is cut short")
    shape: tuple[int, ...] = struct.unpack_from(f"<{dimensions}Q", data, _HEAD.size)
    payload_bytes, _ = _TAIL.unpack_from(data, end)
    bound = Bound(relative, block)
    if not (relative >= 0 and block >= 0) or bound.lossless != bool(flags & _LOSSLESS):  # NaN is neither
        raise MalformedChunk(f"a chunk with error bounds {relative}, {block} and flags {flags}")
    header = Header(codec, element, shape, bound, payload_bytes, end + _TAIL.size)
    if max(header.array_bytes, payload_bytes, *shape, 0) > limit_bytes:
        raise LimitExceeded(
            f"a chunk of {header.array_bytes} bytes in {payload_bytes}; allowed are {limit_bytes}"
        )
    return header


def decode(
    data: Octets,
    limit_bytes: int = MAX_BYTES,
    *,
    codecs: Callable[[int], Codec] = by_number,
    references: References = no_references,
) -> tuple[NDArray[Any], Header]:
    """Return the array and the header of a chunk. `data` is the chunk and nothing else.

    `references` finds the version that a chunk of `delta` refers to, by its name.

    Raises:
        MalformedChunk: `data` is no chunk, is cut short, was altered, or was made by a malicious encoder.
        LimitExceeded: it would be larger than `limit_bytes`; nothing was allocated.
        UnknownCodec: this side does not have its codec.
        UnknownVersion: this side does not have the version that it refers to.
    """
    view = memoryview(data).cast("B")
    header = read_header(view, limit_bytes)
    if len(view) != header.chunk_bytes:
        raise MalformedChunk(f"a chunk of {header.chunk_bytes} bytes came in {len(view)}")
    payload = view[header.header_bytes :]
    tail = header.header_bytes - 8
    if _checksum(view[:tail], payload) != view[tail : header.header_bytes]:
        raise MalformedChunk("a chunk was altered on its way: its checksum differs")
    codec = codecs(header.codec)
    if not codec.accepts(header.element) or (codec.lossless and not header.bound.lossless):
        raise MalformedChunk(f"codec {codec.name} does not make such chunks of {header.element.name}")
    try:
        if isinstance(codec, VersionCodec):
            array = codec.decode_version(payload, header.element, header.shape, references)
        else:
            array = codec.decode(payload, header.element, header.shape)
    except (MalformedChunk, LimitExceeded, UnknownCodec, UnknownVersion):
        raise
    except Exception as error:
        raise MalformedChunk(f"codec {codec.name} cannot decode {len(payload)} bytes: {error}") from error
    if array.dtype != header.element.storage or array.shape != header.shape:
        raise MalformedChunk(f"codec {codec.name} made {array.shape} of {header.shape}")
    return array, header


def as_bytes(array: Array) -> memoryview:
    """Return the memory of an array as flat bytes."""
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8).data


def octets(data: Octets) -> Array:
    """Return a byte string as the array that codecs take, without a copy."""
    return np.frombuffer(data, UINT8.storage)


def _checksum(head: Octets, payload: Octets) -> bytes:
    digest = xxhash.xxh3_64(head)
    digest.update(payload)
    return digest.intdigest().to_bytes(8, "little")
