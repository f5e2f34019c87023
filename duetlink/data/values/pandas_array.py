"""One column of pandas as nodes. NumPy memory is sent unchanged; text and Arrow as their own buffers.

pandas's own Arrow metadata is not used: it is JSON that is parsed for dtypes and, for column labels, by
`ast.literal_eval`, and it is not exact. Here every dtype has its node, and this file has the code for it.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from duetlink.data.values import schema_pb2 as wire
from duetlink.data.values.base import Reader, Writer
from duetlink.data.values.numpy_ import write_array
from duetlink.data.values.numpy_shown import blanked
from duetlink.errors import MalformedValue, MissingLibrary

_MASKED: dict[str, Any] = {
    **{f"{sign}int{bits}": pd.arrays.IntegerArray for sign in ("", "u") for bits in (8, 16, 32, 64)},
    "float32": pd.arrays.FloatingArray,
    "float64": pd.arrays.FloatingArray,
    "bool": pd.arrays.BooleanArray,
}
_UNITS = ("s", "ms", "us", "ns")
# marks of missing values among text objects; 0 is text
_MISSING: dict[int, Any] = {1: None, 2: float("nan"), 3: pd.NA}
_OBJECTS_LIMIT = 100_000


def write_column(array: Any, writer: Writer) -> None:
    """Write a pandas array (`series.array`, `index.array`); raise UnsupportedValue."""
    dtype = array.dtype
    if isinstance(dtype, np.dtype) or type(array) is pd.arrays.NumpyExtensionArray:
        _write_numpy(array, writer)
    elif isinstance(dtype, pd.CategoricalDtype):
        writer.node(categorical=wire.Categorical(ordered=bool(dtype.ordered)))
        write_array(np.asarray(array.codes), writer, keep_read_only=False)
        writer.value(dtype.categories, ".categories")
    elif isinstance(dtype, pd.DatetimeTZDtype):
        writer.node(zoned_times=dtype.unit)
        write_array(array.asi8, writer, keep_read_only=False)
        writer.value(dtype.tz, ".dtype.tz")
    elif isinstance(dtype, pd.StringDtype):
        writer.node(
            string_column=wire.StringColumn(
                arrow_storage=dtype.storage == "pyarrow", nan=dtype.na_value is not pd.NA
            )
        )
        writer.value(_large(pa.array(array, from_pandas=True)), ".array")
    elif isinstance(dtype, pd.ArrowDtype):
        writer.node(arrow_column=wire.Empty())
        writer.value(_chunked(array.__arrow_array__()), ".array")
    elif isinstance(dtype, pd.PeriodDtype):
        # not freq.freqstr, which names the offset ("ME") and not the period ("M")
        writer.node(period=dtype.name.removeprefix("period[").removesuffix("]"))
        write_array(array.asi8, writer, keep_read_only=False)
    elif isinstance(dtype, pd.IntervalDtype):
        writer.node(interval=array.closed)
        writer.value(pd.Index(array.left), ".left")
        writer.value(pd.Index(array.right), ".right")
    elif isinstance(dtype, pd.SparseDtype):
        raise writer.unsupported(array, "it is sparse; send .sparse.to_dense()")
    elif hasattr(array, "_data") and hasattr(array, "_mask") and array._data.dtype.name in _MASKED:
        writer.node(masked=wire.Empty())
        # the values of missing items are still in memory
        write_array(blanked(array._data, array._mask), writer, keep_read_only=False)
        write_array(array._mask, writer, keep_read_only=False)
    else:
        raise writer.unsupported(array, f"dtype {dtype.name} does not travel; convert it with .astype(…)")


def _write_numpy(array: Any, writer: Writer) -> None:
    # pandas's copy-on-write makes arrays read-only; that is no property of the user's data
    values = np.asarray(array)
    if values.dtype != object:
        write_array(values, writer, keep_read_only=False)
        return
    items = values.tolist()
    marks = np.fromiter((_mark(item, writer) for item in items), np.uint8, len(items))
    if not (marks == 255).any():
        texts = [item if type(item) is str else None for item in items]
        try:
            text = pa.array(texts, pa.large_string())
        except UnicodeEncodeError:  # lone surrogates
            pass
        else:
            writer.node(text_objects=wire.Empty())
            writer.value(text, ".array")
            write_array(marks, writer)
            return
    if len(items) > _OBJECTS_LIMIT:
        raise writer.unsupported(
            array,
            f"dtype object with {len(items):,} items, not all text; give the column its own dtype",
        )
    writer.node(objects=wire.Empty())
    writer.value(items, "")


def _mark(item: object, writer: Writer) -> int:
    if type(item) is str:
        return 0
    if item is None:
        return 1
    if item is pd.NA:
        return 3
    # only the usual NaN: another one's sign and payload travel among objects
    return 2 if type(item) is float and item != item and (writer.plain_nan or _is_plain(item)) else 255


def _is_plain(nan: float) -> bool:
    return bool(np.float64(nan).view(np.uint64) == _PLAIN_NAN)


_PLAIN_NAN = np.float64("nan").view(np.uint64)


def _large(array: Any) -> Any:
    array = array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return array if array.type == pa.large_string() else array.cast(pa.large_string())


def _chunked(array: Any) -> Any:
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])


# -- reading -----------------------------------------------------------------------------------------------


def _read_categorical(node: wire.Categorical, reader: Reader) -> Any:
    codes = reader.expect(np.ndarray)
    categories = reader.value()
    if not isinstance(categories, pd.Index) or codes.dtype.kind != "i":
        raise MalformedValue("a categorical column came without codes or categories")
    return pd.Categorical.from_codes(codes, dtype=pd.CategoricalDtype(categories, node.ordered))


def _counts(reader: Reader) -> np.ndarray[Any, Any]:
    counts = reader.expect(np.ndarray)
    if counts.dtype != np.dtype("<i8") or counts.ndim != 1:
        raise MalformedValue("a column of times came without its int64 counts")
    return counts


def _read_zoned(unit: str, reader: Reader) -> Any:
    if unit not in _UNITS:
        raise MalformedValue("a column of times has an unknown unit")
    counts, zone = _counts(reader), reader.value()
    if not isinstance(zone, dt.tzinfo):
        raise MalformedValue("a column of times came without its time zone")
    times = pd.DatetimeIndex(counts.view(f"M8[{unit}]"), copy=False).tz_localize("UTC").tz_convert(zone)
    return times.array


def _read_masked(node: wire.Empty, reader: Reader) -> Any:
    data, mask = reader.expect(np.ndarray), reader.expect(np.ndarray)
    if data.dtype.name not in _MASKED or mask.dtype != np.bool_ or data.shape != mask.shape or data.ndim != 1:
        raise MalformedValue("a nullable column's data and mask do not fit")
    return _MASKED[data.dtype.name](data, mask, copy=False)


def _read_string(node: wire.StringColumn, reader: Reader) -> Any:
    text = reader.expect(pa.LargeStringArray)
    storage = "pyarrow" if node.arrow_storage else "python"
    try:
        dtype = pd.StringDtype(storage, na_value=np.nan if node.nan else pd.NA)
    except TypeError as error:  # before pandas 2.3
        raise MissingLibrary("the column's string dtype needs pandas 2.3 or newer") from error
    return dtype.__from_arrow__(text)


def _read_period(frequency: str, reader: Reader) -> Any:
    counts = _counts(reader)
    return pd.PeriodIndex.from_ordinals(counts, freq=frequency).array


def _read_interval(closed: str, reader: Reader) -> Any:
    left, right = reader.value(), reader.value()
    if not isinstance(left, pd.Index) or not isinstance(right, pd.Index):
        raise MalformedValue("a column of intervals came without its bounds")
    return pd.arrays.IntervalArray.from_arrays(left, right, closed=closed)


def _read_text_objects(node: wire.Empty, reader: Reader) -> Any:
    text, marks = reader.expect(pa.LargeStringArray), reader.expect(np.ndarray)
    if marks.dtype != np.uint8 or marks.shape != (len(text),) or (marks > 3).any():
        raise MalformedValue("a column of text objects has wrong marks")
    values = np.array([*text.to_pylist(), None], dtype=object)[:-1]
    for mark, missing in _MISSING.items():
        values[marks == mark] = missing
    if any(item is None for item in values[marks == 0]):
        raise MalformedValue("a column of text objects lacks a text")
    return values


def _read_objects(node: wire.Empty, reader: Reader) -> Any:
    items = reader.expect(list)
    values = np.empty(len(items), dtype=object)
    for index, item in enumerate(items):
        values[index] = item
    return values


READERS: dict[str, Callable[[Any, Reader], Any]] = {
    "categorical": _read_categorical,
    "zoned_times": _read_zoned,
    "masked": _read_masked,
    "string_column": _read_string,
    "arrow_column": lambda node, reader: pd.arrays.ArrowExtensionArray(reader.expect(pa.ChunkedArray)),
    "period": _read_period,
    "interval": _read_interval,
    "text_objects": _read_text_objects,
    "objects": _read_objects,
}
