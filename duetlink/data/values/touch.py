"""Use a decoded value as its user would: print it, copy it, read every column.

A library may accept a malicious body and crash only when the value is used. A process that tests values must
therefore use them. Exceptions do no harm; the question is whether the process survives.
"""

from __future__ import annotations

import sys
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from duetlink.data.values.registry import registered

# Python objects are made of this many items at either end of a column, and of this many parts of a container.
SAMPLE_ITEMS = 1000
_MOST_PARTS = 10_000


def touch(value: object) -> None:
    """Use a decoded value. Returns, whatever the libraries raise, or the process dies."""
    pending, parts = [value], 0
    while pending and parts < _MOST_PARTS:
        part = pending.pop()
        parts += 1
        if isinstance(part, (dict, OrderedDict)):
            pending.extend(part.keys())
            pending.extend(part.values())
        elif isinstance(part, (list, tuple, set, frozenset)):
            pending.extend(part)
        else:
            root = type(part).__module__.partition(".")[0]
            if root in _OF_LIBRARY and root in sys.modules:
                _OF_LIBRARY[root](part)
            elif root in registered():
                _each(lambda part=part: repr(part))  # type: ignore[misc]


@contextmanager
def _whatever_it_raises() -> Iterator[None]:
    try:
        yield
    except (KeyboardInterrupt, SystemExit):
        raise
    except BaseException:  # a panic of polars is no Exception
        pass


def _each(*uses: Callable[[], object]) -> None:
    for use in uses:
        with _whatever_it_raises():
            use()


def _ends(obj: Any) -> Iterable[Any]:
    """Return the first and the last items of something that can be sliced."""
    length = len(obj)
    return (obj[:SAMPLE_ITEMS], obj[max(0, length - SAMPLE_ITEMS) :])


def _numpy(obj: Any) -> None:
    import numpy as np

    _each(lambda: repr(obj), lambda: obj.copy(), lambda: obj.tobytes())
    if not isinstance(obj, np.ndarray):
        _each(obj.tolist)
        return
    for name in obj.dtype.names or ():
        _each(lambda name=name: _numpy(obj[name]))  # type: ignore[misc]
    with _whatever_it_raises():
        for some in _ends(obj.reshape(-1)):
            _each(some.tolist, lambda some=some: np.sort(some))  # type: ignore[misc]


def _torch(obj: Any) -> None:
    _each(lambda: repr(obj), lambda: obj.detach().clone(), lambda: obj.detach().double().sum())
    with _whatever_it_raises():
        for some in _ends(obj.detach().reshape(-1)):
            some.tolist()


def _pandas(obj: Any) -> None:
    import pandas as pd

    _each(lambda: repr(obj), lambda: obj.copy())
    if isinstance(obj, pd.DataFrame):
        with _whatever_it_raises():
            for number in range(min(obj.shape[1], _MOST_PARTS)):
                _column(obj.iloc[:, number].array)
            _column(obj.index)
            _column(obj.columns)
    elif isinstance(obj, pd.Series):
        _column(obj.array)
        _column(obj.index)
    elif hasattr(obj, "__len__"):
        _column(obj)


def _column(column: Any) -> None:
    import pandas as pd

    if isinstance(column, pd.RangeIndex):  # any length, without memory, as a range has
        return
    _each(column.isna, column.copy, lambda: column.astype(str) if len(column) <= SAMPLE_ITEMS else None)
    with _whatever_it_raises():
        for some in _ends(column):
            _each(lambda some=some: list(some), lambda some=some: some.take([0, len(some) - 1]))  # type: ignore[misc]


def _polars(obj: Any) -> None:
    import polars as pl

    _each(lambda: repr(obj))
    for series in obj.get_columns() if isinstance(obj, pl.DataFrame) else [obj]:
        for some in _ends(series):
            _each(some.to_list)
        _each(series.to_arrow, series.null_count, series.rechunk, series.hash, series.sort)


def _pyarrow(obj: Any) -> None:
    import pyarrow as pa

    _each(lambda: repr(obj), lambda: str(obj), lambda: obj.validate(full=True))
    if isinstance(obj, (pa.Table, pa.RecordBatch)):
        columns: Iterable[Any] = obj.columns
    else:
        columns = [obj]
    for column in columns:
        if isinstance(column, pa.Scalar):
            _each(column.as_py)
        elif isinstance(column, (pa.Array, pa.ChunkedArray)):
            _arrow_column(column)


def _arrow_column(column: Any) -> None:
    import pyarrow as pa

    for some in _ends(column):
        _each(some.to_pylist, lambda some=some: some.take(pa.array([0, len(some) - 1])))  # type: ignore[misc]
    chunks = column.chunks if isinstance(column, pa.ChunkedArray) else [column]
    for chunk in chunks:
        _each(lambda chunk=chunk: pa.concat_arrays([chunk]), chunk.drop_null, chunk.unique)  # type: ignore[misc]
    _each(lambda: column.to_numpy(zero_copy_only=False) if len(column) <= SAMPLE_ITEMS else None)


_OF_LIBRARY: dict[str, Callable[[Any], None]] = {
    "numpy": _numpy,
    "torch": _torch,
    "pandas": _pandas,
    "polars": _polars,
    "pyarrow": _pyarrow,
}
