"""numpy.dtype <-> message tree. No text of a peer is parsed: kinds, sizes and units come from tables here."""

from __future__ import annotations

from typing import Any

import numpy as np

from duetlink.errors import MalformedValue
from duetlink.values.schema_pb2 import DType, Field

MAX_DEPTH = 16
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
    """This dtype cannot travel; the argument is the remedy."""


def to_wire(dtype: np.dtype[Any], depth: int = 0) -> DType:
    """Raises DTypeRefused."""
    if depth > MAX_DEPTH:
        raise DTypeRefused(f"its dtype is nested deeper than {MAX_DEPTH} levels; flatten it")
    if dtype.subdtype is not None:
        base, shape = dtype.subdtype
        return DType(kind=DType.SUBARRAY, base=to_wire(base, depth + 1), shape=shape)
    if dtype.names is not None:
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


def from_wire(message: DType, depth: int = 0) -> np.dtype[Any]:
    """Raises MalformedValue, or what numpy raises for sizes and offsets that do not fit."""
    if depth > MAX_DEPTH:
        raise MalformedValue(f"a dtype is nested deeper than {MAX_DEPTH} levels")
    if message.kind == DType.SUBARRAY:
        return np.dtype((from_wire(message.base, depth + 1), tuple(message.shape)))
    if message.kind == DType.STRUCT:
        names = [field.name.decode("utf-8", "surrogatepass") for field in message.fields]
        struct = np.dtype(
            {
                "names": names,
                "formats": [from_wire(field.dtype, depth + 1) for field in message.fields],
                "offsets": [field.offset for field in message.fields],
                "itemsize": message.size_bytes,
            },
            align=message.aligned,
        )
        return np.dtype((np.record, struct)) if message.record else struct
    return _plain(message)


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
    if message.size_bytes >= 2**31:
        raise MalformedValue(f"a dtype of {message.size_bytes:,} bytes")
    if message.kind == DType.TEXT:
        if message.size_bytes % 4:
            raise MalformedValue(f"fixed text of {message.size_bytes} bytes")
        return np.dtype(f"{order}U{message.size_bytes // 4}")
    return np.dtype(f"{order}{letter}{message.size_bytes}")
