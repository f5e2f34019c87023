"""pandas frames, series, indexes and scalars: an index, and columns by `pandas_array.py`."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import pandas as pd
from pandas.tseries.frequencies import to_offset

from duetlink.data.values import schema_pb2 as wire
from duetlink.data.values.base import Reader, Writer, counted
from duetlink.data.values.numpy_shown import used
from duetlink.data.values.pandas_array import READERS, write_column
from duetlink.errors import MalformedValue

_INDEXES = (
    pd.Index,
    pd.CategoricalIndex,
    pd.DatetimeIndex,
    pd.IntervalIndex,
    pd.PeriodIndex,
    pd.TimedeltaIndex,
)
_UNITS = ("s", "ms", "us", "ns")


class PandasType:
    def describe(self, obj: Any) -> str:
        if isinstance(obj, pd.DataFrame):
            return f"{counted(len(obj), 'row')} × {counted(len(obj.columns), 'column')}"
        if isinstance(obj, pd.Series):
            return f"{counted(len(obj), 'row')}, {_name(obj.dtype)}"
        return counted(len(obj), "item") if isinstance(obj, pd.Index) else ""

    def elements(self, obj: Any) -> int | None:
        if isinstance(obj, (pd.DataFrame, pd.Series)):
            dtypes = obj.dtypes if isinstance(obj, pd.DataFrame) else [obj.dtype]
            names = [obj.columns.names, obj.columns] if isinstance(obj, pd.DataFrame) else [[obj.name]]
            labels = _bounds(obj.index) if isinstance(obj.index, pd.RangeIndex) else _labels(obj.index)
            labels += _further_names(*names, obj.index.names)
            return int(obj.size) + labels + _further_categories(dtypes, len(obj))
        if isinstance(obj, pd.Index):
            return _labels(obj) + _further_names(obj.names)
        if isinstance(obj, pd.api.extensions.ExtensionArray):
            return len(obj) + _further_categories([obj.dtype], len(obj))
        return 1

    def write(self, obj: Any, writer: Writer) -> None:
        if type(obj) is pd.DataFrame:
            _write_frame(obj, writer)
        elif type(obj) is pd.Series:
            writer.node(series=wire.Series(unique_labels=not obj.flags.allows_duplicate_labels))
            writer.value(obj.name, ".name")
            writer.value(obj.index, ".index")
            writer.value(obj.attrs, ".attrs")
            write_column(obj.array, writer)
        elif isinstance(obj, pd.Index):
            _write_index(obj, writer)
        elif isinstance(obj, pd.api.extensions.ExtensionArray):
            write_column(obj, writer)
        elif obj is pd.NaT:
            writer.node(not_a_time=wire.Empty())
        elif obj is pd.NA:
            writer.node(not_available=wire.Empty())
        elif type(obj) is pd.Timestamp:
            count = int(_in_utc(obj).to_datetime64().astype(np.int64))
            writer.node(instant=wire.Instant(count=count, unit=obj.unit, fold=bool(obj.fold)))
            writer.value(obj.tz, ".tz")
        elif type(obj) is pd.Timedelta:
            writer.node(span=wire.Instant(count=int(obj.to_timedelta64().astype(np.int64)), unit=obj.unit))
        else:
            raise writer.unsupported(obj, "send a DataFrame, Series or Index of pandas")

    def read(self, node: wire.Node, reader: Reader) -> object:
        kind = str(node.WhichOneof("kind"))
        if kind in READERS:
            return READERS[kind](getattr(node, kind), reader)
        match kind:
            case "frame":
                return _read_frame(node.frame, reader)
            case "series":
                return _read_series(node.series, reader)
            case "index":
                return _read_index(node.index, reader)
            case "range_index":
                name, bounds = reader.value(), [reader.expect(int) for _ in range(3)]
                return pd.RangeIndex(*bounds, name=name)
            case "multi_index":
                return _read_multi(node.multi_index, reader)
            case "instant":
                zone = reader.value()
                time = pd.Timestamp(np.datetime64(node.instant.count, _unit(node.instant.unit)))
                time = time if zone is None else time.tz_localize("UTC").tz_convert(zone)
                return time.replace(fold=node.instant.fold)
            case "span":
                return pd.Timedelta(np.timedelta64(node.span.count, _unit(node.span.unit)))
            case "not_a_time":
                return pd.NaT
            case _:
                return pd.NA


def _labels(index: Any) -> int:
    if isinstance(index, pd.MultiIndex):
        return int(len(index) * index.nlevels)
    return len(index) + _further_categories([index.dtype], len(index))


def _bounds(index: Any) -> int:
    """Return how many bounds of a range differ from those of plain row numbers."""
    return int(index.start != 0) + int(index.step != 1)


def _further_names(*several: Iterable[Any]) -> int:
    """Return the number of items in names that are tuples, which could hold all rows.

    Other names are not counted.
    """
    return sum(_in_tuples(name) for names in several for name in names)


def _in_tuples(name: Any) -> int:
    if type(name) is not tuple:
        return 0
    return sum(_in_tuples(part) or 1 for part in name)


def _further_categories(dtypes: Iterable[Any], rows: int) -> int:
    """Return the number of categories beyond the rows: all are sent, used or not."""
    kinds = [dtype for dtype in dtypes if isinstance(dtype, pd.CategoricalDtype)]
    return sum(max(0, len(kind.categories) - rows) for kind in kinds)


def _in_utc(time: pd.Timestamp) -> Any:
    return time if time.tz is None else time.tz_convert("UTC").tz_localize(None)


def _unit(unit: str) -> Any:
    if unit not in _UNITS:
        raise MalformedValue("a time has an unknown unit")
    return unit


def _name(dtype: Any) -> str:
    return str(dtype) if isinstance(dtype, np.dtype) else str(dtype.name)


# -- indexes -----------------------------------------------------------------------------------------------


def _write_index(obj: Any, writer: Writer) -> None:
    if type(obj) is pd.RangeIndex:
        writer.node(range_index=wire.Empty())
        for part in ("name", "start", "stop", "step"):
            writer.value(getattr(obj, part), f".{part}")
    elif type(obj) is pd.MultiIndex:
        obj = _without_unused_labels(obj)
        writer.node(multi_index=obj.nlevels)
        writer.value(list(obj.names), ".names")
        for number, level in enumerate(obj.levels):
            writer.value(level.rename(None), f".levels[{number}]")
        for number, codes in enumerate(obj.codes):
            writer.value(np.asarray(codes), f".codes[{number}]")
    elif type(obj) in _INDEXES:
        writer.node(index=wire.Index(frequency=_frequency(obj)))
        writer.value(obj.name, ".name")
        write_column(obj.array, writer)
    else:
        raise writer.unsupported(obj, "send pd.Index(…) of it")


def _without_unused_labels(index: pd.MultiIndex) -> pd.MultiIndex:
    """Drop unused labels: a selection of rows keeps the labels of all other rows in its levels."""
    for level, codes in zip(index.levels, index.codes, strict=True):
        if len(used(np.asarray(codes), len(level))) < len(level):
            return index.remove_unused_levels()
    return index


def _frequency(index: Any) -> str:
    """Return the frequency's name; empty if there is none or the name is not exact (custom holidays)."""
    offset = getattr(index, "freq", None)
    if offset is None or isinstance(index, pd.PeriodIndex):
        return ""
    try:
        return str(offset.freqstr) if to_offset(offset.freqstr) == offset else ""
    except ValueError:
        return ""


def _read_index(node: wire.Index, reader: Reader) -> Any:
    name, array = reader.value(), reader.value()
    if not isinstance(array, (np.ndarray, pd.api.extensions.ExtensionArray)) or array.ndim != 1:
        raise MalformedValue(f"a {type(array).__name__} came in place of an index's column")
    index = pd.Index(array, dtype=array.dtype, name=name, copy=False)
    if node.frequency:
        if not isinstance(index, (pd.DatetimeIndex, pd.TimedeltaIndex)):
            raise MalformedValue("an index that is not of times has a frequency")
        index.freq = node.frequency  # checked against the index by pandas
    return index


def _read_multi(levels: int, reader: Reader) -> Any:
    names = reader.expect(list)
    parts = list(reader.children(2 * levels))
    if not all(isinstance(level, pd.Index) for level in parts[:levels]):
        raise MalformedValue("a MultiIndex came without its levels")
    if not all(isinstance(codes, np.ndarray) and codes.dtype.kind == "i" for codes in parts[levels:]):
        raise MalformedValue("a MultiIndex came without its codes")
    return pd.MultiIndex(parts[:levels], parts[levels:], names=names, verify_integrity=True)


# -- frames and series ---------------------------------------------------------------------------------------


def _write_frame(obj: Any, writer: Writer) -> None:
    columns = obj.columns
    writer.node(frame=wire.Frame(columns=len(columns), unique_labels=not obj.flags.allows_duplicate_labels))
    writer.value(columns, ".columns")
    writer.value(obj.index, ".index")
    writer.value(obj.attrs, ".attrs")
    for number in range(len(columns)):
        with writer.at(f"[{columns[number]!r:.60}]"):
            write_column(obj.iloc[:, number].array, writer)


def _read_rows(reader: Reader) -> tuple[Any, dict[Any, Any]]:
    rows = reader.value()
    if not isinstance(rows, pd.Index):
        raise MalformedValue(f"a {type(rows).__name__} came in place of an index")
    return rows, reader.expect(dict)


def _column(reader: Reader, rows: Any) -> Any:
    array: Any = reader.value()
    if (
        getattr(array, "ndim", None) != 1
        or not hasattr(array, "dtype")
        or isinstance(array, (pd.Index, pd.Series))
    ):
        raise MalformedValue(f"a {type(array).__name__} came in place of a column")
    if len(array) != len(rows):
        raise MalformedValue(f"a column of {len(array):,} values came for {len(rows):,} rows")
    # the dtype is passed, since pandas 3 would turn objects into text
    return pd.Series(array, index=rows, dtype=array.dtype, copy=False)


def _read_frame(node: wire.Frame, reader: Reader) -> Any:
    columns = reader.value()
    if not isinstance(columns, pd.Index) or len(columns) != node.columns:
        raise MalformedValue("a frame came without the names of its columns")
    rows, attrs = _read_rows(reader)
    data = {number: _column(reader, rows) for number in range(node.columns)}
    frame = pd.DataFrame(data, index=rows, copy=False)
    frame.columns = columns
    frame.attrs = attrs
    if node.unique_labels:
        frame.flags.allows_duplicate_labels = False
    return frame


def _read_series(node: wire.Series, reader: Reader) -> Any:
    name = reader.value()
    rows, attrs = _read_rows(reader)
    series = _column(reader, rows).rename(name)
    series.attrs = attrs
    if node.unique_labels:
        series.flags.allows_duplicate_labels = False
    return series


HANDLER = PandasType()
