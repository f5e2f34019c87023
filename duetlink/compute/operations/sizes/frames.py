"""Rules of sizes for frames and series: rows are matched by labels, and columns have names.

A rule returns the mask of a call's result. Its docstring describes the results of the operations that have
this rule in `lists/sizes.toml`.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duetlink.compute.operations.sizes import arrays
from duetlink.compute.operations.sizes.call import MockCall
from duetlink.compute.operations.sizes.mask import (
    COLUMNS,
    EVERY,
    LABELS,
    NAMES,
    PUBLIC,
    ROWS,
    UNCOUNTED,
    columns_hidden,
    has_pointers,
    hidden_in,
    rows_hidden,
    table,
)

# The mask of groups has the bits of the frame's columns, ROWS always, and MEMBERS if the frame's rows are
# private.
MEMBERS = 4


def ndim_of(obj: Any) -> int:
    """Return 1 for a series or index, 2 for a frame; the same for an accessor of one, and for its groups."""
    found = getattr(obj, "ndim", None)
    if found is None:
        if hasattr(type(obj), "collect_schema"):  # polars; reading `ndim` of a lazy frame would run its query
            return 2
        of = getattr(obj, "obj", None)
        found = getattr(of, "ndim", 1)
    return found if found in (1, 2) else 1


def aligned(tables: Iterable[tuple[Any, int]]) -> bool:
    """Return True if these mocks, each with its mask, have the same row labels for any data.

    They do if they share one index object, or if their labels are counted and equally many. pandas passes an
    index on unchanged from column to column and from step to step, so it is one object on the owner's side as
    well.
    """
    found = [(mock, hidden) for mock, hidden in tables if _is_pandas(mock)]
    if len(found) < 2:
        return True
    first = found[0][0].index
    if all(first.is_(mock.index) for mock, _ in found[1:]):
        return True
    return all(is_counted(mock, hidden) and mock.index.equals(first) for mock, hidden in found)


def is_counted(mock: Any, hidden: int) -> bool:
    """Return True if the row labels are 0, 1, 2 and so on for any data."""
    index = getattr(mock, "index", None)
    return (
        type(index).__name__ == "RangeIndex"
        and not hidden & LABELS
        and not rows_hidden(hidden, ndim_of(mock))
    )


def _is_pandas(mock: Any) -> bool:
    return type(mock).__module__.startswith("pandas") and hasattr(mock, "index") and hasattr(mock, "iloc")


def alike(call: MockCall) -> int:
    """Elementwise, with rows matched by their labels."""
    tables = [
        (mock, hidden_in(argument))
        for argument, mock in zip(
            (*call.arguments, *call.keywords.values()), (*call.mocks, *_mocks_by_name(call)), strict=False
        )
        if _is_pandas(mock)
    ]
    if not tables:
        return arrays.alike(call)
    frames = [(mock, hidden) for mock, hidden in tables if mock.ndim == 2]
    series = [(mock, hidden) for mock, hidden in tables if mock.ndim == 1]
    if frames and series:  # the labels of a series are matched with the columns
        if len(frames) == 1 and all(
            not hidden & (1 | LABELS) and mock.index.equals(frames[0][0].columns) for mock, hidden in series
        ):
            return frames[0][1]
        return EVERY
    found = call.all
    if not aligned(tables):
        found |= (ROWS if frames else 1) | LABELS
    if len(frames) > 1 and not all(mock.columns.equals(frames[0][0].columns) for mock, _ in frames):
        return EVERY
    return found


def _mocks_by_name(call: MockCall) -> tuple[Any, ...]:
    return tuple(getattr(argument, "_mock", argument) for argument in call.keywords.values())


def rowwise(call: MockCall) -> int:
    """One row for each row of the first argument; the column names follow from its columns and from
    constants.
    """
    mock, hidden = call.mocks[0], call.first
    ndim = ndim_of(mock)
    made = ndim_of(call.made)
    if isinstance(call.made, (list, tuple)):
        return UNCOUNTED if rows_hidden(hidden, ndim) else PUBLIC
    rest = (call.arguments[1:], tuple(call.keywords.values()))
    if made > ndim and has_pointers(rest):  # such as the periods of `pct_change`: one column for each
        return EVERY
    columns = columns_hidden(hidden, ndim) | _named(call)
    return table(rows_hidden(hidden, ndim), columns, made, hidden & LABELS)


def expanded(call: MockCall) -> int:
    """`rowwise`, with a column for each value that occurs, or for each part of a text."""
    return rowwise(call) | (COLUMNS | NAMES if ndim_of(call.made) == 2 else PUBLIC)


def relabelled(call: MockCall) -> int:
    """`rowwise`, with private labels, or a private order of the rows."""
    return rowwise(call) | LABELS


def numbered(call: MockCall) -> int:
    """`reset_index`: `rowwise`, and the rows are counted in the result."""
    if len(call.arguments) > 1 or "level" in call.keywords:
        return relabelled(call)
    return rowwise(call) & ~LABELS


def _named(call: MockCall) -> int:
    """Return NAMES if a private text may have become the name of a column."""
    rest = (*call.arguments[1:], *call.keywords.values())
    if call.operation in (".add_prefix", ".add_suffix"):
        return NAMES if has_pointers(rest) else PUBLIC
    return NAMES if any(map(has_private_text, rest)) else PUBLIC


def has_private_text(argument: Any) -> bool:
    if isinstance(argument, (list, tuple)):
        return any(map(has_private_text, argument))
    if type(argument) is dict:
        return any(map(has_pointers, argument)) or any(map(has_private_text, argument.values()))
    return isinstance(getattr(argument, "_mock", None), str)


def labelled(call: MockCall) -> int:
    """The item at a label: one row, or several if the label occurs more than once, which is data."""
    return UNCOUNTED


def transposed(call: MockCall) -> int:
    """Rows become columns: row labels become column names, which are private unless the rows are counted."""
    mock, hidden = call.mocks[0], call.first
    if getattr(mock, "ndim", 1) == 1:
        return hidden
    names = PUBLIC if is_counted(mock, hidden) else NAMES
    return arrays.reversed_axes(hidden & (ROWS | COLUMNS), 2) | names | LABELS


def turned(call: MockCall) -> int:
    """The axes of an array or of a frame are permuted."""
    return transposed(call) if _is_pandas(call.mocks[0]) else arrays.turned(call)


def first_rows(call: MockCall) -> int:
    """The first n rows for a constant n, or all rows if there are fewer."""
    if call.given("axis", default=0) not in (0, None, "index", "rows"):
        return EVERY
    found = rowwise(call) | LABELS
    rest = (call.arguments[1:], tuple(call.keywords.values()))
    return found | table(True, PUBLIC, ndim_of(call.made)) if has_pointers(rest) else found


def fewer(call: MockCall) -> int:
    """Rows are selected by their values; the columns are the union of those of all frames passed."""
    ndim = ndim_of(call.mocks[0])
    if call.given("axis", default=0) not in (0, "index", "rows"):
        return EVERY
    found = columns_hidden(call.first, ndim) | _named(call)
    for argument in (*call.arguments[1:], *call.keywords.values()):
        mock = getattr(argument, "_mock", None)
        if mock is not None and ndim_of(mock) == 2 and hasattr(type(mock), "columns"):
            found |= columns_hidden(hidden_in(argument), 2)
    if isinstance(call.made, (list, tuple)):
        return UNCOUNTED
    return table(True, found, ndim_of(call.made))


def selected(call: MockCall) -> int:
    """`select` of polars: a column name keeps the rows, an expression may return any number of rows."""
    names = [
        name for one in call.arguments[1:] for name in (one if isinstance(one, (list, tuple)) else (one,))
    ]
    named = all(isinstance(name, str) for name in names)
    return rowwise(call) if named and not call.keywords else fewer(call)


def dropped(call: MockCall) -> int:
    """`drop`: removes columns by their names, or rows by their labels."""
    by_columns = "columns" in call.keywords or call.given("axis", default=0) in (1, "columns")
    if by_columns and "index" not in call.keywords:
        return rowwise(call)
    rest = (call.arguments[1:], tuple(call.keywords.values()))
    counted = is_counted(call.mocks[0], call.first) and not has_pointers(rest)
    return relabelled(call) if counted else fewer(call)


def filtered(call: MockCall) -> int:
    """`filter` of pandas: selects columns by their names, or rows by their labels, which are data."""
    of_rows = ndim_of(call.mocks[0]) == 1 or call.given("axis") in (0, "index", "rows")
    if of_rows:
        return fewer(call)
    hidden = rowwise(call)
    return hidden | COLUMNS if hidden & NAMES else hidden


def by_columns(call: MockCall) -> int:
    """One row or column for each column of the frame."""
    hidden = columns_hidden(call.first, ndim_of(call.mocks[0]))
    return EVERY if hidden else PUBLIC


def reduced(call: MockCall) -> int:
    """One item of many: for a frame, one for each column, or for each row."""
    mock, made = call.mocks[0], call.made
    if has_pointers((call.arguments[1:], tuple(call.keywords.values()))):
        return arrays.fixed(call)
    ndim = ndim_of(mock)
    if ndim == 1 or not (hasattr(type(mock), "columns") or hasattr(type(mock), "collect_schema")):
        return arrays.reduced(call)
    hidden = call.first
    columns = columns_hidden(hidden, 2)
    axis = call.given("axis", default=0)
    if axis in (1, "columns"):
        if ndim_of(made) != 1:
            return EVERY
        return table(rows_hidden(hidden, 2), PUBLIC, 1, hidden & LABELS)
    if axis not in (0, "index", "rows"):
        return PUBLIC if getattr(made, "ndim", 0) == 0 else EVERY
    if ndim_of(made) == 2:
        return columns
    return table(bool(columns & COLUMNS), PUBLIC, 1, LABELS if columns else PUBLIC)


def joined(call: MockCall) -> int:
    """`concat`: stacks rows, or puts columns side by side with rows matched by their labels."""
    found = call.all
    axis = call.given("axis", default=0)
    parts = call.arguments[0] if call.arguments else ()
    parts = list(parts.values()) if isinstance(parts, dict) else parts
    mocks = [getattr(part, "_mock", part) for part in parts] if isinstance(parts, (list, tuple)) else []
    if not mocks or any(type(part).__module__.startswith("polars") for part in mocks):
        return EVERY if found or not mocks else PUBLIC
    if axis in (0, "index", "rows"):
        return found | LABELS if len({ndim_of(mock) for mock in mocks}) == 1 else EVERY
    if axis not in (1, "columns"):
        return EVERY
    masks = [(hidden_in(part), ndim_of(mock)) for part, mock in zip(parts, mocks, strict=True)]
    rows = any(rows_hidden(hidden, ndim) for hidden, ndim in masks)
    rows = rows or not aligned((mock, hidden) for mock, (hidden, _) in zip(mocks, masks, strict=True))
    columns = PUBLIC
    for hidden, ndim in masks:
        columns |= columns_hidden(hidden, ndim)
    return table(rows, columns, ndim_of(call.made))


def built(call: MockCall) -> int:
    """A new frame or series of the given data: it has their length if no rows need to be matched."""
    parts: list[Any] = []
    for argument in call.arguments[:1]:
        parts.extend(argument.values() if isinstance(argument, dict) else [argument])
    tables = [(getattr(part, "_mock", part), hidden_in(part)) for part in parts]
    if "index" in call.keywords or len(call.arguments) > 1 or not aligned(tables):
        return EVERY
    if call.all_lengths or call.has_private_counts:
        return EVERY
    return LABELS if any(_is_pandas(mock) for mock, _ in tables) else PUBLIC


def grouped(call: MockCall) -> int:
    """Groups by values. Their mask also records whether the table's rows and columns are private, see
    MEMBERS.
    """
    hidden, ndim = call.first, ndim_of(call.mocks[0])
    members = MEMBERS if rows_hidden(hidden, ndim) else PUBLIC
    return columns_hidden(hidden, ndim) | ROWS | members


def kept_groups(call: MockCall) -> int:
    """The same groups, restricted to some columns."""
    return call.first


def group_rows(call: MockCall) -> int:
    """One row for each group, or for some rows of each."""
    made = ndim_of(call.made)
    if isinstance(call.made, (list, tuple)):
        return UNCOUNTED
    return table(True, columns_hidden(call.first, 2) | _named(call), made)


def member_rows(call: MockCall) -> int:
    """One row for each row of the table that was grouped."""
    return table(bool(call.first & MEMBERS), columns_hidden(call.first, 2), ndim_of(call.made))


def window_column(call: MockCall) -> int:
    """One column of a rolling window over a frame."""
    return EVERY if call.lengths else call.first


def carried(call: MockCall) -> int:
    """An accessor or window over the same rows, such as `.str` or `.rolling(3)`."""
    return call.first


def predicted(call: MockCall) -> int:
    """One row for each row of the data passed to an estimator."""
    if len(call.arguments) < 2:
        return EVERY
    hidden, ndim = hidden_in(call.arguments[1]), ndim_of(call.mocks[1])
    made = getattr(call.made, "ndim", 0)
    rows = rows_hidden(hidden, ndim)
    if made == 1:
        return int(rows)
    return (ROWS if rows else PUBLIC) | COLUMNS | NAMES | LABELS if made == 2 else EVERY


def scaled(call: MockCall) -> int:
    """The shape of the data passed to an estimator."""
    return hidden_in(call.arguments[1]) if len(call.arguments) > 1 else EVERY
