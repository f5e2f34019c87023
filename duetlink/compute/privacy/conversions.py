"""Rules for operations that convert a column to another type and keep its values; see `rules.py`."""

from __future__ import annotations

from collections.abc import Mapping

from duetlink.compute.privacy.call import ColumnOperation, Named, Unstable, kind_of
from duetlink.compute.privacy.rules import Rule
from duetlink.compute.privacy.table import (
    BOOL,
    FLOAT,
    INT,
    NARROW,
    NUMBERS,
    NUMPY,
    PANDAS,
    POLARS,
    TORCH,
    Column,
)

_TYPES: Mapping[str, Mapping[str, str]] = {
    NUMPY: {"float64": FLOAT, "float32": FLOAT, "double": FLOAT, "int64": INT},
    PANDAS: {},
    POLARS: {"Float64": FLOAT, "Int64": INT},  # it refuses numbers that Float32 cannot hold
    TORCH: {"float64": FLOAT, "float32": FLOAT, "double": FLOAT, "float": FLOAT, "int64": INT, "long": INT},
}


def cast(library: str) -> Rule:
    """Make the rule for a method that casts to the item type of the library that is its argument `dtype`."""
    names = {f"{library}.{name}": kind for name, kind in _TYPES[library].items()}
    if library in (NUMPY, PANDAS):
        names |= {place: kind for name, kind in _TYPES[NUMPY].items() for place in (name, f"numpy.{name}")}
        names |= {"builtins.float": FLOAT, "builtins.int": INT, "float": FLOAT, "int": INT}

    def to(call: ColumnOperation) -> str:
        (target,) = call.constants("dtype")
        name = target.name if isinstance(target, Named) else target
        kind = names.get(name, "") if isinstance(name, str) else ""
        before = kind_of(call.items[0])
        if not kind or before not in NUMBERS | {BOOL, NARROW} or (kind == INT and before == FLOAT):
            raise Unstable(
                "it converts numbers and truth values to float64, and whole ones to int64; floating point "
                "numbers may be NaN, which is no whole number"
            )
        return kind

    return to


def becomes(kind: str, *kinds: str) -> Rule:
    """Make the rule for a method without arguments that turns one of `kinds` into `kind`."""

    def become(call: ColumnOperation) -> str:
        call.kinds(1, frozenset(kinds))
        return kind

    return become


def to_numpy(call: ColumnOperation) -> Column:
    (column,) = call.exactly(1)
    if not isinstance(column, Column) or column.kind not in NUMBERS | {BOOL, NARROW}:
        raise Unstable("it converts numbers and truth values only")
    return Column(NUMPY, column.kind, column.rows)


def copy(call: ColumnOperation) -> str:
    return kind_of(call.exactly(1)[0])
