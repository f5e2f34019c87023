"""The step that keeps some columns, in an order."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from duetlink.data.prep.base import Step
from duetlink.data.prep.checks import column_names, settle
from duetlink.data.prep.fields import Field, Fields, field_of

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work


@dataclass(frozen=True, slots=True)
class Select(Step):
    """Keep these columns, in this order."""

    columns: tuple[str, ...]
    name: ClassVar[str] = "select"
    narrows: ClassVar[bool] = True

    def __post_init__(self) -> None:
        settle(self, "columns", column_names(self.columns))

    def reads(self, fields: Fields) -> Iterable[str]:
        return self.columns

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        return {name: field_of(fields, name, where) for name in self.columns}

    def lower(self, work: Work) -> None:
        work.at = {name: work.at[name] for name in self.columns}

    def arguments(self) -> list[str]:
        return list(map(ascii, self.columns))
