"""Prepares a frame in memory: the operation that a pointer's `prep` records, for the room and for the
mock.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from typing import Any

from duetlink.data.prep.columns import needed
from duetlink.data.prep.fields import BOOL, INTEGERS, OTHER, TEXT, Field, Fields
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import MissingLibrary, OperationRefused, PrepError

PREPARE = "duetlink.compute.prep.frames.prepare"  # the name of `prepare` in the allow lists
_WHERE = "the frame"


def prepare(frame: Any, spec: str) -> Any:
    """Return a new frame of the same library, prepared as the JSON `spec` says.

    `frame` is a frame of pandas or polars. With a split, the result has a bool column `train`. In pandas,
    integers and booleans that may be missing become float64 with NaN, and the index counts rows: so no dtype
    depends on whether an item is missing.

    Raises:
        RemoteProtocolError, LimitExceeded: `spec` is no preparation.
        PrepError: the frame does not have what the preparation needs.
        OperationRefused: `frame` is no frame of pandas or polars.
        MissingLibrary: Narwhals is not installed here.
    """
    found = PrepSpec.from_json(spec)
    library, kind = type(frame).__module__.partition(".")[0], type(frame).__name__
    if kind != "DataFrame" or library not in _LIBRARIES:
        raise OperationRefused(
            f"only frames of pandas or polars can be prepared, and this is a {kind} of {library}"
        )
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
        raise PrepError(
            "a frame to prepare needs distinct texts as column names: rename the columns", file=_WHERE
        )
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
            f"column {bad!r} has items of several types: leave it out with select", file=_WHERE, column=bad
        )
    made, after = _made(spec, fields, lambda row: arrow_frame(table, names, kept, row=row))
    found = made.to_native().rename_columns(list(after))
    for index, (name, field) in enumerate(after.items()):
        if field.nullable and (field.type in INTEGERS or field.type == BOOL):
            column = found.column(index)
            whole = column.cast(pa.int8()) if field.type == BOOL else column
            found = found.set_column(index, name, whole.cast(pa.float64(), safe=False))
        elif field.type == TEXT:
            found = found.set_column(index, name, found.column(index).cast(pa.large_string()))
    return found.to_pandas(date_as_object=False)


_LIBRARIES: Mapping[str, Callable[[Any, PrepSpec], Any]] = {"polars": _polars, "pandas": _pandas}


def _made(spec: PrepSpec, fields: Fields, frame_of: Callable[[bool], Any]) -> tuple[Any, Fields]:
    """Return the prepared Narwhals frame and its columns. Raise PrepError if an item does not fit."""
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
    """Convert a pandas column to Arrow, to a type that depends on the column's dtype alone; None if
    there is none.
    """
    import pandas as pd
    import pyarrow as pa

    from duetlink.data.prep.inner import plain

    try:
        if column.dtype == object:
            # else the type would depend on the items
            texts = pd.api.types.infer_dtype(column, skipna=True) in ("string", "empty")
            return pa.array(column, pa.large_string(), from_pandas=True) if texts else None
        found = pa.array(column, from_pandas=True)
    except (pa.ArrowException, TypeError, ValueError):
        return None
    return plain(found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found)
