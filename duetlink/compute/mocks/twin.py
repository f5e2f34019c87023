"""Making a twin: from what an object is, never from what is in it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar, cast

from duetlink.compute.mocks.mock import BOUNDS, CATEGORIES, LIKE, Mock
from duetlink.compute.mocks.registry import twin_type, unsupported
from duetlink.compute.mocks.scope import Scope

MAX_BYTES = 16 * 1024 * 1024  # of a mock, where the owner does not say how many rows
_SCHEMA_ONLY = Mock()
_T = TypeVar("_T")


def make(obj: _T, mock: Mock = _SCHEMA_ONLY, name: str = "") -> _T:
    """The synthetic twin of `obj`: same type, dtypes, number of dimensions, shape of a row, kind of index.

    Names of columns, fields and index levels, the type of Python's values, the width of fixed texts (it is in
    their dtype) and the number of rows are schema, and shown as they are. Nothing else of the data has a part
    in it unless `mock.from_data` says so: not whether values are missing, nor the order of an index, nor a
    Categorical's categories; `attrs` and metadata are left out. The twin shares no memory with the object. It
    is the same each time, by its seed and by the `name` under which the object is shared: objects of one
    schema have different twins, or else their difference would be zero on these.

    Supported are NumPy's arrays and scalars, torch's tensors and parameters, frames, series and indexes of
    pandas, frames and series of polars, tables, batches, arrays and scalars of Arrow, and Python's builtins
    (`builtins_.py` says which keys of dicts are schema).

    Raises:
        SettingError: the object is of another type, or `mock` does not fit it.
    """
    try:
        scope = Scope(mock, _shrink(obj), name)
        twin = cast(_T, twin_type(obj).make(obj, scope))
    except RecursionError:
        raise unsupported(obj, "it contains itself, or is nested too deep") from None
    scope.finish()
    return twin


def row_count(obj: object) -> int | None:
    """How many rows an object has; None for scalars, and for tuples and dicts of several objects.

    Raises:
        SettingError: the object is of a type of which no twin can be made.
    """
    return twin_type(obj).rows(obj)


def describe(mock: Mock, obj: object) -> str:
    """What `make(obj, mock)` is made from, in words and in one line, without names or values.

    Raises:
        SettingError: the object is of a type of which no twin can be made.
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
    size_bytes = twin_type(obj).size_bytes(obj)
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
