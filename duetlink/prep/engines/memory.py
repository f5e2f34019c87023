"""PyArrow and Polars: tables in memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import narwhals as nw

from duetlink.compute.prep.fields import Fields
from duetlink.compute.prep.lowering import ROW, inner_name
from duetlink.prep.engines.base import fields_of
from duetlink.prep.files import CSV, Files, read_csv

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowSource:
    """A table of Arrow, or files, by PyArrow's own functions."""

    engine = "pyarrow"
    ordered = True
    streams = False

    def __init__(self, table: pa.Table | Files, where: str) -> None:
        import pyarrow as pa

        self._table = table
        self.where = where
        schema = table.schema
        empty = nw.from_native(pa.Table.from_batches([], _inner(schema)))
        self.fields: Fields = fields_of(list(schema.names), empty)

    def frame(self, columns: list[str], *, row: bool) -> Any:
        table = self._read(columns)
        if row:
            table = table.append_column(ROW, [_numbers(table.num_rows)])
        return nw.from_native(table)

    def _read(self, columns: list[str]) -> pa.Table:
        """The columns, under inner names."""
        place = {name: inner_name(place) for place, name in enumerate(self.fields)}
        table = read_files(self._table, columns) if isinstance(self._table, Files) else self._table
        table = table.select(columns) if columns else table
        return table.rename_columns([place[name] for name in table.column_names])

    def collect(self, frame: Any) -> pa.Table:
        return frame.to_arrow()

    def stream(self, frame: Any, rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.collect(frame).to_batches(max_chunksize=rows)

    def cancel(self) -> None:
        """What it does ends with the call."""


class PolarsSource:
    """A frame of Polars, or files; its optimiser sees all steps at once."""

    engine = "polars"
    ordered = True
    streams = False

    def __init__(self, table: Any, where: str) -> None:
        import polars as pl

        self._files = table if isinstance(table, Files) else None
        self._names: list[str]
        if isinstance(table, Files):
            self._names = table.names
            if table.kind == CSV:
                schema: Any = pl.LazyFrame(schema=dict.fromkeys(self._names, pl.String))
            else:
                schema = pl.scan_parquet(table.texts())
            self._lazy = schema
        else:
            self._lazy = table.lazy()
            self._names = self._lazy.collect_schema().names()
        self.where = where
        self.fields: Fields = fields_of(self._names, nw.from_native(self._lazy))

    def frame(self, columns: list[str], *, row: bool) -> Any:
        import polars as pl

        lazy = self._lazy
        if self._files is not None and self._files.kind == CSV:
            # Arrow's reader refuses lines that Polars' fills with nulls
            lazy = pl.DataFrame(read_csv(self._files, columns or self._names)).lazy()
        kept = columns or self._names
        place = {name: inner_name(place) for place, name in enumerate(self._names)}
        made = [pl.col(name).alias(place[name]) for name in kept]
        if row:
            made.append(pl.int_range(pl.len(), dtype=pl.Int64).alias(ROW))
        return nw.from_native(lazy.select(made))

    def collect(self, frame: Any) -> pa.Table:
        return frame.to_native().collect().to_arrow()

    def stream(self, frame: Any, rows: int) -> Iterator[pa.RecordBatch]:
        yield from self.collect(frame).to_batches(max_chunksize=rows)

    def cancel(self) -> None:
        """Polars ends by itself."""


def read_files(files: Files, columns: list[str]) -> pa.Table:
    """Some columns of files; none: all of them."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if files.kind == CSV:
        return read_csv(files, columns or files.names)
    return pa.concat_tables(
        pq.read_table(path, columns=columns or None, partitioning=None) for path in files.paths
    )


def _inner(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([(inner_name(place), field.type) for place, field in enumerate(schema)])


def _numbers(rows: int) -> Any:
    import numpy as np
    import pyarrow as pa

    return pa.array(np.arange(rows, dtype=np.int64))
