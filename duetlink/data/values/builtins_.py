"""Builtins, and the standard library's times, decimals and UUIDs: exact types only, no subclasses."""

from __future__ import annotations

import datetime as dt
import decimal
import functools
import struct
import types
import uuid
import zoneinfo
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from duetlink.data.values.base import Reader, Writer, counted
from duetlink.data.values.registry import library_of
from duetlink.data.values.remedy import remedy_of
from duetlink.data.values.schema_pb2 import Complex, Date, DateTime, Duration, Empty, Node, Time
from duetlink.data.values.schema_pb2 import OrderedDict as OrderedDictNode
from duetlink.errors import MalformedValue

INLINE_BYTES = 256
NUMBER_BITS = 64  # an integer counts as one number per 64 bits
MAX_INTEGER_BITS = 14_280  # 4,299 digits: Python refuses to convert longer integers to or from decimal
# Python's hash of numbers and tuples is not keyed: a peer can make n colliding keys, which cost n² steps.
MAX_EQUAL_HASHES = 100
_OF_PARTS = frozenset((list, tuple, dict, set, frozenset, OrderedDict, range, slice))
_BITS = struct.Struct("<d")
_U64 = struct.Struct("<Q")
_US = dt.timedelta(microseconds=1)
_MIDNIGHT = dt.time()


_PLAIN_NAN = float("nan")


def _bits(value: float, writer: Writer) -> int:
    value = _PLAIN_NAN if writer.plain_nan and value != value else value
    return int(_U64.unpack(_BITS.pack(value))[0])


def _real(bits: int) -> float:
    return float(_BITS.unpack(_U64.pack(bits))[0])


class BuiltinsType:
    def describe(self, obj: Any) -> str:
        if type(obj) is str:
            return counted(len(obj), "character")
        if type(obj) in (bytes, bytearray):
            return counted(len(obj), "byte")
        if type(obj) in (list, tuple, dict, set, frozenset, OrderedDict):
            return counted(len(obj), "item")
        if type(obj) is int and obj.bit_length() > NUMBER_BITS:
            return counted(obj.bit_length(), "bit")
        return ""

    def elements(self, obj: Any) -> int | None:
        if type(obj) in (str, bytes, bytearray):
            return len(obj) or 1
        if type(obj) is int:
            return -(-obj.bit_length() // NUMBER_BITS) or 1  # a long integer could hold anything
        if type(obj) is decimal.Decimal:
            return -(-len(obj.as_tuple().digits) // 19)  # digits of 64 bits
        # empty containers count: a list of them could encode anything by their types
        return 0 if type(obj) in _OF_PARTS and (type(obj) is slice or len(obj)) else 1

    def write(self, obj: Any, writer: Writer) -> None:
        write = _WRITERS.get(type(obj))
        if write is None:
            raise writer.unsupported(obj, _remedy(obj))
        write(obj, writer)

    def read(self, node: Node, reader: Reader) -> object:
        kind = node.WhichOneof("kind")
        return _READERS[str(kind)](getattr(node, str(kind)), reader)


def _remedy(obj: object) -> str:
    for base in (dict, tuple, list, set, str, bytes, int, float):
        if isinstance(obj, base):
            return f"it is more than a {base.__name__}; send {base.__name__}(…) of it"
    if isinstance(obj, (types.FunctionType, types.BuiltinFunctionType, type)):
        return "code does not travel; send the data that it works on, or have it run there: @duet.remote"
    if isinstance(obj, Iterator):
        return "send list(…) of it"
    return remedy_of(obj)


# -- writing -----------------------------------------------------------------------------------------------


def _write_int(obj: int, writer: Writer) -> None:
    if -(2**63) <= obj < 2**63:
        writer.node(integer=obj)
    elif obj.bit_length() > MAX_INTEGER_BITS:
        raise writer.unsupported(obj, f"it has {obj.bit_length():,} bits; send .to_bytes(…) of it")
    else:
        writer.node(big_integer=obj.to_bytes(obj.bit_length() // 8 + 1, "little", signed=True))


def _write_bytes(short: str, long: str, data: bytes | bytearray, writer: Writer) -> None:
    if len(data) <= INLINE_BYTES:
        writer.node(**{short: bytes(data)})
    else:
        writer.node(**{long: Empty()})
        writer.segment(len(data), lambda: [memoryview(data)])


def _write_items(kind: str, obj: Any, writer: Writer) -> None:
    if kind in ("set", "frozenset"):
        _check_hashes(obj, writer)
        obj = sorted(obj, key=_order)  # the order of a set reveals how it was made
    writer.node(**{kind: len(obj)})
    ordered = kind in ("list", "tuple")
    for index, item in enumerate(obj):
        writer.value(item, f"[{index}]" if ordered else "{…}")


def _order(item: object) -> tuple[str, Any]:
    """Return a sort key for items of a set of any types, so that equal sets are written alike."""
    if type(item) in (frozenset, tuple):
        parts = [_order(part) for part in item]  # type: ignore[attr-defined]  # both have parts
        return type(item).__name__, sorted(parts) if type(item) is frozenset else parts
    return type(item).__name__, repr(item) if library_of(type(item)) else ""


def _write_pairs(obj: Any, writer: Writer) -> None:
    _check_hashes(obj, writer)
    for key, item in obj.items():
        writer.value(key, ".keys()")
        writer.value(item, _step(key))


def _step(key: object) -> str:
    """Return the text of a key in an object's path; short, and without calling a foreign __repr__."""
    text = repr(key) if type(key) in (str, int, float, bool, bytes, type(None)) else f"<{type(key).__name__}>"
    return f"[{text}]" if len(text) <= 60 else f"[{text[:57]}…]"


def _write_dict(obj: dict[Any, Any], writer: Writer) -> None:
    writer.node(dict=len(obj))
    _write_pairs(obj, writer)


def _write_ordered_dict(obj: OrderedDict[Any, Any], writer: Writer) -> None:
    # torch keeps the versions of a state_dict's layouts in an attribute of the OrderedDict
    attributes = vars(obj)
    if attributes.keys() - {"_metadata"}:
        raise writer.unsupported(obj, "it has attributes of its own; send dict(…) of it")
    writer.node(ordered_dict=OrderedDictNode(pairs=len(obj), metadata=bool(attributes)))
    _write_pairs(obj, writer)
    if attributes:
        writer.value(attributes["_metadata"], "._metadata")


def _write_bounds(kind: str, obj: Any, writer: Writer) -> None:
    writer.node(**{kind: Empty()})
    for name in ("start", "stop", "step"):
        writer.value(getattr(obj, name), f".{name}")


def _since_midnight(time: dt.time | dt.datetime) -> int:
    return ((time.hour * 60 + time.minute) * 60 + time.second) * 1_000_000 + time.microsecond


def _write_time(obj: dt.time, writer: Writer) -> None:
    writer.node(time=Time(microseconds=_since_midnight(obj), fold=bool(obj.fold)))
    writer.value(obj.tzinfo, ".tzinfo")


def _write_datetime(obj: dt.datetime, writer: Writer) -> None:
    writer.node(
        datetime=DateTime(ordinal=obj.toordinal(), microseconds=_since_midnight(obj), fold=bool(obj.fold))
    )
    writer.value(obj.tzinfo, ".tzinfo")


def _write_duration(obj: dt.timedelta, writer: Writer) -> None:
    writer.node(duration=Duration(days=obj.days, seconds=obj.seconds, microseconds=obj.microseconds))


def _write_fixed_zone(obj: dt.timezone, writer: Writer) -> None:
    offset, *name = obj.__getinitargs__()  # type: ignore[attr-defined]  # the name only where one was given
    writer.node(fixed_zone=Empty())
    writer.value(offset, ".utcoffset(None)")
    writer.value(name[0] if name else None, ".tzname(None)")


def _write_zone(obj: zoneinfo.ZoneInfo, writer: Writer) -> None:
    if obj.key not in _zones():
        raise writer.unsupported(obj, "only zones of the IANA database travel; use a fixed datetime.timezone")
    writer.node(zone=obj.key)


_WRITERS: dict[type, Callable[[Any, Writer], None]] = {
    type(None): lambda obj, writer: writer.node(none=Empty()),
    bool: lambda obj, writer: writer.node(boolean=obj),
    int: _write_int,
    float: lambda obj, writer: writer.node(real=_bits(obj, writer)),
    complex: lambda obj, writer: writer.node(
        complex=Complex(real=_bits(obj.real, writer), imaginary=_bits(obj.imag, writer))
    ),
    str: lambda obj, writer: _write_bytes("text", "long_text", obj.encode("utf-8", "surrogatepass"), writer),
    bytes: lambda obj, writer: _write_bytes("octets", "long_octets", obj, writer),
    bytearray: lambda obj, writer: _write_bytes("mutable_octets", "long_mutable_octets", obj, writer),
    list: functools.partial(_write_items, "list"),
    tuple: functools.partial(_write_items, "tuple"),
    set: functools.partial(_write_items, "set"),
    frozenset: functools.partial(_write_items, "frozenset"),
    dict: _write_dict,
    OrderedDict: _write_ordered_dict,
    range: functools.partial(_write_bounds, "range"),
    slice: functools.partial(_write_bounds, "slice"),
    type(...): lambda obj, writer: writer.node(ellipsis=Empty()),
    dt.date: lambda obj, writer: writer.node(date=Date(ordinal=obj.toordinal())),
    dt.time: _write_time,
    dt.datetime: _write_datetime,
    dt.timedelta: _write_duration,
    dt.timezone: _write_fixed_zone,
    zoneinfo.ZoneInfo: _write_zone,
    decimal.Decimal: lambda obj, writer: writer.node(decimal=str(obj)),
    uuid.UUID: lambda obj, writer: writer.node(uuid=obj.bytes),
}


def _most_equal_hashes(keys: Iterable[object]) -> int:
    return max(Counter(map(hash, keys)).values(), default=0)


def _check_hashes(obj: Any, writer: Writer) -> None:
    """Refuse a set or dict that the receiver would refuse, with advice for the sender."""
    if len(obj) > MAX_EQUAL_HASHES and (worst := _most_equal_hashes(obj)) > MAX_EQUAL_HASHES:
        raise writer.unsupported(obj, f"{worst:,} of its keys have the same hash; send a list of pairs")


# -- reading -----------------------------------------------------------------------------------------------


@functools.cache
def _zones() -> frozenset[str]:
    # ZoneInfo(key) imports a package below `tzdata` by the key's parts: only known keys may get there
    return frozenset(zoneinfo.available_timezones())


def _read_zone(key: str, reader: Reader) -> zoneinfo.ZoneInfo:
    if key not in _zones():
        raise MalformedValue(f"no time zone {key[:60]!r} is known here")
    return zoneinfo.ZoneInfo(key)


def _read_int(data: bytes) -> int:
    if len(data) > MAX_INTEGER_BITS // 8 + 1:
        raise MalformedValue(f"an integer of {len(data):,} bytes is over {MAX_INTEGER_BITS:,} bits")
    return int.from_bytes(data, "little", signed=True)


def _text(data: bytes | memoryview) -> str:
    return str(data, "utf-8", "surrogatepass")


def _hashed(keys: Iterable[object]) -> None:
    """Refuse keys that would make a dict or set quadratic."""
    if (worst := _most_equal_hashes(keys)) > MAX_EQUAL_HASHES:
        raise MalformedValue(f"{worst:,} keys have the same hash")


def _read_set(make: type[Any], count: int, reader: Reader) -> Any:
    items = list(reader.children(count))
    _hashed(items)
    result = make(items)
    if len(result) != count:
        raise MalformedValue(f"a {make.__name__} has the same item twice")
    return result


def _read_pairs(make: type[Any], count: int, reader: Reader) -> Any:
    parts = list(reader.children(2 * count))
    _hashed(parts[::2])
    result = make(zip(parts[::2], parts[1::2], strict=True))
    if len(result) != count:
        raise MalformedValue(f"a {make.__name__} has the same key twice")
    return result


def _read_ordered_dict(node: OrderedDictNode, reader: Reader) -> OrderedDict[Any, Any]:
    result: OrderedDict[Any, Any] = _read_pairs(OrderedDict, node.pairs, reader)
    if node.metadata:
        result._metadata = reader.value()  # type: ignore[attr-defined]
    return result


def _read_time(node: Time, reader: Reader) -> dt.time:
    moment = dt.datetime.min + node.microseconds * _US
    if moment.toordinal() != 1:
        raise MalformedValue("a time is not within a day")
    return moment.time().replace(fold=node.fold, tzinfo=_tzinfo(reader))


def _read_datetime(node: DateTime, reader: Reader) -> dt.datetime:
    day = dt.datetime.combine(dt.date.fromordinal(node.ordinal), _MIDNIGHT)
    if node.microseconds >= 86_400_000_000:
        raise MalformedValue("a time is not within a day")
    return (day + node.microseconds * _US).replace(fold=node.fold, tzinfo=_tzinfo(reader))


def _tzinfo(reader: Reader) -> dt.tzinfo | None:
    zone = reader.value()
    if zone is not None and type(zone) not in (dt.timezone, zoneinfo.ZoneInfo):
        raise MalformedValue(f"a {type(zone).__name__} came in place of a time zone")
    return zone  # type: ignore[return-value]


def _read_fixed_zone(node: Empty, reader: Reader) -> dt.timezone:
    offset = reader.expect(dt.timedelta)
    name = reader.value()
    return dt.timezone(offset) if name is None else dt.timezone(offset, name)  # type: ignore[arg-type]


def _read_duration(node: Duration, reader: Reader) -> dt.timedelta:
    return dt.timedelta(node.days, node.seconds, node.microseconds)


def _read_range(node: Empty, reader: Reader) -> range:
    return range(reader.expect(int), reader.expect(int), reader.expect(int))


def _read_slice(node: Empty, reader: Reader) -> slice:
    return slice(reader.value(), reader.value(), reader.value())


_READERS: dict[str, Callable[[Any, Reader], object]] = {
    "none": lambda node, reader: None,
    "boolean": lambda node, reader: node,
    "integer": lambda node, reader: node,
    "big_integer": lambda node, reader: _read_int(node),
    "real": lambda node, reader: _real(node),
    "complex": lambda node, reader: complex(_real(node.real), _real(node.imaginary)),
    "text": lambda node, reader: _text(node),
    "long_text": lambda node, reader: _text(reader.segment()),
    "octets": lambda node, reader: node,
    "long_octets": lambda node, reader: bytes(reader.segment()),
    "mutable_octets": lambda node, reader: bytearray(node),
    "long_mutable_octets": lambda node, reader: bytearray(reader.segment()),
    "list": lambda node, reader: list(reader.children(node)),
    "tuple": lambda node, reader: tuple(reader.children(node)),
    "set": functools.partial(_read_set, set),
    "frozenset": functools.partial(_read_set, frozenset),
    "dict": functools.partial(_read_pairs, dict),
    "ordered_dict": _read_ordered_dict,
    "range": _read_range,
    "slice": _read_slice,
    "ellipsis": lambda node, reader: ...,
    "date": lambda node, reader: dt.date.fromordinal(node.ordinal),
    "time": _read_time,
    "datetime": _read_datetime,
    "duration": _read_duration,
    "fixed_zone": _read_fixed_zone,
    "zone": _read_zone,
    "decimal": lambda node, reader: decimal.Decimal(node),
    "uuid": lambda node, reader: uuid.UUID(bytes=node),
}

HANDLER = BuiltinsType()
