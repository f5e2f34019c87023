"""Masks: the bits of an int say which axes of an object have a length that may depend on the data.

Theory. Every result has a mask. Bit 0 is the last axis, bit 1 the one before it, and so on, in the order in
which NumPy broadcasts: so the mask of an elementwise operation is the union of those of its operands. The
last axis of a frame is its columns. A bit that is 0 is a promise: this length is the same for any data, given
what both sides know, which is the descriptions of the assets and the constants of the program. If nothing is
known, all bits are 1. Examples: a matrix with a private number of rows has 0b10, its transpose 0b01.
"""

from __future__ import annotations

from typing import Any

PUBLIC = 0
COLUMNS = 1
ROWS = 2  # the rows of a frame; those of a series are bit 0
LENGTHS = (1 << 40) - 1  # one bit for each axis; arrays with more than 40 axes do not occur
NAMES = 1 << 40  # the names of the columns are private, whatever their number is
LABELS = 1 << 41  # the labels of the rows are private; an asset's labels are data
NESTED = 1 << 42  # the lengths of its parts are private, as those of a list of split texts
EVERY = LENGTHS | NAMES | LABELS
UNCOUNTED = -1  # even the number of axes is private, or the number of parts of a list

_LABELLED = ("pandas", "polars")
_SIZELESS = ("builtins", "datetime", "decimal")
_SIZED_BUILTINS = frozenset({str, bytes, bytearray, list, tuple, dict, set, frozenset, range})


def has_sizes(kind: type) -> bool:
    """Return True if objects of this type have a length at all; numbers, times and expressions do not."""
    if kind in _SIZED_BUILTINS:
        return True
    module = kind.__module__
    if issubclass(kind, (str, bytes)):
        return True
    if module in _SIZELESS or module.startswith(("polars.expr", "polars.datatypes")):
        return False
    return not (module == "numpy" and "generic" in {base.__name__ for base in kind.__mro__[1:]})


def trimmed(hidden: int, made: Any) -> int:
    """Return the mask without bits that a result of this type cannot have."""
    if hidden == UNCOUNTED and hasattr(made, "shape"):
        return UNCOUNTED  # the mock's result may be a number, and the owner's an array
    if hidden == PUBLIC or not has_sizes(type(made)):
        return PUBLIC
    if hidden > 0 and not type(made).__module__.startswith(_LABELLED):
        hidden &= LENGTHS | NESTED
    if isinstance(made, (str, bytes)):  # also NumPy's texts, although their ndim is 0
        return EVERY
    if hidden != UNCOUNTED and getattr(made, "ndim", None) == 0 and hasattr(made, "shape"):
        return PUBLIC
    return hidden


def is_pointer(argument: Any) -> bool:
    return hasattr(type(argument), "_is_remote")


def hidden_in(argument: Any) -> int:
    """Return the mask of an argument: the union of the masks of the pointers in it."""
    if is_pointer(argument):
        hidden: int = argument._hidden
        return PUBLIC if hidden and isinstance(argument._mock, (str, bytes)) else hidden
    if isinstance(argument, (list, tuple)):
        found = PUBLIC
        for part in argument:
            found |= hidden_in(part)
        return found
    if type(argument) is dict:
        return hidden_in(tuple(argument.values()))
    if type(argument) is slice:
        return hidden_in((argument.start, argument.stop, argument.step))
    return PUBLIC


def has_pointers(argument: Any) -> bool:
    if is_pointer(argument):
        return True
    if isinstance(argument, (list, tuple)):
        return any(map(has_pointers, argument))
    if type(argument) is dict:
        return any(map(has_pointers, argument.values())) or any(map(has_pointers, argument))
    if type(argument) is slice:
        return has_pointers((argument.start, argument.stop, argument.step))
    return False


def has_counts(argument: Any) -> bool:
    """Return True if an argument contains a private integer, which may set the length of a result."""
    if is_pointer(argument):
        mock = argument._mock
        if isinstance(mock, int):
            return not isinstance(mock, bool)
        return getattr(mock, "ndim", None) == 0 and "int" in str(getattr(mock, "dtype", ""))
    if isinstance(argument, (list, tuple)):
        return any(map(has_counts, argument))
    if type(argument) is dict:
        return any(map(has_counts, argument.values()))
    if type(argument) is slice:
        return has_pointers(argument)
    return False


def rows_hidden(hidden: int, ndim: int) -> bool:
    """Return True if the number of rows of a frame (`ndim` 2) or series (`ndim` 1) is private."""
    return bool(hidden >> (ndim - 1) & 1)


def columns_hidden(hidden: int, ndim: int) -> int:
    """Return the bits of a frame's columns; a series has none."""
    return hidden & (COLUMNS | NAMES) if ndim == 2 else PUBLIC


def table(rows: bool, columns: int, ndim: int, labels: int = LABELS) -> int:
    """Return the mask of a frame or a series."""
    if ndim == 1:
        return int(rows) | labels
    return (ROWS if rows else PUBLIC) | columns | labels
