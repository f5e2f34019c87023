"""Changes that a hostile peer would make: of numbers that mean something, not only of bytes.

Everything draws from a `random.Random` that is passed in, so that a seed makes the same input again.
"""

from __future__ import annotations

import random
import struct
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

# Where C integers of 8 to 64 bits wrap around, and what is close to it.
EDGES = (
    *(0, 1, 2, 3, 7, 8, 12, 13, 16, 63, 64, 100, 127, 128, 255, 256, 1000, 4096, 65535, 65536),
    *(2**24, 2**30, 2**31 - 16, 2**31 - 8, 2**31 - 4, 2**31 - 1, 2**31, 2**32 - 8, 2**32 - 1, 2**32, 2**33),
    *(2**40, 2**48, 2**61, 2**62, 2**63 - 8, 2**63 - 1, 2**63, 2**64 - 8, 2**64 - 1),
)
_INTEGERS = {
    FieldDescriptor.CPPTYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.CPPTYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.CPPTYPE_INT64: (-(2**63), 2**63 - 1),
    FieldDescriptor.CPPTYPE_UINT64: (0, 2**64 - 1),
}
_WORDS = (("<B", 1), ("<H", 2), ("<I", 4), ("<I", 4), ("<I", 4), ("<Q", 8), ("<Q", 8))


def integer(rng: random.Random, before: int, least: int, most: int) -> int:
    """Another number in place of `before`: an edge, a neighbour, or a multiple."""
    edge = rng.choice(EDGES)
    number = rng.choice(
        (edge, edge, -edge, before + 1, before - 1, before * 2, before + edge, edge - before, before ^ 1)
    )
    return min(max(number, least), most)


def octets(rng: random.Random, data: bytes) -> bytes:
    """A byte string with some of its bytes or words changed, or cut, or longer."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        kind = rng.randrange(10)
        if kind == 0:
            del changed[rng.randrange(len(changed) + 1) :]
        elif kind == 1:
            at = rng.randrange(len(changed) + 1)
            changed[at:at] = rng.choice((bytes(8), b"\xff" * 4, rng.randbytes(rng.randrange(1, 20))))
        elif kind == 2 and changed:
            at = rng.randrange(len(changed))
            del changed[at : at + rng.choice((1, 4, 8))]
        elif kind == 3 and changed:
            at = rng.randrange(len(changed))
            changed[at] ^= 1 << rng.randrange(8)
        else:
            word(rng, changed)
    return bytes(changed)


def words(rng: random.Random, data: bytes) -> bytes:
    """A byte string of the same length with some of its numbers changed."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 1, 2, 4))):
        word(rng, changed)
    return bytes(changed)


def word(rng: random.Random, data: bytearray) -> None:
    """Change one little-endian number somewhere in `data`, mostly where an aligned one would be."""
    form, size = rng.choice(_WORDS)
    if len(data) < size:
        return
    at = rng.randrange(len(data) - size + 1)
    if rng.random() < 0.8:
        at -= at % min(size, 4)
    before = struct.unpack_from(form, data, at)[0]
    struct.pack_into(form, data, at, integer(rng, before, 0, 256**size - 1))


def text(rng: random.Random, before: str) -> str:
    """Another text of a header: of another length, or with characters that mean something."""
    return rng.choice(
        (before + "x", before[:-1], before[::-1], "", "\0", "é" * 40, "[" * 20, "9" * 30, "-1", before * 3)
    )


def message(rng: random.Random, changed: Message, others: list[Message]) -> None:
    """Change one field of a message, or of one within it. `others` may lend parts of theirs."""
    holders = [changed, *_within(changed)]
    holder = rng.choice(holders)
    same = [part for other in others for part in (other, *_within(other)) if type(part) is type(holder)]
    if same and rng.random() < 0.1:
        holder.CopyFrom(rng.choice(same))
        return
    present = [field for field, _ in holder.ListFields()]
    fields = present if present and rng.random() < 0.85 else list(holder.DESCRIPTOR.fields)
    if fields:
        _change(rng, holder, rng.choice(fields))


def _within(holder: Message) -> list[Message]:
    found: list[Message] = []
    for field, value in holder.ListFields():
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                found += [part, *_within(part)]
    return found


def _change(rng: random.Random, holder: Message, field: Any) -> None:
    if not field.is_repeated:
        if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
            if holder.HasField(field.name) and rng.random() < 0.5:
                holder.ClearField(field.name)
            else:
                getattr(holder, field.name).SetInParent()
        else:
            setattr(holder, field.name, _scalar(rng, field, getattr(holder, field.name)))
        return
    items = getattr(holder, field.name)
    if items and rng.random() < 0.3:
        del items[rng.randrange(len(items))]
    elif items and field.cpp_type != FieldDescriptor.CPPTYPE_MESSAGE and rng.random() < 0.7:
        at = rng.randrange(len(items))
        items[at] = _scalar(rng, field, items[at])
    else:
        for _ in range(rng.choice((1, 1, 3, 40))):
            if field.cpp_type == FieldDescriptor.CPPTYPE_MESSAGE:
                added = items.add()
                if len(items) > 1:
                    added.CopyFrom(items[0])
            else:
                items.append(items[0] if items else _scalar(rng, field, field.default_value or 0))


def _scalar(rng: random.Random, field: Any, before: Any) -> Any:
    if field.cpp_type == FieldDescriptor.CPPTYPE_ENUM:
        return rng.choice([value.number for value in field.enum_type.values])
    if field.cpp_type in _INTEGERS:
        return integer(rng, int(before or 0), *_INTEGERS[field.cpp_type])
    if field.cpp_type == FieldDescriptor.CPPTYPE_BOOL:
        return not before
    if field.cpp_type == FieldDescriptor.CPPTYPE_STRING:
        if field.type == FieldDescriptor.TYPE_BYTES:
            return octets(rng, before or b"")
        return text(rng, before or "")
    return rng.choice((0.0, -1.0, 1e300, float("inf"), float("nan")))
