"""Rules of sizes for subscripts: the rows, items or columns that `target[key]` reads or writes."""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.sizes import arrays, frames
from duetlink.compute.operations.sizes.call import MockCall
from duetlink.compute.operations.sizes.frames import is_counted, ndim_of
from duetlink.compute.operations.sizes.mask import (
    COLUMNS,
    EVERY,
    LABELS,
    LENGTHS,
    NAMES,
    PUBLIC,
    ROWS,
    UNCOUNTED,
    columns_hidden,
    has_pointers,
    hidden_in,
    is_pointer,
    rows_hidden,
    table,
)

_TENSORS = "duetlink.duet.asking.pointers.tensor"  # whose mocks are pointers to tensors


def taken(call: MockCall) -> int:
    """Return the mask of `target[key]`."""
    target, key = call.mocks[0], call.arguments[1]
    module = type(target).__module__
    if module in ("numpy", "torch", _TENSORS) and not call.first and not has_pointers(key):
        return PUBLIC
    kind = type(target).__name__
    if kind in ("_LocIndexer", "_AtIndexer"):
        return _by_label(call, target.obj, key)
    if kind in ("_iLocIndexer", "_iAtIndexer"):
        return _by_position(call.first, ndim_of(target.obj), key)
    bases = {base.__name__ for base in type(target).__mro__} if module.startswith("pandas") else ()
    if "BaseGroupBy" in bases:
        return frames.kept_groups(call)
    if "BaseWindow" in bases:
        return frames.window_column(call)
    if kind == "StringMethods":  # a part of each text
        return EVERY if has_pointers(key) else call.first
    if kind == "DataFrame":
        return _of_frame(call, key)
    if kind == "Series":
        return _of_series(call, target, key)
    if isinstance(target, (list, tuple, dict)):
        return EVERY if call.lengths or has_pointers(key) else LABELS
    if hasattr(target, "ndim"):
        return _by_position(call.first, target.ndim, key)
    return EVERY


def _is_boolean(key: Any) -> bool:
    dtype = str(getattr(getattr(key, "_mock", key), "dtype", "")).lower()
    return (
        "bool" in dtype
        or dtype == "torch.uint8"
        or (isinstance(key, list) and bool(key) and all(type(one) is bool for one in key))
    )


def _of_frame(call: MockCall, key: Any) -> int:
    hidden, made = call.first, ndim_of(call.made)
    rows, columns = rows_hidden(hidden, 2), columns_hidden(hidden, 2)
    mock = getattr(key, "_mock", key)
    if type(key) is tuple and type(call.mocks[0]).__module__.startswith("polars"):
        return _by_position(hidden, 2, key)
    if _is_boolean(key):
        if getattr(mock, "ndim", 1) == 2:
            return hidden  # a frame of booleans makes items missing, and keeps the shape
        constant = not has_pointers(key) and _can_count(call)
        return table(rows or not constant, columns, made)
    labels = hidden & LABELS
    if type(key) is slice:
        if has_pointers(key) or not _is_numbers(key):
            return table(True, columns, made)
        return hidden | LABELS
    if has_pointers(key):
        return EVERY
    if made == 1 and columns & NAMES:  # a name that occurs twice gives two columns
        return UNCOUNTED
    return table(rows, PUBLIC if made == 2 and isinstance(key, list) else columns, made, labels)


def _can_count(call: MockCall) -> bool:
    return is_counted(call.mocks[0], call.first)


def _is_numbers(key: slice) -> bool:
    return all(part is None or type(part) is int for part in (key.start, key.stop, key.step))


def _of_series(call: MockCall, target: Any, key: Any) -> int:
    if type(target).__module__.startswith("polars"):
        return _by_position(call.first, 1, key)
    if type(key) is slice:
        return call.first | LABELS if _is_numbers(key) and not has_pointers(key) else 1 | LABELS
    if getattr(call.made, "ndim", 0) == 0:
        return PUBLIC if is_counted(target, call.first) else UNCOUNTED
    if _is_boolean(key) or has_pointers(key):
        return 1 | LABELS
    return LABELS if is_counted(target, call.first) else 1 | LABELS


def _by_label(call: MockCall, target: Any, key: Any) -> int:
    """Return the mask of `.loc[rows, columns]`; the mask of `.loc` itself is that of the table."""
    hidden, ndim = call.first, ndim_of(target)
    by_row, by_column = key if type(key) is tuple and len(key) == 2 and ndim == 2 else (key, slice(None))
    made = getattr(call.made, "ndim", 0)
    counted = is_counted(target, hidden)
    if made == 0:  # a label that occurs twice gives two items
        return PUBLIC if counted else UNCOUNTED
    labels = LABELS
    rows = rows_hidden(hidden, ndim)
    one_row = False
    if type(by_row) is slice:
        whole = by_row == slice(None)
        rows = rows or not (whole or (counted and not has_pointers(by_row)))
        labels = hidden & LABELS if whole else LABELS
    elif _is_boolean(by_row) or has_pointers(by_row) or callable(by_row):
        rows = True
    elif counted:
        one_row, rows = not isinstance(by_row, list), False
    else:
        one_row, rows = made < ndim and not _is_one(by_column), True
    columns = columns_hidden(hidden, ndim)
    if has_pointers(by_column):
        return EVERY
    if isinstance(by_column, list) and not _is_boolean(by_column):
        columns = PUBLIC
    if made == 1 and one_row and ndim == 2:
        if not counted:  # a label that occurs twice gives two rows
            return UNCOUNTED
        return EVERY if columns else PUBLIC
    return table(rows, columns, made, labels)


def _is_one(key: Any) -> bool:
    return isinstance(key, (str, int))


def _by_position(hidden: int, ndim: int, key: Any) -> int:
    """Return the mask of `array[key]`, by NumPy's rules of indexing."""
    if hidden == UNCOUNTED:
        return EVERY
    return _axes_by_position(hidden & LENGTHS, ndim, key) | LABELS | (hidden & NAMES)


def _axes_by_position(hidden: int, ndim: int, key: Any) -> int:
    parts = key if type(key) is tuple else (key,)
    masks = [part for part in parts if is_pointer(part) and _is_boolean(part)]
    if masks:
        return _by_mask(hidden, ndim, parts)
    # torch reads a list with slices, or with tensors, as a tuple of indices
    if any(type(part) in (slice, list) and has_pointers(part) for part in parts):
        return EVERY
    if any(hidden_in(part) for part in parts) or (has_pointers(key) and hidden):
        return EVERY
    if hidden == PUBLIC:
        return PUBLIC
    axes: list[int] = []  # the bits of the result, first axis first
    left = ndim - sum(1 for part in parts if part is not None and part is not Ellipsis)
    axis = 0
    for part in parts:
        if part is Ellipsis:
            axes += [_bit(hidden, ndim, axis + step) for step in range(left)]
            axis += left
            left = 0
        elif part is None:
            axes.append(0)
        elif type(part) is int:
            axis += 1
        elif type(part) is slice:
            axes.append(_bit(hidden, ndim, axis))
            axis += 1
        else:
            return EVERY
    axes += [_bit(hidden, ndim, one) for one in range(axis, ndim)]
    return sum(bit << position for position, bit in enumerate(reversed(axes)))


def _bit(hidden: int, ndim: int, axis: int) -> int:
    return hidden >> (ndim - 1 - axis) & 1


def _by_mask(hidden: int, ndim: int, parts: tuple[Any, ...]) -> int:
    """Return the mask of `array[booleans, …]`: the axes of the boolean key become one axis of private
    length.
    """
    mask, rest = parts[0], parts[1:]
    if not is_pointer(mask) or any(type(part) is not slice or has_pointers(part) for part in rest):
        return EVERY
    left: int = ndim - mask._mock.ndim
    return 1 << left | (hidden & ((1 << left) - 1))


def after_writing(call: MockCall) -> int:
    """Return the mask of `target` after `target[key] = value`, or after another operation in place."""
    hidden, target = call.first, call.mocks[0]
    kind = type(target).__name__
    name = call.operation
    if name == "operator.setitem" and type(target).__module__.startswith("pandas"):
        key = call.arguments[1]
        if _is_boolean(key):
            return hidden
        if kind == "DataFrame":
            value = hidden_in(call.arguments[2])
            if value and not len(target.columns):
                return hidden | ROWS  # the first column of an empty frame sets its rows
            return hidden | COLUMNS | NAMES if has_pointers(key) else hidden
        if kind == "Series" and type(key) is not slice and not is_counted(target, hidden):
            return hidden | 1  # a new label adds a row
        return hidden
    if name in NAMING:
        return hidden | COLUMNS | NAMES if any(map(frames.has_private_text, call.arguments[1:])) else hidden
    if name == "@=data":
        return hidden_in(call.arguments[1])
    if name == "@=index":
        return hidden | LABELS
    if name == "@=columns":
        return EVERY if has_pointers(call.arguments[1]) else hidden & (ROWS | LABELS)
    if name in (".squeeze_", "torch.squeeze_"):
        return arrays.squeezed(call)
    if name in TURNING:
        # an axis that depends on the data decides which length is where
        return EVERY if hidden or has_pointers((*call.arguments[1:], call.keywords)) else PUBLIC
    return hidden


NAMING = frozenset({"operator.delitem", ".insert", ".pop"})
TURNING = frozenset({".unsqueeze_", ".t_", ".transpose_", ".swapaxes_", ".swapdims_"})


def rows_after(location: Any, table_hidden: int, key: Any) -> int:
    """Return the mask of a table after `table.loc[key] = value`: a new label adds a row."""
    target = location.obj
    if type(location).__name__ in ("_iLocIndexer", "_iAtIndexer"):
        return table_hidden
    ndim = ndim_of(target)
    by_row, by_column = key if type(key) is tuple and len(key) == 2 and ndim == 2 else (key, None)
    if has_pointers(by_column):
        table_hidden |= COLUMNS
    if type(by_row) is slice or _is_boolean(by_row):
        return table_hidden
    if is_counted(target, table_hidden) and not has_pointers(by_row):
        return table_hidden | LABELS
    return table_hidden | (ROWS if ndim == 2 else 1)
