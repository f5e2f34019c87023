"""Which axes of an object have a length that depends on the data, as the bits of a whole number.

Theory. Every result carries a mask. Bit 0 is the last axis, bit 1 the one before it, and so on, as NumPy
broadcasts: the mask of an elementwise operation is the union of those of its operands. The last axis of a
frame is its columns. A bit that is not set is a promise: this length is the same whatever the data are, given
what both sides know, which is the descriptions of the assets and the constants of the program. Where nothing
is known, all bits are set.
"""

from __future__ import annotations

from typing import Any

PUBLIC = 0
COLUMNS = 1
ROWS = 2  # of a frame; of a series they are bit 0
LENGTHS = (1 << 40) - 1  # NumPy has at most 64 axes, and nobody more than a handful
NAMES = 1 << 40  # what the columns are called may depend on the data, however many they are
LABELS = 1 << 41  # so may what the rows are called; an asset's labels are data
NESTED = 1 << 42  # so may the axes of its parts, as of a list of texts that were split
EVERY = LENGTHS | NAMES | LABELS
UNCOUNTED = -1  # not even the number of axes is known, or the number of parts in a list

_LABELLED = ("pandas", "polars")
_SIZELESS = ("builtins", "datetime", "decimal")
_SIZED_BUILTINS = frozenset({str, bytes, bytearray, list, tuple, dict, set, frozenset, range})


def has_sizes(kind: type) -> bool:
    """Whether objects of this type have a length at all; numbers, points in time and expressions do not."""
    if kind in _SIZED_BUILTINS:
        return True
    module = kind.__module__
    if issubclass(kind, (str, bytes)):
        return True
    if module in _SIZELESS or module.startswith(("polars.expr", "polars.datatypes")):
        return False
    return not (module == "numpy" and "generic" in {base.__name__ for base in kind.__mro__[1:]})


def trimmed(hidden: int, made: Any) -> int:
    """The mask of a result without what it cannot have."""
    if hidden == UNCOUNTED and hasattr(made, "shape"):
        return UNCOUNTED  # one number here may be an array there
    if hidden == PUBLIC or not has_sizes(type(made)):
        return PUBLIC
    if hidden > 0 and not type(made).__module__.startswith(_LABELLED):
        hidden &= LENGTHS | NESTED
    if isinstance(made, (str, bytes)):  # NumPy's as well, which say that they have no axes
        return EVERY
    if hidden != UNCOUNTED and getattr(made, "ndim", None) == 0 and hasattr(made, "shape"):
        return PUBLIC
    return hidden


def is_pointer(argument: Any) -> bool:
    return hasattr(type(argument), "_is_remote")


def hidden_in(argument: Any) -> int:
    """The mask of an argument: the union of those of the pointers in it."""
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
    """Whether there is a pointer in an argument."""
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
    """Whether there is a private whole number in an argument, which may say how long a result is."""
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
    """Whether the number of rows of a frame (two axes) or series (one) is."""
    return bool(hidden >> (ndim - 1) & 1)


def columns_hidden(hidden: int, ndim: int) -> int:
    """The bits of a frame's columns; a series has none."""
    return hidden & (COLUMNS | NAMES) if ndim == 2 else PUBLIC


def table(rows: bool, columns: int, ndim: int, labels: int = LABELS) -> int:
    """The mask of a frame or a series."""
    if ndim == 1:
        return int(rows) | labels
    return (ROWS if rows else PUBLIC) | columns | labels
