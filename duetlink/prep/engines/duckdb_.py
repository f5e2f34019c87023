"""The engine DuckDB, which reads files larger than memory piece by piece."""

from __future__ import annotations

import re
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

import narwhals as nw

from duetlink.data.prep.fields import Fields
from duetlink.data.prep.inner import fields_of
from duetlink.data.prep.work import ROW, inner_name
from duetlink.prep.engines.base import agreed
from duetlink.prep.files import CSV, Files, csv_blocks

if TYPE_CHECKING:
    import pyarrow as pa


def connected() -> Any:
    """Open a database in memory that spills to a directory of its own and keeps the order of rows.

    DuckDB keeps the order of a single file, list of files or table through projections, filters and a window
    without an order (its documentation, "Order Preservation"), but not through a join. Its optimizer makes a
    hash join of an `IN` with more than four items, unless that optimizer is disabled.
    """
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET disabled_optimizers = 'in_clause'")
    return connection


class DuckSource:
    """A DuckDB relation, an Arrow table, or files as a source.

    The rows of a table or of files keep their order. Those of a relation, which uses its creator's
    connection, may have another order each time.
    """

    engine = "duckdb"
    streams = True
    keeps = False
    csv: Files | None = None  # the files may be larger than memory

    def __init__(self, table: Any, where: str) -> None:
        import duckdb

        self.where = where
        self._table = table
        self._given = isinstance(table, duckdb.DuckDBPyRelation)
        self.ordered = not self._given
        self._csv = isinstance(table, Files) and table.kind == CSV
        self._names = _names(table)
        self._connection: Any = None  # the most recent one
        self.schema = None if self._given else table.schema
        self.fields: Fields = fields_of(self._names, nw.from_native(self._relation(self._names)))
        if self.schema is not None:
            self.fields = agreed(self.fields, self.schema)

    def _relation(self, columns: list[str]) -> Any:
        """Return the source under inner names, on a new connection: a connection has one open result only."""
        if self._csv:
            return self._text(columns)
        relation = self._table if self._given else self._open()
        inner = [inner_name(index) for index in range(len(self._names))]
        if relation.columns != inner:
            relation = relation.query("t", f"SELECT * FROM t AS t({', '.join(inner)})")
        return relation

    def _open(self) -> Any:
        table = self._table
        self._connection = connected()
        if not isinstance(table, Files):
            inner = [inner_name(index) for index in range(table.num_columns)]
            return self._connection.from_arrow(table.rename_columns(inner))
        return self._connection.read_parquet(list(map(_literal, table.texts())), hive_partitioning=False)

    def _text(self, columns: list[str]) -> Any:
        """Read columns of CSV files by Arrow's reader, like all engines in memory.

        DuckDB's own reader treats quotes, spaces and empty lines in another way.
        """
        import pyarrow as pa

        indices = {name: index for index, name in enumerate(self._names)}
        inner = [inner_name(indices[name]) for name in columns]
        blocks = (block.rename_columns(inner) for block in csv_blocks(self._table, columns))
        schema = pa.schema([(name, pa.string()) for name in inner])
        self._connection = connected()
        return self._connection.from_arrow(pa.RecordBatchReader.from_batches(schema, blocks))

    def frame(self, columns: list[str], *, row: bool, table: pa.Table | None = None) -> Any:
        assert table is None
        relation = self._relation(columns)
        if row:
            relation = relation.query("t", f"SELECT *, row_number() OVER () - 1 AS {ROW} FROM t")
        return nw.from_native(WideRelation(relation))

    def collect(self, frame: Any) -> pa.Table:
        return frame.to_native().to_arrow_table()

    def stream(
        self, prepare: Callable[[Any], Any], columns: list[str], rows: int, *, row: bool
    ) -> Generator[pa.RecordBatch]:
        import pyarrow as pa

        reader = prepare(self.frame(columns, row=row)).to_native().to_arrow_reader(rows)
        try:
            batch = None
            for batch in reader:
                yield batch
            if batch is None:
                yield pa.RecordBatch.from_pylist([], schema=reader.schema)
        finally:
            reader.close()

    def cancel(self) -> None:
        if self._connection is not None:
            self._connection.interrupt()


def _literal(path: str) -> str:
    """Escape a path so that DuckDB reads no pattern in it."""
    return re.sub(r"([\[*?])", r"[\1]", path)


def _names(table: Any) -> list[str]:
    """Return the names as the source spells them: DuckDB itself ignores case."""
    if isinstance(table, Files):
        return table.names
    return list(table.column_names if hasattr(table, "column_names") else table.columns)


class WideRelation:
    """A wrapper of a relation whose projections take linear instead of quadratic time in the columns.

    To print warnings, DuckDB 2.0 compares the texts in each projected expression with all column names, and
    folds the case of these names again for each expression: 10,000 columns take minutes. It skips that for a
    projection given as one text, so this wrapper makes that text.

    Narwhals tests for a relation by `isinstance`, so `__class__` says that it is one.
    """

    def __init__(self, relation: Any) -> None:
        self.relation = relation

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return type(self.relation)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.relation, name)

    def select(self, *items: Any) -> WideRelation:
        return WideRelation(self.relation.project(", ".join(map(_item, items))))

    def filter(self, condition: Any) -> WideRelation:
        return WideRelation(self.relation.filter(condition))


def _item(expression: Any) -> str:
    name = expression.get_name().replace('"', '""')
    return f'{expression} AS "{name}"'
