"""Mocks of one column of a pandas frame, of every dtype that can be sent."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

from duetlink.compute.mocks import arrow_array, arrow_type, items, numpy_
from duetlink.compute.mocks.base import TEXT_BYTES
from duetlink.compute.mocks.draw import UNKNOWN_CATEGORIES, ColumnSampler
from duetlink.compute.mocks.instants import START
from duetlink.compute.mocks.mock import Mock
from duetlink.compute.mocks.pandas_facts import facts_of, is_masked
from duetlink.compute.mocks.scope import Scope
from duetlink.errors import SettingError

_PERIODS = 120
_DAYS = 90_000  # days after 2000 that int64 nanoseconds can represent


def column(series: Any, count: int, scope: Scope) -> Any:
    """Return the values of a mock column, as an array of pandas or NumPy.

    In a column of objects, the types of the items are read; texts are made if there is no type, or several.

    Raises:
        SettingError: the dtype is unknown here, or bounds or categories do not fit it.
    """
    dtype = series.dtype
    if isinstance(dtype, np.dtype) and dtype.kind == "O":
        made = np.empty(count, object)
        made[:] = items.items(series.tolist(), count, scope, mixed=True)
        return made
    if isinstance(dtype, pd.ArrowDtype):
        type_ = arrow_type.bare(dtype.pyarrow_dtype)
        return pd.arrays.ArrowExtensionArray(
            pa.chunked_array([arrow_array.array(type_, count, scope, facts_of(series))], type_)
        )
    draw = scope.draw(facts_of(series))
    made = values_of(dtype, count, draw)
    gaps = draw.gaps(count)
    if gaps.any() and not _has_no_gaps(dtype):
        made = made.copy()  # pandas may have returned a read-only array
        made[gaps] = (
            dtype.na_value
            if hasattr(dtype, "na_value")
            else np.array("NaT" if dtype.kind in "mM" else np.nan, dtype)
        )
    return made


def values_of(dtype: Any, count: int, draw: ColumnSampler) -> Any:
    """Return values of a dtype that is neither object nor Arrow's, without missing ones."""
    if isinstance(dtype, np.dtype):
        return numpy_.column(dtype, count, draw)
    if isinstance(dtype, pd.CategoricalDtype):
        return _categorical(dtype, count, draw)
    chosen = draw.chosen(count, lambda values: pd.array(list(values), dtype=dtype))
    if chosen is not None:
        choices, picks = chosen
        return choices.take(picks)
    if isinstance(dtype, pd.DatetimeTZDtype):
        return _zoned(draw.times(count, np.dtype(f"M8[{dtype.unit}]")), dtype)
    if isinstance(dtype, pd.PeriodDtype):
        return _periods(dtype, count, draw)
    if isinstance(dtype, pd.IntervalDtype):
        one, other = (pd.Index(values_of(dtype.subtype, count, draw)) for _ in range(2))
        return pd.arrays.IntervalArray.from_arrays(
            one.where(one < other, other), other.where(one < other, one), dtype.closed
        )
    if isinstance(dtype, pd.StringDtype):
        return pd.array(draw.texts(count), dtype=dtype)
    if is_masked(dtype):
        return pd.array(numpy_.column(dtype.numpy_dtype, count, draw), dtype=dtype)
    raise SettingError(
        f"{draw.where} is of pandas's dtype {dtype}, of which no mock can be made; "
        "convert it with .astype(…), or give a mock by hand"
    )


def labels(dtype: Any, count: int, words: str) -> Any:
    """Return an index of ascending placeholders, such as "row 0" and "row 1".

    They are all different, unless the dtype has too few values for that.
    """
    if isinstance(dtype, pd.CategoricalDtype):
        categories = labels(dtype.categories.dtype, UNKNOWN_CATEGORIES, "category")
        codes = np.sort(np.arange(count) % len(categories))
        return pd.CategoricalIndex(pd.Categorical.from_codes(codes, categories, dtype.ordered))
    if isinstance(dtype, pd.DatetimeTZDtype):
        return pd.Index(_zoned(_ascending(np.dtype(f"M8[{dtype.unit}]"), count), dtype))
    if isinstance(dtype, pd.PeriodDtype):
        return pd.PeriodIndex.from_ordinals(_first(dtype) + np.arange(count), freq=dtype.freq)
    if isinstance(dtype, pd.IntervalDtype):
        return pd.IntervalIndex.from_breaks(
            labels(dtype.subtype, count + 1, words), closed=dtype.closed, dtype=dtype
        )
    texts = [f"{words} {number}" for number in range(count)]
    if isinstance(dtype, pd.StringDtype) or dtype == np.dtype(object):
        return pd.Index(texts, dtype=dtype)
    if isinstance(dtype, np.dtype):
        return pd.Index(_ascending(dtype, count))
    if is_masked(dtype):
        return pd.Index(pd.array(_ascending(dtype.numpy_dtype, count), dtype=dtype))
    if isinstance(dtype, pd.ArrowDtype):
        type_ = arrow_type.bare(dtype.pyarrow_dtype)
        if pa.types.is_string(type_) or pa.types.is_large_string(type_):
            made = pa.array(texts, type_)
        elif dtype.kind in "iufmMb":
            made = pa.array(_ascending(dtype.numpy_dtype, count)).cast(type_)
        else:
            made = arrow_array.array(type_, count, Scope(Mock()))
        return pd.Index(pd.arrays.ArrowExtensionArray(pa.chunked_array([made], type_)))
    raise SettingError(f"of an index of pandas's dtype {dtype} no mock can be made; give one by hand")


def _ascending(dtype: np.dtype[Any], count: int) -> Any:
    numbers = np.arange(count)
    if dtype.kind in "mM":
        seconds = (numbers * (86_400 if count <= _DAYS else 1)).view("m8[s]")
        return (START + seconds if dtype.kind == "M" else seconds).astype(dtype)
    if dtype.kind in "iub":
        most = 1 if dtype.kind == "b" else int(np.iinfo(dtype).max)
        numbers = numbers if count <= most else np.sort(numbers % (most + 1))
    return numbers.astype(dtype)


def _categorical(dtype: Any, count: int, draw: ColumnSampler) -> Any:
    # the categories of a dtype are data: only their own dtype is schema
    inner = dtype.categories.dtype

    def unique(values: Any) -> Any:
        index = pd.Index(list(values), dtype=inner)
        if not index.is_unique:
            raise ValueError("some are there twice")
        return index

    draw.unbounded("a column of categories")
    chosen = draw.chosen(count, unique)
    if chosen is None:
        categories = labels(inner, UNKNOWN_CATEGORIES, "category").unique()
        chosen = categories, draw.picks(count, len(categories))
    return pd.Categorical.from_codes(chosen[1], chosen[0], ordered=dtype.ordered)


def _periods(dtype: Any, count: int, draw: ColumnSampler) -> Any:
    if draw.bounds is None:
        ordinals = _first(dtype) + draw.picks(count, _PERIODS)
    else:
        try:
            low, high = (
                bound if isinstance(bound, pd.Period) else pd.Period(bound, freq=dtype.freq)
                for bound in draw.bounds
            )
        except (ValueError, TypeError) as error:
            raise SettingError(f"bounds of {draw.where} are no periods ({error}); give two dates") from None
        if low.ordinal > high.ordinal:
            raise SettingError(f"bounds of {draw.where} are turned; give the earlier one first")
        ordinals = low.ordinal + draw.picks(count, high.ordinal - low.ordinal + 1)
    return pd.PeriodIndex.from_ordinals(ordinals, freq=dtype.freq).array


def _first(dtype: Any) -> int:
    return int(pd.Period("2000-01-01", freq=dtype.freq).ordinal)


def _zoned(times: Any, dtype: Any) -> Any:
    return pd.DatetimeIndex(times).tz_localize("UTC").tz_convert(dtype.tz).array


def _has_no_gaps(dtype: Any) -> bool:
    inner = dtype.subtype if isinstance(dtype, pd.IntervalDtype) else dtype
    return isinstance(inner, np.dtype) and inner.kind not in "fcmM"


def same_dtype(one: Any, other: Any) -> bool:
    """Compare dtypes as user code would notice: categories may differ, their dtype may not."""
    if isinstance(one, pd.CategoricalDtype) and isinstance(other, pd.CategoricalDtype):
        return bool(one.ordered == other.ordered and one.categories.dtype == other.categories.dtype)
    return bool(one == other)


def width_bytes(dtype: Any) -> int:
    """Estimate the memory of an item, in bytes."""
    if isinstance(dtype, np.dtype):
        return numpy_.width_bytes(dtype)
    if isinstance(dtype, pd.ArrowDtype):
        return arrow_type.width_bytes(dtype.pyarrow_dtype)
    return TEXT_BYTES if isinstance(dtype, pd.StringDtype) else 16
