"""The columns of a frame: names, dtypes, and the first items of each, as texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

FIRST = 5  # items of each column that are shown


class Column(NamedTuple):
    """One column of a frame; `items` are its first ones."""

    name: str
    dtype: str
    items: str


def columns_of(frame: Any) -> list[Column]:
    """Return the columns of a frame of pandas or polars, or of an Arrow table; none for other objects."""
    describe = _READERS.get((type(frame).__module__.partition(".")[0], type(frame).__name__))
    if describe is None:
        return []
    return [Column(str(name), str(dtype), _listed(items)) for name, dtype, items in describe(frame)]


def names_and_dtypes(frame: Any) -> str:
    """Return the columns in one line: `age int64, town str`."""
    return ", ".join(f"{column.name} {column.dtype}" for column in columns_of(frame))


def _listed(items: Iterable[Any]) -> str:
    return ", ".join(f"{item:.4g}" if isinstance(item, float) else str(item) for item in items)


def _of_pandas(frame: Any) -> Iterable[tuple[Any, Any, list[Any]]]:
    head = frame.head(FIRST)  # by position: column names may repeat
    for position, (name, dtype) in enumerate(zip(frame.columns, frame.dtypes, strict=True)):
        yield name, dtype, head.iloc[:, position].tolist()


def _of_polars(frame: Any) -> Iterable[tuple[Any, Any, list[Any]]]:
    head = frame.head(FIRST)
    for name, dtype in frame.schema.items():
        yield name, dtype, head[name].to_list()


def _of_arrow(table: Any) -> Iterable[tuple[Any, Any, list[Any]]]:
    for position, field in enumerate(table.schema):
        yield field.name, field.type, table.column(position).slice(0, FIRST).to_pylist()


_READERS: dict[tuple[str, str], Callable[[Any], Iterable[tuple[Any, Any, list[Any]]]]] = {
    ("pandas", "DataFrame"): _of_pandas,
    ("polars", "DataFrame"): _of_polars,
    ("pyarrow", "Table"): _of_arrow,
    ("pyarrow", "RecordBatch"): _of_arrow,
}
