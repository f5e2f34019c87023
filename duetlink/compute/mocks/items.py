"""Mocks of many Python values of one type: the items of a list, or of a pandas column of objects."""

from __future__ import annotations

import datetime as dt
import decimal
import math
import uuid
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from duetlink.compute.mocks import numpy_
from duetlink.compute.mocks.draw import ColumnSampler
from duetlink.compute.mocks.facts import Facts
from duetlink.compute.mocks.scope import Scope
from duetlink.errors import SettingError

VARIED = 2  # items of each inner list if the lengths in the data differ
_DEPTH = 20
_MOST = 2**1024  # a limit for Python's integers, which have none: no finite float is greater
_NUMBERS = (bool, int, float, complex)  # from the narrowest to the widest
_TEXTS = (str, bytes, bytearray)
_NUMPY = tuple({np.dtype(char).type: None for char in "?bhilqBHILQefdgFDG"})
ITEM_TYPES = frozenset(
    (*_NUMBERS, *_TEXTS, *_NUMPY, dt.date, dt.datetime, dt.time, dt.timedelta, decimal.Decimal, uuid.UUID)
)


def items(
    values: Sequence[Any], count: int, scope: Scope, *, mixed: bool = False, depth: int = 0
) -> list[Any]:
    """Return `count` mock items of the type that `values` have.

    None tells no type, and neither does NaN among values of another type. If the values have several types,
    texts are made with `mixed`, and an error is raised without it. If they have no type, as in an empty list,
    texts are made.

    Raises:
        SettingError: the values are of several types, or of one that is unknown here.
    """
    if depth > _DEPTH:
        raise SettingError(f"a list is nested deeper than {_DEPTH} levels; give a mock by hand")
    kinds = one_of_numbers(values)
    names = ", ".join(sorted(kind.__name__ for kind in kinds))
    kind = kinds.pop() if len(kinds) == 1 else None
    known: list[Any] = [value for value in values if type(value) is kind]
    if kind in (list, tuple):
        assert kind is not None
        return _sequences(kind, known, count, scope, mixed, depth)
    if kind is dict and _is_table(known):
        keys = list(known[0])
        columns = [
            items([record[name] for record in known], count, scope.child(name), mixed=mixed, depth=depth + 1)
            for name in keys
        ]
        return [dict(zip(keys, record, strict=True)) for record in zip(*columns, strict=True)]
    if kind not in ITEM_TYPES:
        if names and not mixed:
            raise SettingError(
                f"no mock can be made of a list of {names}; give one by hand, share(…, mock=…)"
            )
        kind = str
    assert kind is not None
    return _scalars(kind, values, known, count, scope)


def one_of_numbers(values: Iterable[Any]) -> set[type]:
    """Return the types of the values, with Python's numbers merged into the widest of them.

    None tells no type, and neither does NaN among values of another type.
    """
    values = list(values)
    kinds = {type(value) for value in values} - {type(None)}
    if float in kinds and not kinds <= set(_NUMBERS):
        kinds = {type(value) for value in values if not is_missing(value)}
    return {max(kinds, key=_NUMBERS.index)} if kinds and kinds <= set(_NUMBERS) else kinds


def is_missing(value: object) -> bool:
    if isinstance(value, decimal.Decimal):
        return value.is_nan()
    if isinstance(value, float):
        return value != value
    return value is None or type(value).__name__ in ("NAType", "NaTType")


def _scalars(kind: type, values: Sequence[Any], known: list[Any], count: int, scope: Scope) -> list[Any]:
    draw = scope.draw(ItemFacts(values))
    chosen = draw.chosen(count, lambda categories: _checked(kind, categories))
    if chosen is not None:
        choices, picks = chosen
        made = [choices[pick] for pick in picks.tolist()]
    elif kind in _NUMPY:
        made = list(numpy_.column(np.dtype(kind), count, draw))
    else:
        made = _MAKERS[kind](count, draw)
    if kind in (dt.datetime, dt.time):
        zones = {value.tzinfo for value in known}
        if len(zones) > 1:
            raise SettingError(f"{draw.where} has times of several time zones; give a mock by hand")
        zone = zones.pop() if zones else None
        if zone is not None and chosen is None:
            made = [_zoned(value, zone) for value in made]
    for gap in np.flatnonzero(draw.gaps(count)).tolist():
        made[gap] = _GAPS.get(kind)
    return made


def _zoned(value: Any, zone: dt.tzinfo) -> Any:
    return (
        value.replace(tzinfo=dt.UTC).astimezone(zone)
        if type(value) is dt.datetime
        else value.replace(tzinfo=zone)
    )


def _sequences(kind: type, known: list[Any], count: int, scope: Scope, mixed: bool, depth: int) -> list[Any]:
    lengths = {len(value) for value in known}
    if kind is tuple and len(lengths) == 1:
        columns = [
            items([value[index] for value in known], count, scope.child(index), mixed=mixed, depth=depth + 1)
            for index in range(lengths.pop())
        ]
        return list(zip(*columns, strict=True)) if columns else [()] * count
    length = lengths.pop() if len(lengths) == 1 else VARIED
    inner = [item for value in known for item in value]
    flat = items(inner, count * length, scope, mixed=mixed, depth=depth + 1)
    return [kind(flat[start * length : (start + 1) * length]) for start in range(count)]


def _is_table(records: list[dict[Any, Any]]) -> bool:
    """Return True if the dicts are rows of a table: several, with the same texts (column names) as keys."""
    first = records[0].keys()
    return len(records) > 1 and all(
        record.keys() == first and all(type(name) is str for name in record) for record in records
    )


def _checked(kind: type, categories: Sequence[Any]) -> list[Any]:
    if kind is float:
        return [float(category) for category in categories]
    if kind in _NUMPY:
        return list(
            numpy_.column(np.dtype(kind), len(categories), ColumnSampler("", (0,), None, tuple(categories)))
        )
    if any(type(category) is not kind for category in categories):
        raise ValueError(f"not all are {kind.__name__}")
    return list(categories)


def _integers(count: int, draw: ColumnSampler) -> list[Any]:
    return list(draw.integers(count, -_MOST, _MOST, "int").tolist())


def _floats(count: int, draw: ColumnSampler) -> list[Any]:
    return list(numpy_.column(np.dtype(float), count, draw).tolist())


def _decimals(count: int, draw: ColumnSampler) -> list[Any]:
    counts = draw.integers(count, -_MOST, _MOST, "Decimal", unit=Fraction(1, 100)).tolist()
    return [decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -2)) for number in counts]


def _times_of_day(count: int, draw: ColumnSampler) -> list[Any]:
    counts = draw.times_of_day(count, 1_000_000).tolist()
    return [(dt.datetime.min + dt.timedelta(microseconds=microseconds)).time() for microseconds in counts]


def _times(dtype: str) -> Callable[[int, ColumnSampler], list[Any]]:
    return lambda count, draw: draw.times(count, np.dtype(dtype)).tolist()


_MAKERS: dict[Any, Callable[[int, ColumnSampler], list[Any]]] = {
    bool: lambda count, draw: numpy_.column(np.dtype(bool), count, draw).tolist(),
    int: _integers,
    float: _floats,
    complex: lambda count, draw: numpy_.column(np.dtype(complex), count, draw).tolist(),
    str: lambda count, draw: draw.texts(count),
    bytes: lambda count, draw: [text.encode() for text in draw.texts(count)],
    bytearray: lambda count, draw: [bytearray(text.encode()) for text in draw.texts(count)],
    dt.date: _times("M8[D]"),
    dt.datetime: _times("M8[us]"),
    dt.timedelta: _times("m8[us]"),
    dt.time: _times_of_day,
    decimal.Decimal: _decimals,
    uuid.UUID: lambda count, draw: [uuid.UUID(bytes=row.tobytes()) for row in draw.octets(count, 16)],
}


_GAPS: dict[type, Any] = {float: math.nan, decimal.Decimal: decimal.Decimal("NaN")}


class ItemFacts:
    """The facts of a sequence of scalars."""

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    @property
    def discrete(self) -> bool:
        return all(type(value) in (int, str) for value in self._values if not is_missing(value))

    def bounds(self) -> tuple[Any, Any] | None:
        values = [value for value in self._values if not is_missing(value)]
        reals = (float, decimal.Decimal, np.floating)
        values = [value for value in values if not isinstance(value, reals) or math.isfinite(value)]
        if not values or isinstance(
            values[0], (bool, complex, np.bool_, np.complexfloating, *_TEXTS, uuid.UUID)
        ):
            return None
        try:
            return min(values), max(values)
        except TypeError:
            return None

    def counts(self) -> Mapping[Any, int]:
        return Counter(value for value in self._values if not is_missing(value))

    def missing(self) -> float:
        return sum(map(is_missing, self._values)) / len(self._values) if self._values else 0.0


_: type[Facts] = ItemFacts
