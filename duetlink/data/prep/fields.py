"""The types of columns that preparations know: the same on every engine."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from duetlink.errors import PrepError

INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float32", "float64")
NUMBERS = (*INTEGERS, *FLOATS)
BOOL, TEXT, DATE, DATETIME, OTHER = "bool", "text", "date", "datetime", "other"

TRAIN = "train"  # the column that a split adds
# Integers up to this magnitude are exact in float64.
EXACT = 2**53
MOST_FLOAT32 = 3.4028234663852886e38


@dataclass(frozen=True, slots=True)
class Field:
    """A column's type. `nullable` says that its items may be missing."""

    type: str
    nullable: bool = True


Fields = Mapping[str, Field]


def field_of(fields: Fields, name: str, where: str) -> Field:
    """Return the field of a column; raise PrepError if it does not exist."""
    try:
        return fields[name]
    except KeyError:
        names = [ascii(there) for there in fields]
        shown = ", ".join(names[:20]) + (f" and {len(names) - 20:,} more" if len(names) > 20 else "")
        raise PrepError(
            f"{where} has no column {name!r} at that step; it has {shown or 'no columns'}",
            file=where,
            column=name,
        ) from None


def typed_field(fields: Fields, name: str, kinds: Sequence[str], step: str, where: str) -> Field:
    """Return the field of a column; raise PrepError unless `step` accepts its type, one of `kinds`."""
    field = field_of(fields, name, where)
    if field.type not in kinds:
        raise PrepError(
            f"column {name!r} of {where} is {field.type}, and {step} takes {', '.join(kinds)}: cast it "
            "before",
            file=where,
            column=name,
        )
    return field


def range_of(kind: str) -> tuple[int, int]:
    """Return the lowest and the highest integer of a type."""
    bits = int(kind.lstrip("uint"))
    return (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def always_fits(before: str, kind: str) -> bool:
    """Return True if every item of type `before` is representable as `kind`."""
    if before in (kind, BOOL) or (kind == BOOL and before != TEXT) or kind == TEXT:
        return True
    if before in INTEGERS and kind in INTEGERS:
        low, high = range_of(kind)
        least, most = range_of(before)
        return low <= least and most <= high
    if before in INTEGERS and kind in FLOATS:
        return range_of(before)[1] < EXACT
    return (before == "float32" and kind == "float64") or before == DATETIME
