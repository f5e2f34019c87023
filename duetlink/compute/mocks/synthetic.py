"""Makes a mock from the schema of an object, never from its values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from duetlink.compute.mocks.mock import BOUNDS, CATEGORIES, LIKE, Mock
from duetlink.compute.mocks.registry import builder_of, unsupported
from duetlink.compute.mocks.scope import Scope

MAX_BYTES = 16 * 1024 * 1024  # the largest mock if the owner gives no `rows`
_SCHEMA_ONLY = Mock()
_T = TypeVar("_T")


def make(obj: _T, mock: Mock = _SCHEMA_ONLY, name: str = "") -> _T:
    """Return the mock of `obj`: same type, dtypes, number of dimensions, shape of a row, kind of index.

    Names of columns, fields and index levels, the types of Python values, the width of fixed texts (part of
    their dtype) and the number of rows are schema, and shown as they are. Nothing else of the data goes into
    the mock unless `mock.from_data` names it: neither the existence of missing values, nor the order of an
    index, nor the categories of a Categorical; `attrs` and metadata are left out. The mock shares no memory
    with the object.

    It depends only on the schema, on `mock` with its seed, and on the `name` under which the object is
    shared. Objects of one schema have different mocks, since else their difference would be zero.

    Supported are NumPy arrays and scalars, torch tensors and parameters, pandas frames, series and indexes,
    polars frames and series, Arrow tables, batches, arrays and scalars, and Python's builtins (`builtins_.py`
    says which keys of dicts are schema).

    Raises:
        SettingError: the object is of another type, or `mock` does not fit it.
    """
    try:
        scope = Scope(mock, _shrink(obj), name)
        made = cast(_T, builder_of(obj).make(obj, scope))
    except RecursionError:
        raise unsupported(obj, "it contains itself, or is nested too deep") from None
    scope.finish()
    return made


def row_count(obj: object) -> int | None:
    """Return the number of rows; None for scalars, and for tuples and dicts of several objects.

    Raises:
        SettingError: no mock can be made of objects of this type.
    """
    return builder_of(obj).rows(obj)


def describe(mock: Mock, obj: object) -> str:
    """Describe in one line what `make(obj, mock)` is made from, without names or values.

    Raises:
        SettingError: no mock can be made of objects of this type.
    """
    words = ["synthetic"]
    rows = row_count(obj)
    if rows is not None:
        count = Scope(mock, _shrink(obj)).rows(rows)
        words.append(f"{count:,} row{'' if count == 1 else 's'}")
    words.append("from the schema")
    given = [
        _given(words, getattr(mock, kind))
        for kind, words in ((BOUNDS, BOUNDS), (CATEGORIES, CATEGORIES), (LIKE, "patterns"))
        if getattr(mock, kind) is not None
    ]
    if mock.labels is not None:
        given.append("row labels")
    text = ", ".join(words)
    if given:
        text += f"; {' and '.join(given)} given by the owner"
    if mock.from_data:
        computed = [
            _computed(fact, mock.from_data)
            for fact in dict.fromkeys(e.partition(":")[0] for e in mock.from_data)
        ]
        text += f"; {', '.join(computed)} computed from the data"
    return text


def _shrink(obj: Any) -> float:
    size_bytes = builder_of(obj).size_bytes(obj)
    return min(1.0, MAX_BYTES / size_bytes) if size_bytes else 1.0


def _given(kind: str, given: Any) -> str:
    return f"{kind} of {_columns(len(given))}" if isinstance(given, Mapping) else kind


def _computed(fact: str, entries: tuple[str, ...]) -> str:
    words = {"missing": "shares of missing values", "index": "the index"}.get(fact, fact)
    if fact in entries:
        return words
    return f"{words} of {_columns(sum(entry.startswith(f'{fact}:') for entry in entries))}"


def _columns(count: int) -> str:
    return f"{count} column{'' if count == 1 else 's'}"
