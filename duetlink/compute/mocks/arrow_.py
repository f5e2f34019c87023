"""Mocks of Arrow tables, batches, arrays and scalars, without their metadata and their layout in chunks."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from duetlink.compute.mocks.arrow_array import array
from duetlink.compute.mocks.arrow_type import bare, width_bytes
from duetlink.compute.mocks.base import Span
from duetlink.compute.mocks.registry import unsupported
from duetlink.compute.mocks.scope import Scope

_TABLES = (pa.Table, pa.RecordBatch)


class ArrowMockBuilder:
    def rows(self, obj: Any) -> int | None:
        if isinstance(obj, _TABLES):
            return int(obj.num_rows)
        return len(obj) if isinstance(obj, (pa.Array, pa.ChunkedArray)) else None

    def size_bytes(self, obj: Any) -> int:
        if isinstance(obj, _TABLES):
            return int(obj.num_rows) * sum(width_bytes(field.type) for field in obj.schema)
        return len(obj) * width_bytes(obj.type) if isinstance(obj, (pa.Array, pa.ChunkedArray)) else 0

    def make(self, obj: Any, scope: Scope) -> object:
        if type(obj) in _TABLES:
            fields = [pa.field(field.name, bare(field.type), field.nullable) for field in obj.schema]
            rows = scope.rows(obj.num_rows)
            arrays = [
                array(
                    field.type, rows, scope.child(field.name), ColumnFacts(obj.column(number)), field.nullable
                )
                for number, field in enumerate(fields)
            ]
            if not arrays and rows:
                raise unsupported(obj, "it has rows but no columns")
            return type(obj).from_arrays(arrays, schema=pa.schema(fields))
        if isinstance(obj, pa.Array):
            return array(bare(obj.type), scope.rows(len(obj)), scope, ColumnFacts(obj))
        if type(obj) is pa.ChunkedArray:
            type_ = bare(obj.type)
            return pa.chunked_array([array(type_, scope.rows(len(obj)), scope, ColumnFacts(obj))], type_)
        if isinstance(obj, pa.Scalar):
            return array(bare(obj.type), 1, scope, ColumnFacts(pa.repeat(obj, 1)))[0]
        raise unsupported(obj)

    def differences(self, obj: Any, mock: Any) -> Iterator[str]:
        if not isinstance(obj, _TABLES):
            if not isinstance(obj, pa.Schema) and obj.type != mock.type:
                yield f"the object's type is {obj.type}, the mock's {mock.type}"
            return
        if obj.schema.names != mock.schema.names:
            yield f"the object's columns are {_listed(obj)}, the mock's {_listed(mock)}"
            return
        for one, other in zip(obj.schema, mock.schema, strict=True):
            if one.type != other.type:
                yield f"column {one.name!r} is {one.type}, in the mock {other.type}"

    def memory(self, obj: Any) -> Iterator[Span]:
        if isinstance(obj, _TABLES):
            for name, column in zip(obj.schema.names, obj.columns, strict=True):
                yield from spans(column, f"column {name!r}")
        elif isinstance(obj, (pa.Array, pa.ChunkedArray)):
            yield from spans(obj, "array")

    def part(self, obj: Any, start: int, stop: int) -> Any:
        return obj.slice(start, stop - start)

    def equal(self, left: Any, right: Any) -> bool:
        if isinstance(left, _TABLES):
            return all(map(_equal, left.columns, right.columns))
        if isinstance(left, (pa.Array, pa.ChunkedArray)):
            return _equal(left, right)
        return bool(left.equals(right))

    def is_ordinary(self, obj: Any) -> bool:
        if isinstance(obj, pa.Scalar):
            return not obj.is_valid or bool(pa.types.is_boolean(obj.type))
        if isinstance(obj, _TABLES):
            return all(pa.types.is_null(field.type) for field in obj.schema)
        return isinstance(obj, (pa.Array, pa.ChunkedArray)) and bool(pa.types.is_null(obj.type))


def _equal(left: Any, right: Any) -> bool:
    if pa.types.is_floating(left.type) and left.null_count == right.null_count:
        left, right = (side.fill_null(0).to_numpy() for side in (left, right))
        return bool(np.array_equal(left, right, equal_nan=True))
    return bool(left.equals(right))


def spans(array: Any, part: str) -> Iterator[Span]:
    """Yield the memory ranges of an array's buffers; a slice counts with the whole buffers that it
    points into.
    """
    for chunk in array.chunks if isinstance(array, pa.ChunkedArray) else (array,):
        for buffer in chunk.buffers():
            if buffer is not None and buffer.size and buffer.is_cpu:
                yield Span(part, buffer.address, buffer.address + buffer.size, buffer)


def _listed(table: Any) -> str:
    return ", ".join(map(repr, table.schema.names)) or "none"


class ColumnFacts:
    """The facts of a column whose type is not nested."""

    def __init__(self, column: Any) -> None:
        self._column = column
        type_ = column.type
        self._is_dictionary = pa.types.is_dictionary(type_)
        is_text = any(
            getattr(pa.types, f"is_{name}")(type_) for name in ("string", "large_string", "string_view")
        )
        self.discrete = bool(pa.types.is_integer(type_) or is_text or self._is_dictionary)

    def bounds(self) -> tuple[Any, Any] | None:
        type_ = self._column.type
        column = self._column.drop_null()
        if pa.types.is_floating(type_):
            column = column.filter(pc.is_finite(column))
        elif not (pa.types.is_integer(type_) or pa.types.is_decimal(type_) or pa.types.is_temporal(type_)):
            return None
        if not len(column) or pa.types.is_interval(type_):
            return None
        # Arrow has no min_max for these two types
        if pa.types.is_duration(type_):
            column = column.cast(pa.int64())
        elif pa.types.is_float16(type_):
            column = column.cast(pa.float32())
        found = pc.min_max(column)
        return _bound(found["min"].cast(type_)), _bound(found["max"].cast(type_))

    def counts(self) -> Mapping[Any, int]:
        column = self._column.drop_null()
        if self._is_dictionary:
            column = column.cast(column.type.value_type)
        found = pc.value_counts(column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column)
        values, counts = found.field("values").to_pylist(), found.field("counts").to_pylist()
        return dict(zip(values, counts, strict=True))

    def missing(self) -> float:
        return float(self._column.null_count / len(self._column)) if len(self._column) else 0.0


def _bound(scalar: Any) -> Any:
    """Convert an Arrow scalar to a bound. Times keep their nanoseconds and are in UTC."""
    type_ = scalar.type
    if pa.types.is_timestamp(type_):
        return np.datetime64(scalar.value, type_.unit)
    if pa.types.is_duration(type_):
        return np.timedelta64(scalar.value, type_.unit)
    if pa.types.is_time(type_):
        microseconds = scalar.cast(pa.time64("us"), safe=False).value
        return (dt.datetime.min + dt.timedelta(microseconds=microseconds)).time()
    return scalar.as_py()


HANDLER: Any = ArrowMockBuilder()
