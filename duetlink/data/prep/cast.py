"""The step that gives columns another type."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from duetlink.data.prep.base import ERROR, MISSING, Step, unless
from duetlink.data.prep.checks import choice, column_names, settle
from duetlink.data.prep.fields import (
    BOOL,
    DATE,
    DATETIME,
    FLOATS,
    INTEGERS,
    OTHER,
    TEXT,
    Field,
    Fields,
    always_fits,
    field_of,
)
from duetlink.errors import PrepError, SettingError

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work

CASTS = (BOOL, "int8", "int16", "int32", "int64", *FLOATS, TEXT, DATE)
# Floats are never cast to text: engines write digits and zeros differently.
_TO: Mapping[str, tuple[str, ...]] = {
    BOOL: (BOOL, *INTEGERS, *FLOATS, TEXT),
    **dict.fromkeys(INTEGERS, (BOOL, *INTEGERS, *FLOATS, TEXT)),
    **dict.fromkeys(FLOATS, (BOOL, *INTEGERS, *FLOATS)),
    TEXT: (BOOL, *INTEGERS, *FLOATS, TEXT, DATE),
    DATE: (DATE, "int32", "int64", *FLOATS, TEXT),
    DATETIME: (DATE,),
    OTHER: (),
}


@dataclass(frozen=True, slots=True)
class Cast(Step):
    """Give columns another type, one of CASTS. An item that does not fit is an error, or becomes missing."""

    types: tuple[tuple[str, str], ...]
    invalid: str = ERROR
    name: ClassVar[str] = "cast"

    def __post_init__(self) -> None:
        if not isinstance(self.types, Sequence) or not all(
            isinstance(pair, Sequence) and len(pair) == 2 for pair in self.types
        ):
            raise SettingError('cast takes types by column, such as cast({"age": "int64"})')
        column_names(self.changes)
        for name, kind in self.types:
            if kind not in CASTS:
                raise SettingError(f"{name!r} cannot be cast to {kind!r}; there are {', '.join(CASTS)}")
        settle(self, "types", tuple((name, kind) for name, kind in self.types))
        choice(self.invalid, (ERROR, MISSING), "invalid")

    @property
    def changes(self) -> tuple[str, ...]:
        return tuple(name for name, _ in self.types)

    @property
    def strict(self) -> bool:
        return self.invalid == ERROR

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        found = dict(fields)
        for name, kind in self.types:
            field = field_of(fields, name, where)
            if kind not in _TO[field.type]:
                there = ", ".join(_TO[field.type]) or "nothing"
                raise PrepError(
                    f"column {name!r} of {where} is {field.type}, which cannot be cast to {kind}, but to "
                    f"{there}",
                    file=where,
                    column=name,
                )
            makes_missing = not self.strict and not always_fits(field.type, kind)
            found[name] = Field(kind, field.nullable or makes_missing)
        return found

    def lower(self, work: Work) -> None:
        import narwhals as nw

        from duetlink.data.prep.conversion import converted

        violated, columns = [], [work.column(name) for name in self.changes]
        for column, (name, kind) in zip(columns, self.types, strict=True):
            value, fits = converted(column, work.fields[name].type, kind)
            work.set(name, value)
            violated.append(
                (~fits & ~column.is_null()).fill_null(False) if fits is not None else nw.lit(False)
            )
        if self.strict:
            work.check(violated)

    def blame(self, number: int) -> tuple[str, str]:
        column, kind = self.types[number - 1]
        return column, f"has an item that is no {kind}: mend it, or cast with invalid='missing'"

    def arguments(self) -> list[str]:
        types = ", ".join(f"{name!a}: {kind!r}" for name, kind in self.types)
        return [f"{{{types}}}", *unless(self.invalid, ERROR, "invalid")]
