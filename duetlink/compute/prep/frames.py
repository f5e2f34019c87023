"""Preparing a frame in memory: what a pointer asks for, done in the room, and to the mock, by the same
code."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from duetlink.data.prep.columns import needed
from duetlink.data.prep.fields import BOOL, INTEGERS, OTHER, TEXT, Field, Fields
from duetlink.data.prep.spec import PrepSpec
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

    from duetlink.data.prep.inner import fields_of, polars_frame

    fields = fields_of(frame.columns, nw.from_native(frame))
    kept = needed(spec, fields)
    made, after = _made(spec, fields, lambda row: polars_frame(frame.lazy(), list(fields), kept, row=row))
    return made.to_native().rename(dict(zip(made.columns, after, strict=True)))


def _pandas(frame: Any, spec: PrepSpec) -> Any:
    import numpy as np
    import pyarrow as pa

    from duetlink.data.prep.inner import arrow_fields, arrow_frame

    if not frame.columns.is_unique or not all(type(name) is str for name in frame.columns):
        raise PrepError("the columns of a frame have distinct texts as names: rename them", file=_WHERE)
    arrays = {name: _array(frame[name]) for name in frame.columns}
    table = pa.table({name: array for name, array in arrays.items() if array is not None})
    typed = arrow_fields(table.schema)
    fields: dict[str, Field] = {}
    for name in arrays:
        dtype = frame[name].dtype
        nullable = not (isinstance(dtype, np.dtype) and dtype.kind in "iub")
        fields[name] = Field(typed[name].type if name in typed else OTHER, nullable)
    names, kept = list(fields), needed(spec, fields)
    if bad := next((name for name in kept if name not in typed), ""):
        raise PrepError(
            f"column {bad!r} has items of several types: select the others first", file=_WHERE, column=bad
        )
    made, after = _made(spec, fields, lambda row: arrow_frame(table, names, kept, row=row))
    found = made.to_native().rename_columns(list(after))
    for place, (name, field) in enumerate(after.items()):
        if field.nullable and (field.type in INTEGERS or field.type == BOOL):
            column = found.column(place)
            whole = column.cast(pa.int8()) if field.type == BOOL else column
            found = found.set_column(place, name, whole.cast(pa.float64(), safe=False))
        elif field.type == TEXT:
            found = found.set_column(place, name, found.column(place).cast(pa.large_string()))
    return found.to_pandas(date_as_object=False)


_LIBRARIES: Mapping[str, Callable[[Any, PrepSpec], Any]] = {"polars": _polars, "pandas": _pandas}


def _made(spec: PrepSpec, fields: Fields, frame_of: Callable[[bool], Any]) -> tuple[Any, Fields]:
    """The prepared frame, of Narwhals, and its columns. Raises PrepError: an item does not fit."""
    from duetlink.data.prep.lowering import blamed, first_unfit, lowered
    from duetlink.data.prep.work import BAD, ROW

    split = spec.split_step
    row = split is not None and not split.by
    found = lowered(spec, fields, _WHERE, row=row)
    frame = _collected(found.apply(frame_of(row)))
    if found.strict:
        number = int(frame[BAD].filter(frame[BAD] > 0).min() or 0)
        if number:
            finder = first_unfit(spec, number, fields, _WHERE, ordered=True)
            bad = _collected(finder.apply(frame_of(True))).to_arrow().to_pylist()[0]
            raise blamed(spec, number, bad, _WHERE, bad[ROW])
        frame = frame.drop(BAD)
    return frame, found.fields


def _collected(frame: Any) -> Any:
    return frame.collect() if hasattr(frame, "collect") else frame


def _array(column: Any) -> Any:
    """A column of pandas as one of Arrow, whose type depends on the column's alone; None: it has none."""
    import pandas as pd
    import pyarrow as pa

    from duetlink.data.prep.inner import plain

    try:
        if column.dtype == object:
            # otherwise the type would be that of the items that happen to be there
            texts = pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
            return pa.array(column, pa.large_string(), from_pandas=True) if texts else None
        found = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return plain(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)
