"""Frames in memory under inner names (c0, c1, ...), and the types of their columns."""

from __future__ import annotations

from typing import Any

import narwhals as nw

from duetlink.data.prep.fields import Field
from duetlink.data.prep.work import ROW, inner_name, type_of
from duetlink.errors import SettingError


def check_distinct(names: list[str]) -> None:
    """Raise SettingError if two columns have the same name, which would make steps ambiguous."""
    if len(set(names)) != len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise SettingError(f"two columns of the table are called {twice!r}: rename one")


def fields_of(names: list[str], frame: Any) -> dict[str, Field]:
    """Return the types of a frame's columns, under the user's names; raise SettingError for duplicates."""
    check_distinct(names)
    kinds = frame.collect_schema().values()
    return {name: Field(type_of(kind)) for name, kind in zip(names, kinds, strict=True)}


def arrow_fields(schema: Any) -> dict[str, Field]:
    """Return the types of the columns of an Arrow schema; raise SettingError for duplicate names."""
    import pyarrow as pa

    inner = pa.schema([(inner_name(index), field.type) for index, field in enumerate(schema)])
    return fields_of(schema.names, nw.from_native(pa.Table.from_batches([], inner)))


def polars_frame(lazy: Any, names: list[str], kept: list[str], *, row: bool, first: int = 0) -> Any:
    """Return columns of a lazy frame under inner names, with ROW counting from `first` if `row`."""
    import polars as pl

    inner = {name: inner_name(index) for index, name in enumerate(names)}
    made = [pl.col(name).alias(inner[name]) for name in kept]
    if row:
        made.append((pl.int_range(pl.len(), dtype=pl.Int64) + first).alias(ROW))
    return nw.from_native(lazy.select(made))


def arrow_frame(table: Any, names: list[str], kept: list[str], *, row: bool, first: int = 0) -> Any:
    """Return columns of a table under inner names, with ROW counting from `first` if `row`."""
    import numpy as np
    import pyarrow as pa

    inner = {name: inner_name(index) for index, name in enumerate(names)}
    rows = table.num_rows
    table = table.select(kept)
    table = table.rename_columns([inner[name] for name in kept])
    if row:
        table = table.append_column(ROW, [pa.array(np.arange(first, first + rows, dtype=np.int64))])
    return nw.from_native(table)


def plain(column: Any) -> Any:
    """Decode a dictionary-encoded Arrow column, unless its values are texts."""
    import pyarrow.types as kinds

    kind = column.type
    texts = kinds.is_dictionary(kind) and (
        kinds.is_string(kind.value_type) or kinds.is_large_string(kind.value_type)
    )
    return column.cast(kind.value_type) if kinds.is_dictionary(kind) and not texts else column
