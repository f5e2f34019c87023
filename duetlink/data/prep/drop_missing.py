"""The step that drops rows with missing items."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from duetlink.data.prep.base import Step
from duetlink.data.prep.checks import column_names, settle
from duetlink.data.prep.fields import Field, Fields, field_of

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work


@dataclass(frozen=True, slots=True)
class DropMissing(Step):
    """Drop the rows in which one of `columns` is missing; if none are named, one of all columns."""

    columns: tuple[str, ...] = ()
    name: ClassVar[str] = "drop_missing"
    drops_rows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, "columns", column_names(self.columns, fewest=0))

    def reads(self, fields: Fields) -> Iterable[str]:
        return self.columns or fields

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        found = dict(fields)
        for name in self.reads(fields):
            found[name] = replace(field_of(fields, name, where), nullable=False)
        return found

    def lower(self, work: Work) -> None:
        names = [name for name in self.reads(work.fields) if work.fields[name].nullable]
        work.keep_rows([~work.column(name).is_null() for name in names])

    def arguments(self) -> list[str]:
        return list(map(ascii, self.columns))
