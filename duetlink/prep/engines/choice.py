"""Opens a source on an engine, and chooses the engine if none is given."""

from __future__ import annotations

import importlib.util
import os
from pathlib import Path
from typing import Any

from duetlink.data.prep.inner import check_distinct, plain
from duetlink.errors import DuetError, PrepError, SettingError
from duetlink.prep.engines.base import Opened, library
from duetlink.prep.engines.pandas_ import arrow_of
from duetlink.prep.files import Files, files_at

ENGINES = ("pyarrow", "polars", "duckdb")
# Larger files are prepared by DuckDB. 1 GiB is half of what a small machine has, and with its columns
# decoded a file takes a few times its size.
LARGE_BYTES = 1 << 30
_SHOWN = 300  # characters of a library's message


def opened(source: Any, engine: Any = None) -> Opened:
    """Open `source` on an engine given by name or as a Spark session; None chooses by the source.

    Raises:
        SettingError: the source is no table, or the engine does not exist.
        PrepError: a file does not exist, or cannot be read.
        MissingLibrary: the engine is not installed.
    """
    try:
        return _opened(source, engine)
    except DuetError:
        raise
    except Exception as error:
        words = " ".join(str(error).split())[:_SHOWN]
        where = source if isinstance(source, str | os.PathLike) else "the table"
        by = f" by {engine}" if isinstance(engine, str) else ""
        raise PrepError(
            f"{where} cannot be taken{by} ({type(error).__name__}: {words}): leave out the column that it "
            "names, give it another type, or choose another engine",
            file=str(where),
        ) from error


def _opened(source: Any, engine: Any) -> Opened:
    if engine is not None and not isinstance(engine, str):
        return _spark(source, engine)
    if engine is not None and engine not in ENGINES:
        raise SettingError(f"there is no engine {engine!r}, but {', '.join(ENGINES)}, or a Spark session")
    if isinstance(source, str | os.PathLike):
        files = files_at(Path(source))
        return _made(engine or _for_files(files), files, files.where)
    kind: Any = type(source)
    module = kind.__module__.partition(".")[0]
    where = "the table"
    if module == "pyspark":
        if engine is not None:
            raise SettingError("a Spark DataFrame is prepared by Spark; give no engine")
        return _spark(source, None)
    if module == "duckdb" or "duckdb" in kind.__module__:
        if engine not in (None, "duckdb"):
            raise SettingError("a DuckDB relation is prepared by DuckDB; give no engine")
        return _made("duckdb", source, where)
    if module == "polars" and engine in (None, "polars"):
        return _made("polars", source, where)
    return _made(engine or "pyarrow", _arrow(source), where)


def _for_files(files: Files) -> str:
    if files.size_bytes > LARGE_BYTES and importlib.util.find_spec("duckdb") is not None:
        return "duckdb"
    return "polars" if importlib.util.find_spec("polars") is not None else "pyarrow"


def _made(engine: str, table: Any, where: str) -> Opened:
    if engine == "duckdb":
        library("duckdb")
        from duetlink.prep.engines.duckdb_ import DuckSource

        return DuckSource(table, where)
    from duetlink.prep.engines.memory import ArrowSource, PolarsSource, polars_of

    if engine == "pyarrow":
        return ArrowSource(table, where)
    library("polars")
    if type(table).__module__.startswith("pyarrow"):
        return PolarsSource(polars_of(table), where, table.schema)
    return PolarsSource(table, where)


def _spark(source: Any, session: Any) -> Opened:
    from duetlink.prep.engines.spark import SparkSource

    if session is None:
        return SparkSource(source, "the table")
    if not hasattr(session, "createDataFrame"):
        raise SettingError(
            f"an engine is {', '.join(ENGINES)} or a Spark session, not {type(session).__name__}"
        )
    if isinstance(source, str | os.PathLike):
        files = files_at(Path(source))
        return SparkSource(files, files.where, session)
    if type(source).__module__.startswith("pyspark"):
        return SparkSource(source, "the table")
    return SparkSource(_arrow(source), "the table", session)


def _arrow(source: Any) -> Any:
    """Convert a table to Arrow, without copying where possible."""
    import pyarrow as pa

    table = _as_arrow(source)
    check_distinct(table.column_names)
    return pa.table(list(map(plain, table.columns)), names=table.column_names)


def _as_arrow(source: Any) -> Any:
    import pyarrow as pa

    if isinstance(source, pa.Table):
        return source
    if isinstance(source, pa.RecordBatch):
        return pa.Table.from_batches([source])
    if isinstance(source, pa.RecordBatchReader):
        return source.read_all()
    kind = type(source)
    if kind.__module__.startswith("pandas") and kind.__name__ == "DataFrame":
        return arrow_of(source)
    if kind.__module__.startswith("polars"):
        frame = source.collect() if kind.__name__ == "LazyFrame" else source
        return frame.to_arrow()
    raise SettingError(
        f"a {kind.__name__} cannot be prepared: give a table of pyarrow, polars, pandas, DuckDB or Spark, or "
        "the path of a Parquet or CSV file or of a directory of them"
    )
