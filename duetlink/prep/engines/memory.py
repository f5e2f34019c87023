"""The engines PyArrow and Polars, which prepare tables in memory."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import narwhals as nw

from duetlink.data.prep.fields import Fields
from duetlink.data.prep.inner import arrow_fields, arrow_frame, fields_of, polars_frame
from duetlink.prep.engines.base import agreed
from duetlink.prep.files import CSV, Files, read_csv
from duetlink.prep.pieces import ROWS, batches_of, fits_one_piece, pieces

if TYPE_CHECKING:
    import pyarrow as pa


class ArrowSource:
    """An Arrow table or files as a source, prepared by PyArrow's functions."""

    engine = "pyarrow"
    ordered = True
    keeps = True

    def __init__(self, table: pa.Table | Files, where: str) -> None:
        self._table = table
        self.csv = csv_of(table)
        self.where = where
        self.streams = not fits_one_piece(table)
        self.schema = table.schema
        self.fields: Fields = arrow_fields(table.schema)

    def frame(self, columns: list[str], *, row: bool, table: pa.Table | None = None) -> Any:
        if table is None:
            table = read_files(self._table, columns) if isinstance(self._table, Files) else self._table
        return self._framed(table, columns, row=row)

    def _framed(self, table: pa.Table, columns: list[str], *, row: bool, first: int = 0) -> Any:
        return arrow_frame(table, list(self.fields), columns, row=row, first=first)

    def collect(self, frame: Any) -> pa.Table:
        return frame.to_arrow()

    def stream(
        self, prepare: Callable[[Any], Any], columns: list[str], rows: int, *, row: bool
    ) -> Generator[pa.RecordBatch]:
        for first, table in pieces(self._table, columns):
            made = self.collect(prepare(self._framed(table, columns, row=row, first=first)))
            yield from batches_of(made, ROWS)

    def cancel(self) -> None:
        """Do nothing: PyArrow's work ends with the call."""


class PolarsSource:
    """A Polars frame or files as a source. Polars' optimiser sees all steps at once."""

    engine = "polars"
    ordered = True
    keeps = True

    def __init__(self, table: Any, where: str, schema: Any = None) -> None:
        import polars as pl

        # files, a frame, or a lazy frame of the user, whose rows come all at once
        self._table = table
        self.csv = csv_of(table)
        self.streams = not isinstance(table, pl.LazyFrame) and not fits_one_piece(table)
        if not isinstance(table, Files):
            empty = table.lazy()
        elif self.csv is not None:
            empty = pl.LazyFrame(schema=dict.fromkeys(table.names, pl.String))
        else:
            # "auto" decodes the columns of a filter first, which saves nothing where most rows are kept
            empty = pl.scan_parquet(table.texts(), glob=False, parallel="row_groups")
        self._names: list[str] = table.names if isinstance(table, Files) else empty.collect_schema().names()
        self._lazy = empty
        self.where = where
        self.schema = table.schema if isinstance(table, Files) else schema
        self.fields: Fields = fields_of(self._names, nw.from_native(empty))
        if self.schema is not None:
            self.fields = agreed(self.fields, self.schema)

    def frame(self, columns: list[str], *, row: bool, table: pa.Table | None = None) -> Any:
        lazy = self._lazy
        if self.csv is not None:
            # Arrow's reader refuses incomplete lines, which Polars' reader fills with nulls
            lazy = polars_of(read_csv(self.csv, columns) if table is None else table).lazy()
        return polars_frame(lazy, self._names, columns, row=row)

    def collect(self, frame: Any) -> pa.Table:
        import pyarrow as pa

        # a frame would be copied into one piece if the pieces of two columns differ
        found = frame.to_native().collect()
        return pa.table(list(map(pa.chunked_array, found.get_columns())), names=found.columns)

    def stream(
        self, prepare: Callable[[Any], Any], columns: list[str], rows: int, *, row: bool
    ) -> Generator[pa.RecordBatch]:
        import polars as pl

        for first, table in pieces(self._table, columns):
            lazy = (table if isinstance(table, pl.DataFrame) else polars_of(table)).lazy()
            frame = polars_frame(lazy, self._names, columns, row=row, first=first)
            yield from batches_of(self.collect(prepare(frame)), ROWS)

    def cancel(self) -> None:
        """Do nothing: Polars' work ends with the call."""


def polars_of(table: pa.Table) -> Any:
    """Convert an Arrow table to a Polars frame, and keep empty column names, which Polars would replace."""
    import polars as pl

    try:
        found = pl.DataFrame(pl.from_arrow(table, rechunk=False))  # no copy of a table in pieces
    except pl.exceptions.PanicException as error:  # a type unknown to Polars; a BaseException
        raise TypeError(str(error)) from None
    found.columns = table.column_names
    return found


def csv_of(table: Any) -> Files | None:
    return table if isinstance(table, Files) and table.kind == CSV else None


def read_files(files: Files, columns: list[str]) -> pa.Table:
    import pyarrow as pa
    import pyarrow.parquet as pq

    if files.kind == CSV:
        return read_csv(files, columns)
    return pa.concat_tables(pq.read_table(path, columns=columns, partitioning=None) for path in files.paths)
