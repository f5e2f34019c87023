"""Convert numpy.dtype to a tree of messages and back.

No text from a peer is parsed: kinds, sizes and units come from tables here.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from duetlink.data.values.schema_pb2 import DType, Field
from duetlink.errors import MalformedValue

MAX_DEPTH = 16
MAX_FIELDS = 65_536  # fields of one dtype, at all levels
MAX_DIMENSIONS = 64  # numpy's own limit
MAX_ITEM_BYTES = 2**31  # numpy's own limit is a C int
_LETTERS = {
    DType.BOOL: "b",
    DType.INT: "i",
    DType.UINT: "u",
    DType.FLOAT: "f",
    DType.COMPLEX: "c",
    DType.DATETIME: "M",
    DType.TIMEDELTA: "m",
    DType.OCTETS: "S",
    DType.TEXT: "U",
    DType.VOID: "V",
}
_KINDS = {letter: kind for kind, letter in _LETTERS.items()}
_SIZES = {
    DType.BOOL: {1},
    DType.INT: {1, 2, 4, 8},
    DType.UINT: {1, 2, 4, 8},
    DType.FLOAT: {2, 4, 8, np.dtype(np.longdouble).itemsize},
    DType.COMPLEX: {8, 16, np.dtype(np.clongdouble).itemsize},
    DType.DATETIME: {8},
    DType.TIMEDELTA: {8},
}
_UNITS = {"generic", "Y", "M", "W", "D", "h", "m", "s", "ms", "us", "ns", "ps", "fs", "as"}
_MANTISSA_BITS = int(np.finfo(np.longdouble).nmant)


class DTypeRefused(Exception):
    """The dtype cannot be sent; the argument tells the user what to do instead."""


def to_wire(dtype: np.dtype[Any], depth: int = 0) -> DType:
    """Return the message of a dtype; raise DTypeRefused if it cannot be sent."""
    if depth > MAX_DEPTH:
        raise DTypeRefused(f"its dtype is nested deeper than {MAX_DEPTH} levels; flatten it")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return DType(kind=DType.SUBARRAY, base=to_wire(base, depth + 1), shape=shape)
    if dtype.names is not None:
        if len(dtype.names) > MAX_FIELDS:
            raise DTypeRefused(f"its dtype has more than {MAX_FIELDS:,} fields; send a 2-dimensional array")
        fields = [
            Field(
                name=name.encode("utf-8", "surrogatepass"),
                offset=entry[1],
                dtype=to_wire(entry[0], depth + 1),
            )
            for name, entry in (
                (name, dtype.fields[name]) for name in dtype.names if dtype.fields is not None
            )
        ]
        return DType(
            kind=DType.STRUCT,
            size_bytes=dtype.itemsize,
            fields=fields,
            aligned=dtype.isalignedstruct,
            record=dtype.type is np.record,
        )
    if dtype.kind == "O":
        raise DTypeRefused(
            "dtype object holds Python objects; convert it with .astype(str) or a number dtype, "
            "send .tolist(), or put it in a pandas frame"
        )
    if dtype.kind not in _KINDS:
        raise DTypeRefused(f"dtype {dtype.name} does not travel; convert it with .astype(…)")
    message = DType(kind=_KINDS[dtype.kind], size_bytes=dtype.itemsize, big_endian=_is_big(dtype))
    if message.kind in (DType.DATETIME, DType.TIMEDELTA):
        message.unit, message.unit_count = np.datetime_data(dtype)
    if dtype.char in "gG":
        message.mantissa_bits = _MANTISSA_BITS
    return message


def _is_big(dtype: np.dtype[Any]) -> bool:
    return dtype.str.startswith(">")


def from_wire(message: DType) -> tuple[np.dtype[Any], int]:
    """Return the dtype, and the bytes and fields that reading one item visits (see `reach.check`).

    NumPy adds offsets and sizes as C integers, which wrap around, and then reads past the end of an item. So
    all of them are checked here first, at every level, as Python integers.

    Raises:
        MalformedValue: the message is no dtype, or a field of it lies outside of its item.
        Exception: anything that numpy refuses.
    """
    left = _Left(MAX_FIELDS)
    return _from_wire(message, 0, left)


@dataclass(slots=True)
class _Left:
    """The number of fields that a dtype may still have, at all levels."""

    fields: int


def _from_wire(message: DType, depth: int, left: _Left) -> tuple[np.dtype[Any], int]:
    if depth > MAX_DEPTH:
        raise MalformedValue(f"a dtype is nested deeper than {MAX_DEPTH} levels")
    if message.kind == DType.SUBARRAY:
        base, work = _from_wire(message.base, depth + 1, left)
        count = math.prod(message.shape)
        check_subarray(message.shape, base.itemsize)
        return np.dtype((base, tuple(message.shape))), max(1, count * work)
    if message.kind == DType.STRUCT:
        return _struct(message, depth, left)
    plain = _plain(message)
    return plain, max(1, plain.itemsize)


def _struct(message: DType, depth: int, left: _Left) -> tuple[np.dtype[Any], int]:
    left.fields -= len(message.fields)
    if left.fields < 0:
        raise MalformedValue(f"a dtype has more than {MAX_FIELDS:,} fields")
    names = [field.name.decode("utf-8", "surrogatepass") for field in message.fields]
    if len(set(names)) != len(names):
        raise MalformedValue("two fields of a dtype have the same name")
    formats, work = [], 0
    for field in message.fields:
        format_, field_work = _from_wire(field.dtype, depth + 1, left)
        check_field(field.offset, format_.itemsize, message.size_bytes)
        formats.append(format_)
        work += field_work
    struct = np.dtype(
        {
            "names": names,
            "formats": formats,
            "offsets": [field.offset for field in message.fields],
            "itemsize": message.size_bytes,
        },
        align=message.aligned,
    )
    return (np.dtype((np.record, struct)) if message.record else struct), max(1, work)


def check_field(offset: int, size_bytes: int, item_bytes: int) -> None:
    """Raise MalformedValue for a field that is not within its item."""
    if item_bytes >= MAX_ITEM_BYTES or offset + size_bytes > item_bytes:
        raise MalformedValue(f"a field at {offset:,} of {size_bytes:,} bytes in an item of {item_bytes:,}")


def check_subarray(shape: Sequence[int], base_bytes: int) -> None:
    """Raise MalformedValue for a subarray that has more items or bytes than a dtype can."""
    visited = 1
    for length in shape:
        visited *= max(1, length)
    if len(shape) > MAX_DIMENSIONS or visited * max(1, base_bytes) >= MAX_ITEM_BYTES:
        raise MalformedValue(f"a subarray of shape {tuple(shape)[:8]} with items of {base_bytes:,} bytes")


def _plain(message: DType) -> np.dtype[Any]:
    if message.kind not in _LETTERS:
        raise MalformedValue(f"dtype kind {message.kind} is unknown here")
    letter = _LETTERS[message.kind]
    order = ">" if message.big_endian else "<"
    if message.kind in _SIZES and message.size_bytes not in _SIZES[message.kind]:
        raise MalformedValue(f"no dtype {letter} of {message.size_bytes} bytes exists here")
    if message.mantissa_bits not in (0, _MANTISSA_BITS):
        raise MalformedValue(
            f"the sender's long double has {message.mantissa_bits} bits, this machine's {_MANTISSA_BITS}; "
            "have it sent as float64"
        )
    if message.kind in (DType.DATETIME, DType.TIMEDELTA):
        if message.unit not in _UNITS or not 1 <= message.unit_count < 2**31:
            raise MalformedValue("a time has an unknown unit")
        if message.unit == "generic":
            return np.dtype(f"{order}{letter}8")
        return np.dtype(f"{order}{letter}8[{message.unit_count}{message.unit}]")
    if message.size_bytes >= MAX_ITEM_BYTES:
        raise MalformedValue(f"a dtype of {message.size_bytes:,} bytes")
    if message.kind == DType.TEXT:
        if message.size_bytes % 4:
            raise MalformedValue(f"fixed text of {message.size_bytes} bytes")
        return np.dtype(f"{order}U{message.size_bytes // 4}")
    return np.dtype(f"{order}{letter}{message.size_bytes}")
