"""What an engine gives: a source, opened, whose columns have names of ours inside, and results as Arrow."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from duetlink.data.prep.fields import OTHER, Field, Fields
from duetlink.errors import MissingLibrary

if TYPE_CHECKING:
    import pyarrow as pa


class Opened(Protocol):
    """A source on one engine. Nothing of it is read before it must be, but names and types."""

    engine: str  # its name
    where: str  # the source, for a person
    fields: Fields
    schema: Any  # Arrow's of the source, or None: what no step takes comes out as the type that it has there
    ordered: bool  # whether rows come in the source's order, each time
    streams: bool  # whether `stream` holds less than the whole
    keeps: bool  # whether the whole, once made, is kept for what comes after

    def frame(self, columns: list[str], *, row: bool) -> Any:
        """A Narwhals frame of the source, whose column number 7 is called `c7`. Others than `columns` may be
        left out. With `row` it has ROW, too.
        """

    def collect(self, frame: Any) -> pa.Table:
        """What a frame holds, made from this source's."""

    def stream(
        self, prepare: Callable[[Any], Any], columns: list[str], rows: int, *, row: bool
    ) -> Generator[pa.RecordBatch]:
        """What `prepare` makes of the frame, or of one piece of it after the other; at least one batch.

        A batch has about `rows` rows at most where that is the engine's to say.
        """

    def cancel(self) -> None:
        """End what runs after Ctrl-C, where the engine goes on by itself."""


def agreed(fields: Fields, schema: Any) -> dict[str, Field]:
    """An engine's types of columns, and "other", which no step takes, where Arrow has another type for one.

    So a step takes the same columns on each engine. Of some types an engine makes another one: DuckDB reads
    durations from Parquet as whole numbers.
    """
    from duetlink.data.prep.inner import arrow_fields

    theirs = arrow_fields(schema)
    return {name: field if field == theirs[name] else Field(OTHER) for name, field in fields.items()}


def arrow_types() -> dict[str, Any]:
    """The types of Arrow that results have, by our names; others are as the engine made them."""
    import pyarrow as pa

    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64"]
    found: dict[str, Any] = {name: pa.type_for_alias(name) for name in names}
    return {**found, "text": pa.large_string(), "date": pa.date32()}


def library(name: str) -> None:
    """Raises MissingLibrary: it is not installed here."""
    try:
        importlib.import_module(name)
    except ImportError:
        raise MissingLibrary(
            f"{name} is not installed here, which this preparation needs: pip install 'duetlink[prep]'"
        ) from None
