"""Mocks of Polars frames and series. Categories are data, even those of an Enum, which are part of
its dtype.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import polars as pl

from duetlink.compute.mocks import arrow_, arrow_array, arrow_type
from duetlink.compute.mocks.base import Span
from duetlink.compute.mocks.draw import UNKNOWN_CATEGORIES
from duetlink.compute.mocks.facts import Facts, NoFacts
from duetlink.compute.mocks.registry import unsupported
from duetlink.compute.mocks.scope import Scope
from duetlink.errors import SettingError

# dtypes that Arrow has in the same form; not objects, for example
_TYPES = {
    *(pl.Boolean, pl.Int8, pl.Int16, pl.Int32, pl.Int64, pl.UInt8, pl.UInt16, pl.UInt32, pl.UInt64),
    *(pl.Float32, pl.Float64, pl.Decimal, pl.String, pl.Binary, pl.Null),
    *(pl.Date, pl.Time, pl.Datetime, pl.Duration, pl.List, pl.Array, pl.Struct),
}
_NO_FACTS = NoFacts()


class PolarsMockBuilder:
    def rows(self, obj: Any) -> int | None:
        return len(obj) if isinstance(obj, (pl.DataFrame, pl.Series)) else None

    def size_bytes(self, obj: Any) -> int:
        if not isinstance(obj, (pl.DataFrame, pl.Series)):
            return 0
        dtypes = obj.dtypes if isinstance(obj, pl.DataFrame) else [obj.dtype]
        return len(obj) * sum(_width_bytes(dtype) for dtype in dtypes)

    def make(self, obj: Any, scope: Scope) -> object:
        if type(obj) is pl.Series:
            column = _column(obj.dtype, scope.rows(len(obj)), scope.named(obj.name or None), _facts(obj))
            return column.alias(obj.name)
        if type(obj) is not pl.DataFrame:
            raise unsupported(obj, "give a mock of its .collect()" if type(obj) is pl.LazyFrame else "")
        rows = scope.rows(obj.height)
        if rows and not obj.width:
            raise unsupported(obj, "it has rows but no columns")
        return pl.DataFrame(
            [
                _column(column.dtype, rows, scope.child(column.name), _facts(column)).alias(column.name)
                for column in obj.get_columns()
            ]
        )

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        if isinstance(obj, pl.Series):
            if obj.name != mock.name:
                yield f"the object's name is {obj.name!r}, the mock's {mock.name!r}"
            if not _same(obj.dtype, mock.dtype):
                yield f"the object's dtype is {_name(obj.dtype)}, the mock's {_name(mock.dtype)}"
            return
        if obj.columns != mock.columns:
            yield f"the object's columns are {_listed(obj)}, the mock's {_listed(mock)}"
            return
        for name, one, other in zip(obj.columns, obj.dtypes, mock.dtypes, strict=True):
            if not _same(one, other):
                yield f"column {name!r} is {_name(one)}, in the mock {_name(other)}"

    def memory(self, obj: Any) -> Iterator[Span]:
        columns = obj.get_columns() if isinstance(obj, pl.DataFrame) else [obj]
        for column in columns:
            if isinstance(column, pl.Series) and column.dtype != pl.Object:
                array = column.to_arrow(compat_level=pl.CompatLevel.newest())
                yield from arrow_.spans(array, f"column {column.name!r}")

    def part(self, obj: Any, start: int, stop: int) -> Any:
        return obj.slice(start, stop - start)

    def equal(self, left: Any, right: Any) -> bool:
        try:
            return bool(left.equals(right))
        except pl.exceptions.PolarsError:  # Enums with different categories
            return False

    def is_ordinary(self, obj: Any) -> bool:
        dtypes = obj.dtypes if isinstance(obj, pl.DataFrame) else [obj.dtype]
        return all(dtype == pl.Null for dtype in dtypes)


def _facts(series: pl.Series) -> Facts:
    if series.dtype.is_nested() or series.dtype == pl.Object:
        return _NO_FACTS
    return _PolarsFacts(series)


class _PolarsFacts:
    """The facts of a Polars series, computed by Arrow. The series is converted on the first call."""

    def __init__(self, series: pl.Series) -> None:
        self._series = series
        self.discrete = series.dtype.is_integer() or _is_text(series.dtype)

    def bounds(self) -> Any:
        return None if _is_text(self._series.dtype) else self._facts().bounds()

    def counts(self) -> Any:
        counts = self._facts().counts()
        if isinstance(self._series.dtype, pl.Enum):
            counts = {**dict.fromkeys(self._series.dtype.categories.to_list(), 0), **counts}
        return counts

    def missing(self) -> float:
        return self._facts().missing()

    def _facts(self) -> arrow_.ColumnFacts:
        series = self._series.cast(pl.String) if _is_text(self._series.dtype) else self._series
        return arrow_.ColumnFacts(series.to_arrow())


def _column(dtype: Any, count: int, scope: Scope, facts: Facts = _NO_FACTS) -> pl.Series:
    if isinstance(dtype, pl.List):
        inner = _column(dtype.inner, count * arrow_type.INNER, scope)
        return _reshaped(inner, count, arrow_type.INNER).arr.to_list()
    if isinstance(dtype, pl.Array):
        return _reshaped(_column(dtype.inner, count * dtype.size, scope), count, dtype.size)
    if isinstance(dtype, pl.Struct):
        parts = [
            _column(field.dtype, count, scope.child(field.name)).alias(field.name) for field in dtype.fields
        ]
        return pl.DataFrame(parts).to_struct() if parts else pl.Series([{}] * count, dtype=dtype)
    if isinstance(dtype, (pl.Categorical, pl.Enum)):
        return _categories(dtype, count, scope, facts)
    made = arrow_array.array(_arrow(dtype), count, scope, facts)
    series = pl.from_arrow(made)
    assert isinstance(series, pl.Series)
    return series.cast(dtype)


def _reshaped(series: pl.Series, count: int, size: int) -> pl.Series:
    if count and size:
        inner = series.dtype.shape if isinstance(series.dtype, pl.Array) else ()
        return series.reshape((count, size, *inner))
    return pl.Series([[]] * count, dtype=pl.Array(series.dtype, size))


def _categories(dtype: Any, count: int, scope: Scope, facts: Facts) -> pl.Series:
    draw = scope.draw(facts)
    draw.unbounded("a column of categories")

    def texts(values: Any) -> list[str]:
        if any(type(value) is not str for value in values) or len(set(values)) < len(values):
            raise ValueError("they are not all different texts")
        return list(values)

    known = [f"category {number}" for number in range(UNKNOWN_CATEGORIES)]
    choices, picks = draw.chosen(count, texts) or (known, draw.picks(count, len(known)))
    gaps = draw.gaps(count)
    made = [None if gap else choices[pick] for pick, gap in zip(picks.tolist(), gaps.tolist(), strict=True)]
    return pl.Series(made, dtype=pl.Enum(choices) if isinstance(dtype, pl.Enum) else dtype)


def _width_bytes(dtype: Any) -> int:
    return arrow_type.width_bytes(
        _arrow(_with_leaves(dtype, lambda leaf: pl.String if _is_text(leaf) else leaf))
    )


def _arrow(dtype: Any) -> Any:
    """Return Arrow's type for a dtype without categories."""
    try:
        if dtype.base_type() not in _TYPES:
            raise TypeError
        return arrow_type.bare(pl.Series([], dtype=dtype).to_arrow(compat_level=pl.CompatLevel.newest()).type)
    except (pl.exceptions.PolarsError, pl.exceptions.PanicException, ValueError, TypeError):
        raise SettingError(
            f"of a column of polars's dtype {_name(dtype)} no mock can be made; .cast(…) it, "
            "or give a mock by hand"
        ) from None


def _with_leaves(dtype: Any, leaf: Callable[[Any], Any]) -> Any:
    """Return the dtype with `leaf` applied to every dtype in it that is not nested."""
    if isinstance(dtype, pl.List):
        return pl.List(_with_leaves(dtype.inner, leaf))
    if isinstance(dtype, pl.Array):
        return pl.Array(_with_leaves(dtype.inner, leaf), dtype.size)
    if isinstance(dtype, pl.Struct):
        return pl.Struct({field.name: _with_leaves(field.dtype, leaf) for field in dtype.fields})
    return leaf(dtype)


def _is_text(dtype: Any) -> bool:
    return isinstance(dtype, (pl.String, pl.Categorical, pl.Enum))


def _same(one: Any, other: Any) -> bool:
    """Compare dtypes as user code would notice: an Enum may have other categories."""

    def bare(dtype: Any) -> Any:
        return pl.Enum([]) if isinstance(dtype, pl.Enum) else dtype

    return bool(_with_leaves(one, bare) == _with_leaves(other, bare))


def _name(dtype: Any) -> str:
    return "Enum" if isinstance(dtype, pl.Enum) else str(dtype)


def _listed(frame: pl.DataFrame) -> str:
    return ", ".join(map(repr, frame.columns)) or "none"


HANDLER: Any = PolarsMockBuilder()
