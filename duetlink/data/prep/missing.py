"""The step that marks texts as missing."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar

from duetlink.data.prep.base import Step, listed
from duetlink.data.prep.checks import MAX_CATEGORIES, column_names, distinct_texts, settle
from duetlink.data.prep.fields import TEXT, Field, Fields, typed_field

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work


@dataclass(frozen=True, slots=True)
class Missing(Step):
    """Mark texts such as NA as missing. Without `columns`, in all columns of texts."""

    values: tuple[str, ...]
    columns: tuple[str, ...] = ()
    name: ClassVar[str] = "missing"

    def __post_init__(self) -> None:
        settle(self, "values", distinct_texts(self.values, "texts that mean missing", most=MAX_CATEGORIES))
        settle(self, "columns", column_names(self.columns, fewest=0))

    @property
    def changes(self) -> tuple[str, ...]:
        return self.columns

    def _found(self, fields: Fields) -> list[str]:
        return list(self.columns) or [name for name, field in fields.items() if field.type == TEXT]

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        found = dict(fields)
        for name in self._found(fields):
            found[name] = replace(typed_field(fields, name, (TEXT,), self.name, where), nullable=True)
        return found

    def lower(self, work: Work) -> None:
        import narwhals as nw

        for name in self._found(work.fields):
            column = work.column(name)
            work.set(name, nw.when(~column.is_in(self.values)).then(column))

    def arguments(self) -> list[str]:
        return [*map(ascii, self.values), *([f"columns={listed(self.columns)}"] if self.columns else [])]
