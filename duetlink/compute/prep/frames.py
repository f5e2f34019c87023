"""Preparing a frame in memory: what a pointer asks for, done in the room, and to the mock, by the same
code."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from duetlink.compute.prep.fields import BOOL, OTHER, TEXT, Field, Fields, needed
from duetlink.compute.prep.spec import PrepSpec
from duetlink.compute.prep.steps import INTEGERS
from duetlink.errors import MissingLibrary, OperationRefused, PrepError

PREPARE = "duetlink.compute.prep.frames.prepare"  # its name among the operations
_WHERE = "the frame"


def prepare(frame: Any, spec: str) -> Any:
    """A frame of pandas or polars, prepared as this JSON says; a new frame of the same library.

    With a split it has the column `train`. In pandas, whole numbers and truth values that may be missing are
    float64 with NaN, and the index counts rows: whether an item is missing changes no type.

    Raises:
        RemoteProtocolError, LimitExceeded: it is no preparation.
        PrepError: the frame is not as the preparation needs it.
        OperationRefused: it is no frame of pandas or polars.
        MissingLibrary: Narwhals is not installed here.
    """
    found = PrepSpec.from_json(spec)
    library, kind = type(frame).__module__.partition(".")[0], type(frame).__name__
    if kind != "DataFrame" or library not in _LIBRARIES:
        raise OperationRefused(f"a {kind} of {library} is not prepared here, but frames of pandas or polars")
    try:
        importlib.import_module("narwhals")
    except ImportError:
        raise MissingLibrary("preparations need Narwhals: pip install 'duetlink[prep]'") from None
    return _LIBRARIES[library](frame, found)


def _polars(frame: Any, spec: PrepSpec) -> Any:
    import narwhals as nw

    from duetlink.compute.prep.lowering import type_of

    fields = {name: Field(type_of(kind)) for name, kind in nw.from_native(frame).schema.items()}
    kept = needed(spec, fields, _WHERE)
    made = _made(spec, fields, lambda row: polars_frame(frame.lazy(), list(fields), kept, row=row))
    return made.frame.to_native().rename(dict(zip(made.frame.columns, made.names, strict=True)))


def _pandas(frame: Any, spec: PrepSpec) -> Any:
    import narwhals as nw
    import numpy as np
    import pyarrow as pa

    from duetlink.compute.prep.lowering import type_of

    fields: dict[str, Field] = {}
    arrays: dict[str, Any] = {}
    if not frame.columns.is_unique or not all(type(name) is str for name in frame.columns):
        raise PrepError("the columns of a frame have distinct texts as names: rename them", file=_WHERE)
    for name in frame.columns:
        arrays[name] = _array(frame[name])
        kind = OTHER if arrays[name] is None else _type(arrays[name].type, type_of)
        dtype = frame[name].dtype
        fields[name] = Field(kind, nullable=not (isinstance(dtype, np.dtype) and dtype.kind in "iub"))
    names = list(fields)
    kept = needed(spec, fields, _WHERE)
    if bad := next((name for name in kept if arrays[name] is None), ""):
        raise PrepError(
            f"column {bad!r} has items of several types: select the others first", file=_WHERE, column=bad
        )
    there = [name for name in names if arrays[name] is not None]
    table = pa.table([arrays[name] for name in there], names=there) if there else pa.table({})
    made = _made(spec, fields, lambda row: arrow_frame(table, names, kept, row=row))
    found = nw.to_native(made.frame).rename_columns(made.names)
    for place, (name, field) in enumerate(made.fields.items()):
        if field.nullable and (field.type in INTEGERS or field.type == BOOL):
            column = found.column(place)
            whole = column.cast(pa.int8()) if field.type == BOOL else column
            found = found.set_column(place, name, whole.cast(pa.float64(), safe=False))
        elif field.type == TEXT:
            found = found.set_column(place, name, found.column(place).cast(pa.large_string()))
    return found.to_pandas(date_as_object=False)


_LIBRARIES: Mapping[str, Callable[[Any, PrepSpec], Any]] = {"polars": _polars, "pandas": _pandas}


@dataclass(frozen=True, slots=True)
class _Made:
    frame: Any  # of narwhals, eager
    fields: Fields

    @property
    def names(self) -> list[str]:
        return list(self.fields)


def _made(spec: PrepSpec, fields: Fields, frame_of: Callable[[bool], Any]) -> _Made:
    """The frame, without what is ours in it. Raises PrepError: an item does not fit."""
    from duetlink.compute.prep.blame import blamed
    from duetlink.compute.prep.lowering import BAD, lowered

    split = spec.split_step
    row = split is not None and not split.by
    found = lowered(spec, fields, _WHERE, row=row)
    frame = _collected(found.apply(frame_of(row)))
    if found.strict:
        bad = frame.filter(frame[BAD] > 0)[BAD]
        if len(bad):
            number = int(bad.min())

            def first(prepare: Callable[[Any], Any]) -> dict[str, Any]:
                return dict(_collected(prepare(frame_of(True))).to_arrow().to_pylist()[0])

            raise blamed(spec, number, fields, _WHERE, first)
        frame = frame.drop(BAD)
    return _Made(frame, found.fields)


def _collected(frame: Any) -> Any:
    return frame.collect() if hasattr(frame, "collect") else frame


def _array(column: Any) -> Any:
    """A column of pandas as one of Arrow, whose type depends on the column's alone; None: it has none."""
    import pandas as pd
    import pyarrow as pa

    try:
        if column.dtype == object:
            # otherwise the type would be that of the items that happen to be there
            texts = pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
            return pa.array(column, pa.large_string(), from_pandas=True) if texts else None
        found = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return plain(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)


def plain(column: Any) -> Any:
    """A column of Arrow without its dictionary, such as of whole numbers; one of texts is as it is."""
    import pyarrow.types as kinds

    kind = column.type
    texts = kinds.is_dictionary(kind) and (
        kinds.is_string(kind.value_type) or kinds.is_large_string(kind.value_type)
    )
    return column.cast(kind.value_type) if kinds.is_dictionary(kind) and not texts else column


def _type(kind: Any, type_of: Callable[[Any], str]) -> str:
    import narwhals as nw
    import pyarrow as pa

    return type_of(nw.from_native(pa.table([pa.array([], kind)], names=["a"])).schema["a"])


# -- frames whose columns have inner names -----------------------------------------------------------------


def polars_frame(lazy: Any, names: list[str], kept: list[str], *, row: bool, first: int = 0) -> Any:
    """Some columns of a lazy frame, under inner names, and ROW, which counts from `first`."""
    import narwhals as nw
    import polars as pl

    from duetlink.compute.prep.lowering import ROW, inner_name

    place = {name: inner_name(place) for place, name in enumerate(names)}
    made = [pl.col(name).alias(place[name]) for name in kept]
    if row:
        made.append((pl.int_range(pl.len(), dtype=pl.Int64) + first).alias(ROW))
    return nw.from_native(lazy.select(made))


def arrow_frame(table: Any, names: list[str], kept: list[str], *, row: bool, first: int = 0) -> Any:
    """Some columns of a table, under inner names, and ROW, which counts from `first`."""
    import narwhals as nw
    import numpy as np
    import pyarrow as pa

    from duetlink.compute.prep.lowering import ROW, inner_name

    place = {name: inner_name(place) for place, name in enumerate(names)}
    rows = table.num_rows
    table = table.select(kept)
    table = table.rename_columns([place[name] for name in kept])
    if row:
        table = table.append_column(ROW, [pa.array(np.arange(first, first + rows, dtype=np.int64))])
    return nw.from_native(table)
