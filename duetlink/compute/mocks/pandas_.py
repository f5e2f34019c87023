"""Mocks of pandas frames, series and indexes. Column labels and index names are schema; `attrs` are
left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

from duetlink.compute.mocks import arrow_, numpy_
from duetlink.compute.mocks.base import Span
from duetlink.compute.mocks.pandas_array import column, same_dtype, width_bytes
from duetlink.compute.mocks.pandas_index import index_of, names_of
from duetlink.compute.mocks.registry import unsupported
from duetlink.compute.mocks.scope import Scope

_SHAPED = (pd.DataFrame, pd.Series, pd.Index)


class PandasMockBuilder:
    def rows(self, obj: Any) -> int | None:
        return len(obj) if isinstance(obj, _SHAPED) else None

    def size_bytes(self, obj: Any) -> int:
        if not isinstance(obj, _SHAPED):
            return 0
        index = obj if isinstance(obj, pd.Index) else obj.index
        dtypes = list(obj.dtypes) if isinstance(obj, pd.DataFrame) else []
        dtypes += [obj.dtype] if isinstance(obj, pd.Series) else []
        dtypes += list(index.dtypes) if isinstance(index, pd.MultiIndex) else [index.dtype]
        return len(obj) * sum(map(width_bytes, dtypes))

    def make(self, obj: Any, scope: Scope) -> object:
        if isinstance(obj, pd.Index):
            return index_of(obj, scope.rows(len(obj)), scope.named(obj.name), alone=True)
        if type(obj) is pd.Series:
            rows = scope.rows(len(obj))
            index = index_of(obj.index, rows, scope)
            values = column(obj, rows, scope.named(obj.name))
            return pd.Series(values, index=index, dtype=values.dtype, name=obj.name)
        if type(obj) is not pd.DataFrame:
            raise unsupported(obj, "" if not isinstance(obj, pd.DataFrame) else "it is more than a DataFrame")
        rows = scope.rows(len(obj))
        index = index_of(obj.index, rows, scope)
        columns = {}
        for number, name in enumerate(obj.columns):
            values = column(obj.iloc[:, number], rows, scope.child(name))
            # a series keeps its dtype; a frame would convert objects to texts
            columns[number] = pd.Series(values, index=index, dtype=values.dtype)
        frame = pd.DataFrame(columns, index=index)
        frame.columns = names_of(obj.columns)
        return frame

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        if isinstance(obj, pd.DataFrame):
            if list(obj.columns) != list(mock.columns):
                yield from _names(list(obj.columns), list(mock.columns))
            else:
                for name, one, other in zip(obj.columns, obj.dtypes, mock.dtypes, strict=True):
                    if not same_dtype(one, other):
                        yield f"column {name!r} is {one}, in the mock {other}"
        elif hasattr(obj, "dtype") and not same_dtype(obj.dtype, mock.dtype):
            yield f"the object's dtype is {obj.dtype}, the mock's {mock.dtype}"
        if isinstance(obj, pd.Series) and obj.name != mock.name:
            yield f"the object's name is {obj.name!r}, the mock's {mock.name!r}"
        if isinstance(obj, (pd.DataFrame, pd.Series)):
            yield from _indexes(obj.index, mock.index)
        elif isinstance(obj, pd.MultiIndex):
            yield from _indexes(obj, mock)

    def memory(self, obj: Any) -> Iterator[Span]:
        if isinstance(obj, pd.DataFrame):
            for number, name in enumerate(obj.columns):
                yield from _spans(obj.iloc[:, number].array, f"column {name!r}")
        elif isinstance(obj, pd.Series):
            yield from _spans(obj.array, "column")
        elif isinstance(obj, pd.api.extensions.ExtensionArray):
            yield from _spans(obj, "array")
        if isinstance(obj, (pd.DataFrame, pd.Series)):
            obj = obj.index
        if isinstance(obj, pd.MultiIndex):
            for codes in obj.codes:
                yield from numpy_.spans(np.asarray(codes), "index")
        elif isinstance(obj, pd.Index) and not isinstance(obj, pd.RangeIndex):
            yield from _spans(obj.array, "index")

    def part(self, obj: Any, start: int, stop: int) -> Any:
        return obj[start:stop] if isinstance(obj, pd.Index) else obj.iloc[start:stop]

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, (pd.DataFrame, pd.Series)):
            left, right = left.reset_index(drop=True), right.reset_index(drop=True)
        return bool(left.equals(right)) if hasattr(left, "equals") else bool(left == right)

    def is_ordinary(self, obj: Any) -> bool:
        return obj is pd.NA or obj is pd.NaT or getattr(obj, "size", 1) == 0


def _names(ours: list[Any], theirs: list[Any]) -> Iterator[str]:
    lacking = [name for name in ours if name not in theirs]
    strange = [name for name in theirs if name not in ours]
    if lacking:
        yield f"the mock lacks the columns {', '.join(map(repr, lacking[:8]))}"
    if strange:
        yield f"the mock has the columns {', '.join(map(repr, strange[:8]))}, which the object has not"
    if not lacking and not strange:
        yield f"the columns are {', '.join(map(repr, ours[:8]))}, in the mock in another order or number"


def _indexes(one: Any, other: Any) -> Iterator[str]:
    if one.nlevels != other.nlevels:
        yield f"the index has {one.nlevels} levels, in the mock {other.nlevels}"
    elif list(one.names) != list(other.names):
        yield f"the index is named {list(one.names)}, in the mock {list(other.names)}"
    else:
        for level in range(one.nlevels):
            ours, theirs = (_level(index, level).dtype for index in (one, other))
            if not same_dtype(ours, theirs):
                yield f"the index is {ours}, in the mock {theirs}"


def _level(index: Any, level: int) -> Any:
    return index.levels[level] if isinstance(index, pd.MultiIndex) else index


def _spans(array: Any, part: str) -> Iterator[Span]:
    """Yield the memory ranges of the values of a pandas array, without its categories, which arrays
    may share.
    """
    dtype = array.dtype
    if isinstance(dtype, pd.CategoricalDtype):
        yield from numpy_.spans(np.asarray(array.codes), part)
    elif isinstance(dtype, (pd.DatetimeTZDtype, pd.PeriodDtype)):
        yield from numpy_.spans(array.asi8, part)
    elif isinstance(dtype, pd.IntervalDtype):
        yield from _spans(pd.Index(array.left).array, part)
        yield from _spans(pd.Index(array.right).array, part)
    elif hasattr(array, "_data") and hasattr(array, "_mask"):
        yield from numpy_.spans(array._data, part)
        yield from numpy_.spans(array._mask, part)
    elif hasattr(array, "__arrow_array__") and hasattr(array, "_pa_array"):
        yield from arrow_.spans(array.__arrow_array__(), part)
    else:
        yield from numpy_.spans(np.asarray(array), part)


HANDLER: Any = PandasMockBuilder()
