"""Polars frames and series: through their own Arrow buffers, with field metadata (Enum, Categorical)."""

from __future__ import annotations

from typing import Any

import polars as pl

from duetlink.data.values.arrow_ import read_stream, write_stream
from duetlink.data.values.base import Reader, Writer, counted
from duetlink.data.values.schema_pb2 import Node, Polars
from duetlink.errors import LimitExceeded, MalformedValue

_TYPES = {
    *(
        "Boolean",
        "Int8",
        "Int16",
        "Int32",
        "Int64",
        "UInt8",
        "UInt16",
        "UInt32",
        "UInt64",
        "Float32",
        "Float64",
    ),
    *("Decimal", "String", "Binary", "Categorical", "Enum", "Null"),
    *("Date", "Time", "Datetime", "Duration", "List", "Array", "Struct"),
}


class PolarsType:
    def describe(self, obj: Any) -> str:
        if isinstance(obj, pl.DataFrame):
            return f"{counted(obj.height, 'row')} × {counted(obj.width, 'column')}"
        if isinstance(obj, pl.Series):
            return f"{counted(len(obj), 'row')}, {obj.dtype.base_type().__name__}"
        return ""

    def elements(self, obj: Any) -> int | None:
        if isinstance(obj, pl.DataFrame):
            if any(dtype.is_nested() for dtype in obj.dtypes):
                return None
            cells = max(1, obj.height) * max(
                1, obj.width
            )  # a frame without rows still has the names of its columns
            return cells + sum(_further_categories(dtype, obj.height) for dtype in obj.dtypes)
        if isinstance(obj, pl.Series):
            if obj.dtype.is_nested():
                return None
            return max(1, len(obj)) + _further_categories(obj.dtype, len(obj))
        return 1

    def write(self, obj: Any, writer: Writer) -> None:
        if type(obj) is pl.LazyFrame:
            raise writer.unsupported(obj, "it is a plan, not data; send its .collect()")
        if type(obj) not in (pl.DataFrame, pl.Series):
            raise writer.unsupported(obj, "send a DataFrame or a Series")
        frame = obj.to_frame() if type(obj) is pl.Series else obj
        for column in frame.get_columns():
            _check(column, writer)
        nested = any(dtype.is_nested() for dtype in frame.dtypes)  # views of text within are not looked at
        level = pl.CompatLevel.oldest() if nested else pl.CompatLevel.newest()
        table = frame.to_arrow(compat_level=level)
        if frame.width == 0 and frame.height:
            raise writer.unsupported(obj, "it has rows but no columns; add a column")
        try:
            sink = _stream(table, writer)
        except (LimitExceeded, MalformedValue):  # one text seen from many rows: each row gets its own
            sink = _stream(frame.to_arrow(compat_level=pl.CompatLevel.oldest()), writer)
        writer.node(polars=Polars(series=type(obj) is pl.Series))
        writer.segment(sink.size_bytes, lambda: sink.pieces)

    def read(self, node: Node, reader: Reader) -> object:
        table, _, _ = read_stream(reader.segment())
        try:
            frame = pl.from_arrow(table)
        except pl.exceptions.PanicException as error:  # a BaseException: polars gave up on nonsense
            raise MalformedValue("polars cannot read the frame that came") from error
        if not isinstance(frame, pl.DataFrame):
            raise MalformedValue("the value is not a polars frame")
        if frame.columns != table.column_names:  # polars calls a column without a name `column_0`
            frame.columns = table.column_names
        if not node.polars.series:
            return frame
        if frame.width != 1:
            raise MalformedValue(f"a series came with {frame.width} columns")
        return frame.to_series()


def _stream(table: Any, writer: Writer) -> Any:
    # the order of categories is the order in which Polars met them, also under nulls
    return write_stream(table.schema, table.to_batches(), plain_nan=writer.plain_nan, by_appearance=True)


def _further_categories(dtype: Any, rows: int) -> int:
    """Return the number of Enum categories beyond the rows: all are sent, used or not."""
    return max(0, len(dtype.categories) - rows) if isinstance(dtype, pl.Enum) else 0


def _check(column: pl.Series, writer: Writer) -> None:
    """Refuse 128-bit integers, which Arrow lacks, and objects, whose addresses Arrow would carry."""
    dtypes: list[Any] = [column.dtype]
    while dtypes:
        dtype = dtypes.pop()
        name = dtype.base_type().__name__
        if name not in _TYPES:
            raise writer.unsupported(
                column, f"column {column.name!r} holds {name}, which does not travel; .cast(…) it"
            )
        if isinstance(dtype, pl.Struct):
            dtypes.extend(field.dtype for field in dtype.fields)
        elif isinstance(dtype, (pl.List, pl.Array)):
            dtypes.append(dtype.inner)


HANDLER = PolarsType()
