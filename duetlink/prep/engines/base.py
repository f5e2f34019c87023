"""What an engine gives: a source, opened, whose columns have names of ours inside, and results as Arrow."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, Protocol

from duetlink.data.prep.fields import OTHER, Field, Fields
from duetlink.errors import MissingLibrary, SettingError

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


def fields_of(names: list[str], frame: Any) -> dict[str, Field]:
    """Our types of a frame's columns, under a person's names. Raises SettingError: two have one name."""
    from duetlink.data.prep.work import type_of

    check_distinct(names)
    kinds = frame.collect_schema().values()
    return {name: Field(type_of(kind)) for name, kind in zip(names, kinds, strict=True)}


def arrow_fields(schema: Any) -> dict[str, Field]:
    """Our types of the columns of a schema of Arrow's. Raises SettingError: two have one name."""
    import narwhals as nw
    import pyarrow as pa

    from duetlink.data.prep.work import inner_name

    inner = pa.schema([(inner_name(place), field.type) for place, field in enumerate(schema)])
    return fields_of(schema.names, nw.from_native(pa.Table.from_batches([], inner)))


def agreed(fields: Fields, schema: Any) -> dict[str, Field]:
    """An engine's types of columns, and "other", which no step takes, where Arrow has another type for one.

    So a step takes the same columns on each engine. Of some types an engine makes another one: DuckDB reads
    durations from Parquet as whole numbers.
    """
    theirs = arrow_fields(schema)
    return {name: field if field == theirs[name] else Field(OTHER) for name, field in fields.items()}


def check_distinct(names: list[str]) -> None:
    """Raises SettingError: two columns have the same name, by which a step could not tell them apart."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SettingError(f"two columns of the table are called {twice!r}: rename one")


def arrow_types() -> dict[str, Any]:
    """The types of Arrow that results have, by our names; others are as the engine made them."""
    import pyarrow as pa

    names = ["bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "float32", "float64"]
    found: dict[str, Any] = {name: pa.type_for_alias(name) for name in names}
    return {**found, "text": pa.large_string(), "date": pa.date32()}


def library(name: str, load: Callable[[], Any]) -> Any:
    """Raises MissingLibrary."""
    try:
        return load()
    except ImportError:
        raise MissingLibrary(
            f"{name} is not installed here, which this preparation needs: pip install 'duetlink[prep]'"
            + (" pyspark" if name == "pyspark" else "")
        ) from None
