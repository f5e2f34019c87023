"""Operations that choose columns, or rows by a condition on the row itself.

Accepted are column access, filters by a condition, dropping missing items, and row-stable preparations
(`prep/`). Rows by position or label are refused, because other rows change them.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from duetlink.compute.prep.frames import PREPARE
from duetlink.compute.privacy.call import Unstable, check_rows
from duetlink.compute.privacy.table import (
    BOOL,
    FLOAT,
    INT,
    NARROW,
    OTHER,
    PANDAS,
    POLARS,
    TEXT,
    Column,
    Matrix,
    PrivateTable,
    Table,
)
from duetlink.data.prep.columns import with_train
from duetlink.data.prep.fields import INTEGERS, Field
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import DuetError, PrepError

# a step's first argument, its other arguments, its keywords, and its position in the program
Selection = Callable[[Table, Sequence[Any], Mapping[str, Any], int], Table]


def selection_of(operation: str, library: str) -> Selection | None:
    """Return the function that applies the operation; None if the operation chooses no rows or columns."""
    if operation == "operator.getitem":
        return _getitem
    if operation == PREPARE:
        return _prepared
    if operation.startswith("@") and not operation.startswith("@="):
        return lambda table, items, keywords, position: _attribute(table, operation[1:])
    return _METHODS.get((library, operation))


def _prepared(table: Table, items: Sequence[Any], keywords: Mapping[str, Any], position: int) -> Table:
    """Apply a preparation to a frame. Raises Unstable if it combines rows, or may fail for some row."""
    if not isinstance(table, PrivateTable) or len(items) != 1 or keywords or type(items[0]) is not str:
        raise Unstable("it prepares a frame, and takes a preparation and nothing else")
    try:
        spec = PrepSpec.from_json(items[0])
    except DuetError as error:
        raise Unstable(str(error)) from None
    if not spec.row_stable:
        raise Unstable(
            "it may fail for a row, or depends on other rows: cast with invalid='missing', one_hot with "
            "unknown='ignore', split with by="
        )
    # pandas columns of these kinds are NumPy arrays: integers and truth values without missing items
    fields = {
        name: Field(_TYPES[kind], nullable=table.library != PANDAS or kind not in (BOOL, INT, NARROW))
        for name, kind in table.columns.items()
        if type(name) is str
    }
    try:
        made = _fields_after(spec, fields)
    except PrepError as error:
        raise Unstable(str(error)) from None
    columns: dict[str | int, str] = {name: _kind_of(table.library, field) for name, field in made.items()}
    # pandas gets a new frame with labels from 0, which it would match with other rows of the asset
    is_new = table.library == PANDAS or any(step.drops_rows for step in spec.steps)
    found = replace(table, columns=columns)
    return _with_filter(found, position) if is_new else found


# NARROW does not say which type of less than 64 bits it is. This one stands for all: nothing is cast to it.
_NARROW = "uint32"
_TYPES = {BOOL: "bool", INT: "int64", NARROW: _NARROW, FLOAT: "float64", TEXT: "text", OTHER: "other"}


def _fields_after(spec: PrepSpec, fields: Mapping[str, Field]) -> Mapping[str, Field]:
    """Return the columns after all steps, with their types and whether items may be missing.

    The latter matters because pandas uses other types for columns with missing items.
    """
    found = dict(fields)
    for step in spec.steps:
        before, found = found, step.after(found, "the asset")
        for name, field in found.items():
            is_narrow = name in before and before[name].type == _NARROW
            if is_narrow and field.type in ("int8", "int16", "int32"):
                raise Unstable(f"column {name!r} has few bits already: cast it to int64 or float64")
    return with_train(found, "the asset") if spec.split_step else found


def _kind_of(library: str, field: Field) -> str:
    whole = field.type in INTEGERS or field.type == "bool"
    if library == PANDAS and whole and field.nullable:
        return FLOAT
    kinds = {"bool": BOOL, "int64": INT, "float32": FLOAT, "float64": FLOAT, "text": TEXT}
    return kinds.get(field.type, NARROW if whole else OTHER)


def _getitem(table: Table, items: Sequence[Any], keywords: Mapping[str, Any], position: int) -> Table:
    if len(items) != 1 or keywords:
        raise Unstable("it takes one key between the brackets")
    (key,) = items
    if isinstance(key, Table):
        if table.library == POLARS:
            raise Unstable("choose rows of polars by .filter(condition)")
        return _filtered(table, key, position)
    if isinstance(table, PrivateTable):
        if isinstance(key, list):
            return replace(table, columns={name: _kind(table, name) for name in key})
        return Column(table.library, _kind(table, key), table.rows)
    if isinstance(table, Matrix) and isinstance(key, tuple):
        return _matrix_column(table, key)
    raise Unstable(
        "it chooses rows by their position or label, which change when a row is added; choose them by a "
        "condition on the data, such as table[table['x'] > 3]"
    )


def _matrix_column(table: Matrix, key: tuple[Any, ...]) -> Column:
    if len(key) != 2 or key[0] != slice(None) or type(key[1]) is not int:
        raise Unstable("take a column of a matrix as matrix[:, 3], and rows by a condition")
    if not -table.width <= key[1] < table.width:
        raise Unstable(f"there is no column {key[1]}, only {table.width}")
    return Column(table.library, table.kind, table.rows)


def _attribute(table: Table, name: str) -> Table:
    if isinstance(table, PrivateTable) and table.library == PANDAS:
        frame = getattr(sys.modules.get(PANDAS), "DataFrame", None)
        if frame is not None and not hasattr(frame, name):
            return Column(PANDAS, _kind(table, name), table.rows)
    raise Unstable("it is no column; take columns as table['name']")


def _kind(table: PrivateTable, name: Any) -> str:
    # exact types: True is 1 to a dict
    if type(name) not in (str, int) or name not in table.columns:
        raise Unstable("a column is named by a text or an integer, and there is none of this name")
    return table.columns[name]


def _filtered(table: Table, mask: Any, position: int) -> Table:
    if not isinstance(mask, Column) or mask.kind != BOOL:
        raise Unstable("choose rows by a condition on the data, such as table['x'] > 3")
    check_rows(table, mask)
    return _with_filter(table, position)


def _with_filter(table: Table, position: int) -> Table:
    return replace(table, rows=replace(table.rows, filters=(*table.rows.filters, position)))


def _filter(table: Table, items: Sequence[Any], keywords: Mapping[str, Any], position: int) -> Table:
    if len(items) != 1 or keywords:
        raise Unstable("it takes one condition")
    return _filtered(table, items[0], position)


def _get_column(table: Table, items: Sequence[Any], keywords: Mapping[str, Any], position: int) -> Table:
    if not isinstance(table, PrivateTable) or len(items) != 1 or keywords:
        raise Unstable("it takes one name")
    return Column(table.library, _kind(table, items[0]), table.rows)


def _drop_missing(table: Table, items: Sequence[Any], keywords: Mapping[str, Any], position: int) -> Table:
    if items or not set(keywords) <= {"subset"}:
        raise Unstable("it takes nothing but subset")
    if keywords:
        if not isinstance(table, PrivateTable) or not isinstance(keywords["subset"], list):
            raise Unstable("subset is a list of columns of a frame")
        for name in keywords["subset"]:
            _kind(table, name)
    return _with_filter(table, position)


def _drop_nans(table: Table, items: Sequence[Any], keywords: Mapping[str, Any], position: int) -> Table:
    if items or keywords or not isinstance(table, Column) or table.kind != FLOAT:
        raise Unstable("it is for a column of floating point numbers, and takes no arguments")
    return _with_filter(table, position)


_METHODS: Mapping[tuple[str, str], Selection] = {
    (PANDAS, ".dropna"): _drop_missing,
    (POLARS, ".drop_nulls"): _drop_missing,
    (POLARS, ".drop_nans"): _drop_nans,
    (POLARS, ".filter"): _filter,
    (POLARS, ".get_column"): _get_column,
}
