"""Mocks of Python's builtins: scalars, and lists, tuples and dicts of them or of other libraries' objects.

These facts of a container are schema, and are shown as they are:

- a tuple, or a list of arrays: the type and the number of rows of each item;
- any other list: the one type of its items (None left out), and their common length if they are lists or
  tuples;
- a dict whose keys are texts and whose values are columns (arrays, series, frames, or lists of one length):
  its keys;
- a list of dicts that all have the same texts as keys: these keys.

Everything else is data. The keys of any other dict become "key 0", "key 1".
"""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any

from duetlink.compute.mocks.base import TEXT_BYTES, Span
from duetlink.compute.mocks.items import ITEM_TYPES, VARIED, items, one_of_numbers
from duetlink.compute.mocks.registry import builder_of, library_of, unsupported
from duetlink.compute.mocks.scope import Scope
from duetlink.errors import SettingError

_DICTS = (dict, OrderedDict)
_MAX_MEMBERS = 10_000
_SMALL_INTEGER = 1 << 16
_FEW = 8


class BuiltinsMockBuilder:
    def rows(self, obj: Any) -> int | None:
        return len(obj) if type(obj) in (list, *_DICTS) and members(obj) is None else None

    def size_bytes(self, obj: Any) -> int:
        parts = members(obj)
        if parts is not None:
            return sum(builder_of(part).size_bytes(part) for part in parts.values())
        return _size_bytes(obj)

    def make(self, obj: Any, scope: Scope) -> object:
        parts = members(obj)
        if parts is not None:
            made = {name: builder_of(part).make(part, scope.child(name)) for name, part in parts.items()}
            return type(obj)(made) if type(obj) in _DICTS else type(obj)(made.values())
        if type(obj) is list:
            return items(obj, scope.rows(len(obj)), scope)
        if type(obj) in _DICTS:
            count = scope.rows(len(obj))
            return type(obj)(zip(_keys(obj, count), _values(obj, count, scope), strict=True))
        if obj is None:
            return None
        if type(obj) not in ITEM_TYPES:
            raise unsupported(obj)
        return items([obj], 1, scope)[0]

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        one, other = members(obj), members(mock)
        if one is not None and other is not None and list(one) != list(other):
            yield f"the object has the parts {_listed(one)}, the mock {_listed(other)}"
        elif (one is None) != (other is None):
            yield "only one of them is made of columns"
        elif one is None and type(obj) in (list, *_DICTS):
            kinds, mocked = (_kinds(values) for values in (obj, mock))
            if kinds and mocked and kinds != mocked:
                yield f"the object's items are {', '.join(kinds)}, the mock's {', '.join(mocked)}"

    def memory(self, obj: Any) -> Iterator[Span]:
        if type(obj) in (bytearray, list, dict, OrderedDict) and len(obj):
            yield Span(type(obj).__name__, id(obj), id(obj) + 1, obj)

    def part(self, obj: Any, start: int, stop: int) -> Any:
        return type(obj)(list(obj.items())[start:stop]) if type(obj) in _DICTS else obj[start:stop]

    def equal(self, left: Any, right: Any) -> bool:
        try:
            return bool(left == right)
        except (ArithmeticError, ValueError):  # a signaling NaN of decimal; nested arrays
            return False

    def is_ordinary(self, obj: Any) -> bool:
        if type(obj) in (list, tuple):
            return len(obj) < _FEW and all(map(self.is_ordinary, obj))
        if type(obj) is int:
            return abs(obj) < _SMALL_INTEGER
        if type(obj) in (str, bytes, bytearray):
            return not obj
        return obj is None or obj is ... or isinstance(obj, (bool, dt.tzinfo))


def members(obj: Any) -> Mapping[Hashable, Any] | None:
    """Return the items of a container that are parts of their own, by name or position; None for
    other objects.
    """
    if type(obj) is tuple or (type(obj) is list and _holds_foreign(obj)):
        if len(obj) > _MAX_MEMBERS:
            raise unsupported(obj, f"it has {len(obj):,} parts; put them into one array")
        return dict(enumerate(obj))
    if type(obj) in _DICTS and obj and all(type(key) is str for key in obj):
        lengths = {len(value) for value in obj.values() if type(value) in (list, tuple)}
        if len(lengths) <= 1 and all(map(_is_column, obj.values())):
            return dict(obj)
    return None


def held(obj: Any) -> Mapping[Hashable, Any]:
    """Return the items of a container that are, or contain, objects of other libraries, by name or
    position.
    """
    if type(obj) not in (list, tuple, *_DICTS):
        return {}
    values = obj.values() if type(obj) in _DICTS else obj
    if set(map(type, values)) <= ITEM_TYPES | {type(None)}:
        return {}
    pairs = obj.items() if type(obj) in _DICTS else enumerate(obj)
    return {name: item for name, item in pairs if _is_foreign(type(item)) or held(item)}


def _holds_foreign(values: Iterable[Any]) -> bool:
    return any(map(_is_foreign, set(map(type, values))))


def _is_foreign(kind: type) -> bool:
    # NumPy's scalars count as items, like Python's
    return library_of(kind) not in (None, "builtins") and kind not in ITEM_TYPES


def _is_column(value: Any) -> bool:
    if type(value) in (list, tuple):
        return all(type(item) in ITEM_TYPES or item is None for item in value)
    if type(value) in _DICTS:
        return members(value) is not None
    return _is_foreign(type(value))


def _keys(obj: Mapping[Any, Any], count: int) -> list[Any]:
    kinds = {type(key) for key in obj}
    if kinds <= {str}:
        return [f"key {number}" for number in range(count)]
    if kinds == {int}:
        return list(range(count))
    raise unsupported(obj, "its keys are neither all texts nor all integers")


def _values(obj: Mapping[Any, Any], count: int, scope: Scope) -> list[Any]:
    values = list(obj.values())
    if not _holds_foreign(values):
        return items(values, count, scope)
    if count > len(values):
        raise SettingError(
            f"rows={count} is more than the {len(values)} items of a dict; give at most as many"
        )
    return [builder_of(value).make(value, scope.child(number)) for number, value in enumerate(values[:count])]


def _size_bytes(obj: Any) -> int:
    if type(obj) in (list, tuple):
        lengths = {len(item) for item in obj if type(item) is list}
        if len(lengths) > 1:  # the total number of items is data
            return TEXT_BYTES * (1 + len(obj) * VARIED)
        return TEXT_BYTES + sum(map(_size_bytes, obj))
    if type(obj) in _DICTS:
        return TEXT_BYTES + 2 * sum(map(_size_bytes, obj.values()))
    if _is_foreign(type(obj)):
        return builder_of(obj).size_bytes(obj)
    return TEXT_BYTES


def _kinds(values: Any) -> list[str]:
    found = one_of_numbers(values.values() if type(values) in _DICTS else values)
    return sorted(kind.__name__ for kind in found)


def _listed(parts: Mapping[Hashable, Any]) -> str:
    return ", ".join(map(repr, list(parts)[:8])) + (" and more" if len(parts) > 8 else "")


HANDLER: Any = BuiltinsMockBuilder()
