"""Brings forms of values, and other bytes of any length, from one member to all or from each to all."""

from __future__ import annotations

import struct
from collections.abc import Sequence

import numpy as np

from duetlink.data.codecs.element import UINT8
from duetlink.errors import LimitExceeded
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.values.flat import CollectiveOptions, FlatOperations
from duetlink.groups.collectives.values.trees import Tree

# the form of most values fits, so that they need one operation instead of two
_INLINE_BYTES = 1024
_LENGTH = struct.Struct("<Q")
_MAX_BYTES = 64 * 1024 * 1024


class Forms:
    """Each method is one or two operations of the engine; its caller holds the turn meanwhile."""

    def __init__(self, flat: FlatOperations, size: int, limit_bytes: int) -> None:
        """Announced values of more than `limit_bytes` together are rejected."""
        self._flat = flat
        self._size = size
        self._limit_bytes = limit_bytes

    async def broadcast(self, data: bytes | None, root: int, name: str, call: str) -> bytes:
        """Bring the root's bytes to all; the others pass None. At most 64 MiB."""
        head = np.zeros(_LENGTH.size + _INLINE_BYTES, np.uint8) if data is None else _headed(data)
        await self._flat.broadcast(head, UINT8, root, CollectiveOptions("form", name, call), restore=False)
        length = _length(head.tobytes())
        if length <= _INLINE_BYTES:
            return head[_LENGTH.size :][:length].tobytes()
        rest = np.empty(length, np.uint8) if data is None else np.frombuffer(data, np.uint8)
        await self._flat.broadcast(
            rest, UINT8, root, CollectiveOptions("rest of the form", name, call), restore=False
        )
        return rest.tobytes()

    async def all_gather(self, data: bytes, name: str, call: str) -> list[bytes]:
        """Bring every member's bytes to all, by rank. At most 64 MiB each."""
        first = np.empty(self._size * (_LENGTH.size + _INLINE_BYTES), np.uint8)
        block = _LENGTH.size + _INLINE_BYTES
        await self._flat.all_gather(
            _headed(data), first, UINT8, [block] * self._size, CollectiveOptions("form", name, call)
        )
        heads = [first[rank * block : (rank + 1) * block].tobytes() for rank in range(self._size)]
        lengths = [_length(head) for head in heads]
        if max(lengths) <= _INLINE_BYTES:
            return [head[_LENGTH.size :][:length] for head, length in zip(heads, lengths, strict=True)]
        out = np.empty(sum(lengths), np.uint8)
        mine = np.frombuffer(data, np.uint8)
        await self._flat.all_gather(
            mine, out, UINT8, lengths, CollectiveOptions("rest of the form", name, call)
        )
        ends = np.cumsum(lengths)
        return [out[end - length : end].tobytes() for end, length in zip(ends, lengths, strict=True)]

    async def all_gather_forms(self, tree: Tree, name: str, call: str) -> list[Tree]:
        """Bring the form of every member's value to all, by rank.

        Raises:
            LimitExceeded: all values together are larger than `limit_bytes`.
        """
        wire_forms = await self.all_gather(tree.to_wire(), name, call)
        forms = [Tree.from_wire(each, self._limit_bytes) for each in wire_forms]
        size_bytes = sum(leaf.size_bytes for form in forms for leaf in form.leaves)
        if size_bytes > self._limit_bytes:
            raise LimitExceeded(
                f"{size_bytes:,} bytes together; this group takes {self._limit_bytes:,} at once"
            )
        return forms


def joined(trees: Sequence[Tree]) -> bytes:
    """Encode the forms of several values as one byte string."""
    forms = [tree.to_wire() for tree in trees]
    return b"".join(_LENGTH.pack(len(form)) for form in forms) + b"".join(forms)


def parted(data: bytes, count: int) -> list[bytes]:
    """Split what `joined` made into the forms of `count` values. Raises LimitExceeded if it is too short."""
    if len(data) < count * _LENGTH.size:
        raise LimitExceeded(f"{len(data)} bytes for the forms of {count} values")
    lengths = [length for (length,) in _LENGTH.iter_unpack(data[: count * _LENGTH.size])]
    found = []
    start = count * _LENGTH.size
    for length in lengths:
        found.append(data[start : start + length])
        start += length
    return found


def _length(head: bytes) -> int:
    (length,) = _LENGTH.unpack_from(head)
    if length > _MAX_BYTES:
        raise LimitExceeded(f"a member announced {length:,} bytes; {_MAX_BYTES:,} are allowed")
    return int(length)


def _headed(data: bytes) -> Array:
    """Encode the length, and as many bytes of the data as fit a head."""
    if len(data) > _MAX_BYTES:
        raise LimitExceeded(f"{len(data):,} bytes; {_MAX_BYTES:,} are allowed")
    head = np.zeros(_LENGTH.size + _INLINE_BYTES, np.uint8)
    inline = _LENGTH.pack(len(data)) + data[:_INLINE_BYTES]
    head[: len(inline)] = np.frombuffer(inline, np.uint8)
    return head
