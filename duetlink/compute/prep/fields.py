"""What a preparation does to the types of columns: known before any row is read, the same on every engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from duetlink.compute.prep.spec import PrepSpec
from duetlink.compute.prep.steps import (
    FLOATS,
    INTEGERS,
    MISSING,
    NUMBERS,
    TRAIN,
    Bounded,
    Cast,
    Clip,
    DropMissing,
    OneHot,
    Scale,
    Select,
    Split,
    Step,
)
from duetlink.compute.prep.steps import Missing as MissingTexts
from duetlink.errors import PrepError

BOOL, TEXT, DATE, DATETIME, OTHER = "bool", "text", "date", "datetime", "other"

# Floating point numbers as text differ from engine to engine: in their digits, and in how zeros are written.
_CASTS: Mapping[str, tuple[str, ...]] = {
    BOOL: (BOOL, *INTEGERS, *FLOATS, TEXT),
    **dict.fromkeys(INTEGERS, (BOOL, *INTEGERS, *FLOATS, TEXT)),
    **dict.fromkeys(FLOATS, (BOOL, *INTEGERS, *FLOATS)),
    TEXT: (BOOL, *INTEGERS, *FLOATS, TEXT, DATE),
    DATE: (DATE, "int32", "int64", *FLOATS, TEXT),
    DATETIME: (DATE,),
    OTHER: (),
}
_OF_CATEGORIES = {str: (TEXT,), int: INTEGERS, bool: (BOOL,)}


@dataclass(frozen=True, slots=True)
class Field:
    """A column's type, and whether items of it may be missing."""

    type: str
    nullable: bool = True


Fields = Mapping[str, Field]


def fields_after(spec: PrepSpec, fields: Fields, where: str = "the table") -> dict[str, Field]:
    """The columns that a preparation makes of those of a source. Raises PrepError."""
    found = dict(fields)
    for step in spec.steps:
        found = after(step, found, where)
    return with_split(spec, found, where)


def with_split(spec: PrepSpec, fields: Fields, where: str) -> dict[str, Field]:
    """The columns with that of the split, if there is one. Raises PrepError."""
    if spec.split_step is None:
        return dict(fields)
    if TRAIN in fields:
        raise PrepError(
            f"{where} has a column {TRAIN!r}, which is what split makes; select the others, or rename it",
            file=where,
            column=TRAIN,
        )
    return {**fields, TRAIN: Field(BOOL, nullable=False)}


def after(step: Step, fields: Fields, where: str) -> dict[str, Field]:
    """The columns after a step. `where` names the source for a person.

    Raises:
        PrepError: a column is not there, or of a type that the step is not for.
    """
    found = dict(fields)
    if isinstance(step, MissingTexts):
        for name in step.columns:
            _check(step, name, field_of(found, name, where), (TEXT,), where)
        for name in step.columns or [name for name, field in found.items() if field.type == TEXT]:
            found[name] = replace(found[name], nullable=True)
    elif isinstance(step, DropMissing):
        for name in step.columns or tuple(found):
            found[name] = replace(field_of(found, name, where), nullable=False)
    elif isinstance(step, Cast):
        for name, kind in step.types:
            found[name] = _cast(step, name, field_of(found, name, where), kind, where)
    elif isinstance(step, Select):
        found = {name: field_of(found, name, where) for name in step.columns}
    elif isinstance(step, OneHot):
        found = _one_hot(step, found, where)
    elif isinstance(step, Bounded):
        found[step.column] = _bounded(step, field_of(found, step.column, where), where)
    elif isinstance(step, Split) and step.by:
        _check(step, step.by, field_of(found, step.by, where), INTEGERS, where)
    return found


def field_of(fields: Fields, name: str, where: str) -> Field:
    """Raises PrepError: there is no such column."""
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


def needed(spec: PrepSpec, fields: Fields, where: str) -> list[str]:
    """The columns of the source that matter, in its order; the others need not be read. Raises PrepError."""
    named: set[str] = set()
    for step in spec.steps:
        if isinstance(step, DropMissing) and not step.columns:
            return list(fields)
        named |= {name for name in names_of(step) if name in fields}
        if isinstance(step, Select):
            return [name for name in fields if name in named]
    return list(fields)


def names_of(step: Step) -> tuple[str, ...]:
    """The columns that a step names."""
    if isinstance(step, Cast):
        return tuple(name for name, _ in step.types)
    if isinstance(step, OneHot | Bounded):
        return (step.column,)
    if isinstance(step, Split):
        return (step.by,) if step.by else ()
    return step.columns if isinstance(step, MissingTexts | DropMissing | Select) else ()


def range_of(kind: str) -> tuple[int, int]:
    """The lowest and the highest whole number of a type."""
    bits = int(kind.lstrip("uint"))
    return (0, 2**bits - 1) if kind[0] == "u" else (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)


def always_fits(before: str, kind: str) -> bool:
    """Whether each item of a type is one of another."""
    if before in (kind, BOOL) or (kind == BOOL and before != TEXT) or kind == TEXT:
        return True
    if before in INTEGERS and kind in INTEGERS:
        low, high = range_of(kind)
        least, most = range_of(before)
        return low <= least and most <= high
    if before in INTEGERS and kind in FLOATS:
        return range_of(before)[1] < 2**53
    return (before == "float32" and kind == "float64") or before == DATETIME


def _cast(step: Cast, name: str, field: Field, kind: str, where: str) -> Field:
    if kind not in _CASTS[field.type]:
        there = ", ".join(_CASTS[field.type]) or "nothing"
        raise PrepError(
            f"column {name!r} of {where} is {field.type}, which cannot be cast to {kind}, but to {there}",
            file=where,
            column=name,
        )
    makes_missing = step.invalid == MISSING and not always_fits(field.type, kind)
    return Field(kind, field.nullable or makes_missing)


def _one_hot(step: OneHot, fields: dict[str, Field], where: str) -> dict[str, Field]:
    field = field_of(fields, step.column, where)
    if step.categories is None:
        raise PrepError(
            f"the categories of {step.column!r} are open: let fit_private find them, or list them",
            file=where,
            column=step.column,
        )
    _check(step, step.column, field, _OF_CATEGORIES[type(step.categories[0])], where)
    found: dict[str, Field] = {}
    for name, other in fields.items():
        if name != step.column:
            found[name] = other
            continue
        for made in step.columns:
            if made in fields or made in found:
                raise PrepError(f"{where} has a column {made!r} already", file=where, column=made)
            found[made] = Field("int8", nullable=False)
    return found


def _bounded(step: Bounded, field: Field, where: str) -> Field:
    _check(step, step.column, field, NUMBERS, where)
    if step.bounds is None:
        raise PrepError(
            f"the bounds of {step.column!r} are open: let fit_private find them, or give bounds=",
            file=where,
            column=step.column,
        )
    if isinstance(step, Scale):
        return Field("float64", field.nullable)
    assert isinstance(step, Clip)
    if field.type in INTEGERS:
        low, high = step.bounds
        least, most = range_of(field.type)
        if not (isinstance(low, int) and isinstance(high, int)):
            raise PrepError(
                f"column {step.column!r} of {where} has whole numbers, and its bounds are ({low}, {high}): "
                "give whole bounds, or cast it to float64 before",
                file=where,
                column=step.column,
            )
        if high < least or low > most:
            raise PrepError(
                f"no {field.type} is between {low} and {high}: cast column {step.column!r} of {where} before",
                file=where,
                column=step.column,
            )
    return field


def _check(step: Step, name: str, field: Field, kinds: tuple[str, ...], where: str) -> None:
    if field.type not in kinds:
        raise PrepError(
            f"column {name!r} of {where} is {field.type}, and {step.name} takes {', '.join(kinds)}: cast it "
            "before",
            file=where,
            column=name,
        )
