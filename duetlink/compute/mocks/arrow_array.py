"""Mock Arrow arrays of every type that can be sent, by recursion over the type."""

from __future__ import annotations

import decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pyarrow as pa

from duetlink.compute.mocks.arrow_type import INNER, LISTS, is_list
from duetlink.compute.mocks.draw import UNKNOWN_CATEGORIES, Array, ColumnSampler
from duetlink.compute.mocks.facts import Facts, NoFacts
from duetlink.compute.mocks.numpy_ import floats
from duetlink.compute.mocks.scope import Scope
from duetlink.errors import SettingError

_PER_SECOND = {"s": 1, "ms": 10**3, "us": 10**6, "ns": 10**9}
_RUN = 2  # items of each run of a run-end-encoded array
_NO_FACTS = NoFacts()


def array(type_: Any, count: int, scope: Scope, facts: Facts = _NO_FACTS, nullable: bool = True) -> Any:
    """Return a new mock array of `count` items.

    Items of a list belong to the same part as the list; fields of a struct are parts of their own.

    Raises:
        SettingError: the type is unknown here; bounds or categories do not fit it.
    """
    if isinstance(type_, pa.BaseExtensionType):
        return type_.wrap_array(_storage(type_, count, scope))
    nested = _nested(type_, count, scope)
    if nested is not None:
        return nested
    draw = scope.draw(facts)
    values = _dictionary(type_, count, draw) if pa.types.is_dictionary(type_) else _column(type_, count, draw)
    gaps = draw.gaps(count)
    if nullable and gaps.any():
        values = _taken(values, pa.array(np.arange(count), mask=gaps))
    return values


def _storage(type_: Any, count: int, scope: Scope) -> Any:
    if type_.extension_name == "arrow.json":
        return pa.array(["{}"] * count, type_.storage_type)
    if type_.extension_name == "arrow.bool8":
        return pa.array(scope.draw(_NO_FACTS).integers(count, 0, 1, "bool8").astype(np.int8))
    return array(type_.storage_type, count, scope)


def _nested(type_: Any, count: int, scope: Scope) -> Any:
    if is_list(type_):
        made = array(type_.value_type, count * INNER, scope, nullable=False)
        starts = np.arange(count + 1) * INNER
        maker, offset, is_view = LISTS[type(type_)][1:]
        if is_view:
            sizes = pa.array(np.full(count, INNER), offset)
            return maker.from_arrays(pa.array(starts[:-1], offset), sizes, made, type=type_)
        return maker.from_arrays(pa.array(starts, offset), made, type=type_)
    if pa.types.is_fixed_size_list(type_):
        made = array(type_.value_type, count * type_.list_size, scope, nullable=False)
        return pa.FixedSizeListArray.from_arrays(made, type=type_)
    if pa.types.is_map(type_):
        keys = array(type_.key_type, count * INNER, scope.child("key"), nullable=False)
        items = array(type_.item_type, count * INNER, scope.child("value"), nullable=False)
        offsets = pa.array(np.arange(count + 1) * INNER, pa.int32())
        return pa.MapArray.from_arrays(offsets, keys, items, type=type_)
    if pa.types.is_struct(type_):
        fields = [type_.field(number) for number in range(type_.num_fields)]
        if not fields:
            return pa.array([{}] * count, type_)
        parts = [array(field.type, count, scope.child(field.name)) for field in fields]
        return pa.StructArray.from_arrays(parts, fields=fields)
    if pa.types.is_union(type_):
        return _union(type_, count, scope)
    if pa.types.is_run_end_encoded(type_):
        values = array(type_.value_type, -(-count // _RUN), scope, nullable=False)
        ends = pa.array(np.minimum(np.arange(1, len(values) + 1) * _RUN, count), type_.run_end_type)
        return pa.RunEndEncodedArray.from_arrays(ends, values, type_)
    return None


def _union(type_: Any, count: int, scope: Scope) -> Any:
    fields = [type_.field(number) for number in range(type_.num_fields)]
    turns = np.arange(count) % max(1, len(fields))
    codes = pa.array(np.array(type_.type_codes, np.int8)[turns], pa.int8())
    names = [field.name for field in fields]
    parts = [array(field.type, count, scope.child(field.name)) for field in fields]
    if type_.mode == "sparse":
        return pa.UnionArray.from_sparse(codes, parts, names, type_.type_codes)
    offsets = pa.array(np.arange(count), pa.int32())
    return pa.UnionArray.from_dense(codes, offsets, parts, names, type_.type_codes)


def _dictionary(type_: Any, count: int, draw: ColumnSampler) -> Any:
    chosen = draw.chosen(count, lambda values: _converted(values, type_.value_type))
    if chosen is None:
        choices = _categories(type_.value_type, draw)
        picks = draw.picks(count, len(choices))
    else:
        choices, picks = chosen
    try:
        indices = pa.array(picks, type_.index_type)
    except pa.ArrowInvalid:
        raise SettingError(
            f"{draw.where} has an index of {type_.index_type}, too narrow for {len(choices)} "
            "categories; give fewer"
        ) from None
    return pa.DictionaryArray.from_arrays(indices, choices, ordered=type_.ordered)


def _categories(type_: Any, draw: ColumnSampler) -> Any:
    draw.unbounded("a column of categories")
    words = [f"category {number}" for number in range(UNKNOWN_CATEGORIES)]
    if pa.types.is_string(type_) or pa.types.is_large_string(type_) or pa.types.is_string_view(type_):
        return pa.array(words, type_)
    if pa.types.is_integer(type_):
        return pa.array(range(UNKNOWN_CATEGORIES), type_)
    return pa.array(dict.fromkeys(_column(type_, UNKNOWN_CATEGORIES, draw)), type_)


def _column(type_: Any, count: int, draw: ColumnSampler) -> Any:
    """Return an array of a type that is not nested, without missing values."""
    chosen = draw.chosen(count, lambda values: _converted(values, type_))
    if chosen is not None:
        choices, picks = chosen
        return _taken(choices, pa.array(picks))
    is_ = pa.types
    if is_.is_null(type_):
        return pa.nulls(count)
    if is_.is_boolean(type_):
        return pa.array(draw.integers(count, 0, 1, "bool").astype(bool))
    if is_.is_integer(type_):
        dtype = np.dtype(type_.to_pandas_dtype())
        limits = np.iinfo(dtype)
        values = draw.integers(count, int(limits.min), int(limits.max), str(type_))
        return pa.array(values.astype(dtype), type_)
    if is_.is_floating(type_):
        return pa.array(floats(np.dtype(type_.to_pandas_dtype()), count, draw), type_)
    if is_.is_decimal(type_):
        return pa.array(_decimals(type_, count, draw), type_)
    if is_.is_temporal(type_):
        return _times(type_, count, draw)
    if is_.is_fixed_size_binary(type_):
        octets = draw.octets(count, type_.byte_width)
        return pa.array([row.tobytes() for row in octets], type_)
    texts = draw.texts(count)
    if is_.is_binary(type_) or is_.is_large_binary(type_) or is_.is_binary_view(type_):
        return pa.array([text.encode() for text in texts], type_)
    if is_.is_string(type_) or is_.is_large_string(type_) or is_.is_string_view(type_):
        return pa.array(texts, type_)
    raise SettingError(
        f"{draw.where} is of Arrow's type {type_}, of which no mock can be made; give one by hand"
    )


def _decimals(type_: Any, count: int, draw: ColumnSampler) -> list[decimal.Decimal]:
    most = 10**type_.precision - 1
    counts = draw.integers(count, -most, most, str(type_), unit=Fraction(10) ** -type_.scale)
    return [decimal_of(number, type_.scale) for number in counts.tolist()]


def decimal_of(number: int, scale: int) -> decimal.Decimal:
    """Return `number` / 10**`scale`, exactly."""
    # not scaleb, which rounds to the context's precision
    return decimal.Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def _times(type_: Any, count: int, draw: ColumnSampler) -> Any:
    is_ = pa.types
    if is_.is_date32(type_):
        return pa.array(draw.times(count, np.dtype("M8[D]")).view(np.int64).astype(np.int32)).view(type_)
    if is_.is_date64(type_):  # days, counted in milliseconds
        return pa.array(draw.times(count, np.dtype("M8[D]")).view(np.int64) * 86_400_000).view(type_)
    if is_.is_time(type_):
        counts: Array = draw.times_of_day(count, _PER_SECOND[type_.unit])
        return pa.array(counts.astype(f"i{type_.bit_width // 8}")).view(type_)
    if is_.is_timestamp(type_) or is_.is_duration(type_):
        kind = "M" if is_.is_timestamp(type_) else "m"
        return pa.array(draw.times(count, np.dtype(f"{kind}8[{type_.unit}]")).view(np.int64)).view(type_)
    draw.unbounded("an interval")
    return pa.array(
        [pa.MonthDayNano([0, days, 0]) for days in draw.integers(count, 0, 9, "days").tolist()], type_
    )


def _taken(values: Any, picks: Any) -> Any:
    type_ = values.type
    if pa.types.is_string_view(type_) or pa.types.is_binary_view(type_):  # Arrow cannot take from views
        plain = pa.large_string() if pa.types.is_string_view(type_) else pa.large_binary()
        return values.cast(plain).take(picks).cast(type_)
    return values.take(picks)


def _converted(values: Any, type_: Any) -> Any:
    try:
        return pa.array(list(values), type_)
    except pa.ArrowException as error:
        raise ValueError(str(error)) from None
