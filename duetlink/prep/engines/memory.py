"""PyArrow and Polars: tables in memory."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

import narwhals as nw

from duetlink.compute.prep.fields import Fields
from duetlink.compute.prep.frames import arrow_frame, polars_frame
from duetlink.compute.prep.lowering import inner_name
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
        table = read_files(self._table, columns) if isinstance(self._table, Files) else self._table
        return arrow_frame(table, list(self.fields), columns, row=row)

    def collect(self, frame: Any) -> pa.Table:
        return frame.to_arrow()

    def stream(self, frame: Any, rows: int) -> Generator[pa.RecordBatch]:
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
        lazy = self._lazy
        if self._files is not None and self._files.kind == CSV:
            import polars as pl

            # Arrow's reader refuses lines that Polars' fills with nulls
            lazy = pl.DataFrame(read_csv(self._files, columns)).lazy()
        return polars_frame(lazy, self._names, columns, row=row)

    def collect(self, frame: Any) -> pa.Table:
        import pyarrow as pa

        # `to_arrow` would copy all that came in several pieces into one
        return pa.RecordBatchReader.from_stream(frame.to_native().collect()).read_all()

    def stream(self, frame: Any, rows: int) -> Generator[pa.RecordBatch]:
        yield from self.collect(frame).to_batches(max_chunksize=rows)

    def cancel(self) -> None:
        """Polars ends by itself."""


def read_files(files: Files, columns: list[str]) -> pa.Table:
    """Some columns of files."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if files.kind == CSV:
        return read_csv(files, columns)
    return pa.concat_tables(pq.read_table(path, columns=columns, partitioning=None) for path in files.paths)


def _inner(schema: Any) -> Any:
    import pyarrow as pa

    return pa.schema([(inner_name(place), field.type) for place, field in enumerate(schema)])
