"""The interface of an engine: an opened source that gives Narwhals frames, and results as Arrow tables.

Inside an engine the columns are called `c0`, `c1`, …, so that a name cannot be misread by it.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from duetlink.data.prep.fields import OTHER, Field, Fields
from duetlink.errors import MissingLibrary

if TYPE_CHECKING:
    import pyarrow as pa

    from duetlink.prep.files import Files


class Opened(Protocol):
    """A source that is opened on one engine. Opening reads names and types, but no rows."""

    engine: str  # name of the engine
    where: str  # the source in words, for messages
    fields: Fields
    schema: Any  # the source's Arrow schema or None; columns that no step changes keep their type in it
    ordered: bool  # rows come in the source's order, each time
    streams: bool  # `stream` holds less than the whole table in memory
    keeps: bool  # the whole table is kept once it was made
    csv: Files | None  # CSV files that can be read into a table, which `frame` then takes

    def frame(self, columns: list[str], *, row: bool, table: pa.Table | None = None) -> Any:
        """Return a Narwhals frame of the source, in which column number 7 is called `c7`.

        Columns other than `columns` may be missing. With `row` it also has the row number, ROW. `table` is
        what was read of `csv` already.
        """

    def collect(self, frame: Any) -> pa.Table:
        """Execute a lazy frame that was made from this source, and return it as an Arrow table."""

    def stream(
        self, prepare: Callable[[Any], Any], columns: list[str], rows: int, *, row: bool
    ) -> Generator[pa.RecordBatch]:
        """Apply `prepare` to the frame, or to one piece of it after the other, and yield at least one batch.

        A batch has at most about `rows` rows if the engine can limit that.
        """

    def cancel(self) -> None:
        """Stop the engine after Ctrl-C, if it would continue in threads or processes of its own."""


def agreed(fields: Fields, schema: Any) -> dict[str, Field]:
    """Return the engine's column types, with "other" for those that differ from Arrow's type.

    No step takes a column of type "other", so a step takes the same columns on each engine. Example: DuckDB
    reads durations in Parquet as whole numbers.
    """
    from duetlink.data.prep.inner import arrow_fields

    theirs = arrow_fields(schema)
    return {name: field if field == theirs[name] else Field(OTHER) for name, field in fields.items()}


def arrow_types() -> dict[str, Any]:
    """Return the Arrow types of results by the names of types; other types stay as the engine made them."""
    import pyarrow as pa

    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64"]
    found: dict[str, Any] = {name: pa.type_for_alias(name) for name in names}
    return {**found, "text": pa.large_string(), "date": pa.date32()}


def library(name: str) -> None:
    """Raise MissingLibrary if the library `name` is not installed."""
    try:
        importlib.import_module(name)
    except ImportError:
        raise MissingLibrary(
            f"{name} is not installed here, which this preparation needs: pip install 'duetlink[prep]'"
        ) from None
