"""Chunks that can be added without being decoded: by a relay, or by a peer that cannot decode them.

Theory. To add, one needs to know the items, not their meaning. So a chunk states the number and the type of
its items, the sum that it belongs to (the context: a digest of all that the members have agreed on, such as
the union of their supports, exponents, or the seed of a sketch), the number of members in it, and how many
there is room for. Two chunks of the same sum are added item by item, bitmaps of supports by "or"; everything
else is left to the decoder.

    "DLA1" | scheme u8 | element u8 | members u16 | room for u16 | 6 zeros | context 8 bytes | items u64 |
    checksum u64 | items
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
import xxhash
from numpy.typing import NDArray

from duetlink.data.codecs.base import Octets
from duetlink.data.codecs.element import BY_NUMBER, UINT8, Element
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.errors import LimitExceeded, MalformedChunk

# The meaning of the items, which only the decoder needs.
VALUES, INTEGERS, SKETCH, SUPPORT = range(4)
SCHEMES = ("values", "integers", "sketch", "support")
MAX_MEMBERS = 65_535
_MAGIC = b"DLA1"
_HEAD = struct.Struct("<4sBBHH6s8sQ")
_CHECKSUM = struct.Struct("<Q")
HEAD_BYTES = _HEAD.size + _CHECKSUM.size


class SupportsAggregate(Protocol):
    """Adds two chunks into one, without knowing what they hold."""

    def add(self, left: Octets, right: Octets) -> bytes: ...


@dataclass(frozen=True, slots=True, eq=False)
class Aggregate:
    """A parsed chunk: items of one type that belong to one sum."""

    scheme: int
    element: Element
    items: NDArray[Any]  # flat, of the element's storage; may be a view of what was read
    context: bytes  # 8 bytes
    members: int = 1
    room_for: int = MAX_MEMBERS

    def __post_init__(self) -> None:
        if len(self.context) != 8 or self.items.ndim != 1 or self.items.dtype != self.element.storage:
            raise ValueError("a flat array of the element's storage, and a context of 8 bytes")
        if not 1 <= self.members <= self.room_for <= MAX_MEMBERS:
            raise ValueError(f"{self.members} members, where there is room for {self.room_for}")

    def to_wire(self) -> bytes:
        kind, size = self.element.number, self.items.size
        head = _HEAD.pack(
            _MAGIC, self.scheme, kind, self.members, self.room_for, bytes(6), self.context, size
        )
        data = np.ascontiguousarray(self.items).view(np.uint8).data
        return b"".join((head, _CHECKSUM.pack(_digest(head, data)), data))

    @classmethod
    def from_wire(cls, data: Octets, limit_bytes: int) -> Aggregate:
        """Parse a chunk; its items are a view of `data`.

        Raises:
            LimitExceeded: it announces more than `limit_bytes` of items.
            MalformedChunk: it is not such a chunk, or was changed on its way.
        """
        view = memoryview(data)
        if len(view) < HEAD_BYTES or view[:4] != _MAGIC:
            raise MalformedChunk(f"{len(view)} bytes do not start with the header of a chunk to be added")
        _, scheme, number, members, room_for, zeros, context, size = _HEAD.unpack_from(view)
        element = BY_NUMBER.get(number)
        if element is None or scheme >= len(SCHEMES) or not adds(element, scheme) or any(zeros):
            raise MalformedChunk(f"a chunk of scheme {scheme} with items of kind {number}")
        if not 1 <= members <= room_for:
            raise MalformedChunk(f"a chunk of {members} members, with room for {room_for}")
        if size * element.size_bytes > limit_bytes:
            raise LimitExceeded(
                f"a chunk of {size:,} items of {element.name}; {limit_bytes:,} bytes are allowed"
            )
        body = view[HEAD_BYTES:]
        if len(body) != size * element.size_bytes:
            raise MalformedChunk(f"{len(body)} bytes for {size} items of {element.name}")
        (digest,) = _CHECKSUM.unpack_from(view, _HEAD.size)
        if digest != _digest(view[: _HEAD.size], body):
            raise MalformedChunk("the checksum of a chunk to be added differs")
        items = np.frombuffer(bytes(body) if view.nbytes % 8 else body, element.storage)
        return cls(scheme, element, items, context, members, room_for)

    def plus(self, other: Aggregate) -> Aggregate:
        """Return the sum of both, in new memory.

        Raises:
            MalformedChunk: the chunks belong to different sums, or have more members than there is room for.
        """
        for name in ("scheme", "element", "context", "room_for"):
            if getattr(self, name) != getattr(other, name):
                raise MalformedChunk(f"two chunks to be added differ in their {name}")
        if self.items.size != other.items.size:
            raise MalformedChunk(f"{self.items.size} and {other.items.size} items to be added")
        members = self.members + other.members
        if members > self.room_for:
            raise MalformedChunk(f"chunks of {members} members, where there is room for {self.room_for}")
        if self.scheme == SUPPORT:
            return replace(self, items=self.items | other.items, members=members)
        with np.errstate(all="ignore"):
            left, right = floats(self.items, self.element), floats(other.items, self.element)
            items = unfloats(left + right, self.element)
        return replace(self, items=items, members=members)


@dataclass(frozen=True, slots=True)
class Adding:
    """Adds chunks of any scheme, as long as two of them and their sum fit `limit_bytes` of memory.

    Integers and sketches give the same sum in any order. Floats are added in the order of the calls, and each
    sum is rounded.
    """

    limit_bytes: int = 256 * 1024 * 1024

    def add(self, left: Octets, right: Octets) -> bytes:
        """Return the chunk of the sum. Raises MalformedChunk or LimitExceeded, as the parts do."""
        first = Aggregate.from_wire(left, self.limit_bytes)
        return first.plus(Aggregate.from_wire(right, self.limit_bytes)).to_wire()


def context_of(*agreed: bytes) -> bytes:
    """Return 8 bytes that are equal for members who have agreed on the same."""
    digest = hashlib.blake2b(digest_size=8)
    for part in agreed:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.digest()


def adds(element: Element, scheme: int = VALUES) -> bool:
    """Return True if a chunk of that scheme may hold such items."""
    if scheme == SUPPORT:
        return element == UINT8
    return element.storage.kind in "iufc" and not element.name.startswith("float8")


def _digest(head: Octets, body: Octets) -> int:
    digest = xxhash.xxh3_64(head)
    digest.update(body)
    return digest.intdigest()
