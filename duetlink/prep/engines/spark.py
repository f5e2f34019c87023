"""The engine Spark: a session or frame of the user, classic or by Spark Connect."""

from __future__ import annotations

import contextlib
import itertools
import re
import uuid
from collections.abc import Callable, Generator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import narwhals as nw

from duetlink.data.prep.fields import Fields
from duetlink.data.prep.inner import fields_of
from duetlink.data.prep.work import inner_name, type_of
from duetlink.errors import PrepError
from duetlink.prep.engines.base import arrow_types
from duetlink.prep.files import CSV, Files, check_quotes, is_utf_8, probe
from duetlink.prep.pieces import batches_of

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS = 8_192  # of a batch; Python rows take ten times the memory of columns


class SparkSource:
    """A Spark DataFrame as a source, or a table or files that a session opens; its executors read the files.

    Spark keeps no order of rows. A whole table comes through the driver as Arrow (`DataFrame.toArrow`), and
    has to fit into `spark.driver.maxResultSize`. Batches come as rows (`DataFrame.toLocalIterator`): one
    partition at a time has to fit, and this takes up to three times as long.
    """

    engine = "spark"
    ordered = False
    streams = True
    keeps = True
    csv: Files | None = None  # its executors read the files
    schema = None  # Spark's timestamps are not those of Arrow

    def __init__(self, table: Any, where: str, session: Any = None) -> None:
        self.where = where
        self._csv = isinstance(table, Files) and table.kind == CSV
        frame = table if session is None else _open(session, table)
        self._session = frame.sparkSession
        names = table.names if isinstance(table, Files) else list(frame.columns)
        self._frame = frame.toDF(*map(inner_name, range(len(names))))
        self._tag = ""
        self.fields: Fields = fields_of(names, nw.from_native(self._frame))

    def frame(self, columns: list[str], *, row: bool, table: pa.Table | None = None) -> Any:
        assert not row
        assert table is None
        frame = nw.from_native(self._frame)
        if self._csv:
            names = (inner_name(index) for index in range(len(self.fields)))
            frame = frame.with_columns(*(nw.when(nw.col(c) != "").then(nw.col(c)).alias(c) for c in names))
        return frame

    def collect(self, frame: Any) -> pa.Table:
        with self._tagged():
            return frame.to_native().toArrow()

    @contextlib.contextmanager
    def _tagged(self) -> Iterator[None]:
        """Tag the Spark jobs that start within the block, so that `cancel` can stop them."""
        self._tag = f"duetlink-{uuid.uuid4().hex}"
        self._session.addTag(self._tag)
        try:
            yield
        finally:
            self._session.removeTag(self._tag)

    def stream(
        self, prepare: Callable[[Any], Any], columns: list[str], rows: int, *, row: bool
    ) -> Generator[pa.RecordBatch]:
        import pyarrow as pa

        frame = prepare(self.frame(columns, row=row))
        kinds = {name: arrow_types().get(type_of(kind)) for name, kind in frame.collect_schema().items()}
        if None in kinds.values():  # such as timestamps, which Python rows have in a time zone
            yield from batches_of(self.collect(frame), rows)
            return
        schema, batch = pa.schema(list(kinds.items())), None
        with self._tagged():
            given = frame.to_native().toLocalIterator()
            while some := list(itertools.islice(given, _ROWS)):
                items = zip(*some, strict=True)
                arrays = [pa.array(column, kind) for column, kind in zip(items, schema.types, strict=True)]
                batch = pa.RecordBatch.from_arrays(arrays, schema=schema)
                yield batch
        if batch is None:
            yield pa.RecordBatch.from_pylist([], schema=schema)

    def cancel(self) -> None:
        if self._tag:
            self._session.interruptTag(self._tag)


def _open(session: Any, table: Any) -> Any:
    if not isinstance(table, Files):
        return _sent(session, table)
    for path in table.paths:
        if path.name[0] in "._":  # hidden for Hadoop, which reads no rows of them
            raise PrepError(
                f"Spark leaves out {path}, for the first letter of its name: rename it", file=str(path)
            )
    if table.kind != CSV:
        return session.read.parquet(*map(_literal, table.paths))
    for path in table.paths:
        check_quotes(path)
        if not is_utf_8(path):  # Spark would silently replace letters
            probe(table)
    schema = ", ".join(f"{inner_name(index)} STRING" for index in range(len(table.names)))
    paths = list(map(_literal, table.paths))
    return session.read.csv(
        paths, schema=schema, header=True, multiLine=True, quote='"', escape='"', mode="FAILFAST"
    )


def _literal(path: Path) -> str:
    """Escape a path so that Hadoop reads no pattern in it."""
    return re.sub(r"[*?\[\]{}\\]", r"\\\g<0>", path.as_posix())


def _sent(session: Any, table: pa.Table) -> Any:
    if table.num_rows:
        return session.createDataFrame(table)
    import pyarrow as pa

    # the client of Spark Connect does not accept an Arrow table without rows
    missing = pa.table([pa.nulls(1, field.type) for field in table.schema], names=table.column_names)
    return session.createDataFrame(missing).limit(0)
