"""The step that makes a column for each category."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Self

from duetlink.data.prep.base import ERROR, IGNORE, Step, listed, unless
from duetlink.data.prep.checks import MAX_CATEGORIES, choice, column_name, settle, short_text
from duetlink.data.prep.fields import BOOL, INTEGERS, TEXT, Field, Fields, field_of, typed_field
from duetlink.errors import PrepError, SettingError

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work

Category = str | int | bool

_KINDS = {str: (TEXT,), int: INTEGERS, bool: (BOOL,)}


@dataclass(frozen=True, slots=True)
class OneHot(Step):
    """Replace a column by one per category, `column=category`, int8: 1 for items of that category, else 0.

    A missing item has 0 in all of them. So has an unknown one with `unknown="ignore"`. `categories` is None
    while `fit_private` must still find them.
    """

    column: str
    categories: tuple[Category, ...] | None = None
    unknown: str = ERROR
    name: ClassVar[str] = "one_hot"

    def __post_init__(self) -> None:
        column_name(self.column)
        choice(self.unknown, (ERROR, IGNORE), "unknown")
        if self.categories is None:
            if self.unknown != IGNORE:
                raise SettingError(
                    f"one_hot of {self.column!r} takes its categories, which are public; or unknown='ignore' "
                    "alone, and fit_private finds those that are not rare"
                )
            return
        if isinstance(self.categories, str) or not isinstance(self.categories, Sequence):
            raise SettingError(f"the categories of {self.column!r} are a list")
        found = tuple(self.categories)
        if not 1 <= len(found) <= MAX_CATEGORIES:
            raise SettingError(f"there are {len(found):,} categories; there may be 1 to {MAX_CATEGORIES:,}")
        kinds = {type(category) for category in found}
        if len(kinds) != 1 or not kinds <= set(_KINDS):
            raise SettingError(
                f"the categories of {self.column!r} are all texts, all whole numbers or all truth values"
            )
        for category in found:
            check_category(category)
        if len(set(found)) != len(found):
            raise SettingError(f"a category of {self.column!r} occurs twice")
        settle(self, "categories", found)

    @property
    def changes(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def strict(self) -> bool:
        return self.unknown == ERROR

    @property
    def open_column(self) -> str:
        return self.column if self.categories is None else ""

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the columns that the step makes."""
        return tuple(f"{self.column}={_shown(category)}" for category in self.categories or ())

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        if self.categories is None:
            field_of(fields, self.column, where)
            raise PrepError(
                f"the categories of {self.column!r} are open: let fit_private find them, or list them",
                file=where,
                column=self.column,
            )
        typed_field(fields, self.column, _KINDS[type(self.categories[0])], self.name, where)
        found: dict[str, Field] = {}
        for name, other in fields.items():
            if name != self.column:
                found[name] = other
                continue
            for made in self.columns:
                if made in fields or made in found:
                    raise PrepError(f"{where} has a column {made!r} already", file=where, column=made)
                found[made] = Field("int8", nullable=False)
        return found

    def lower(self, work: Work) -> None:
        import narwhals as nw

        assert self.categories is not None
        column = work.column(self.column)
        if work.fields[self.column].type in INTEGERS:
            column = column.cast(nw.Int64)
        if self.strict:
            work.check([(~column.is_in(self.categories)).fill_null(False)])
        made = {
            name: (column == category).fill_null(False).cast(nw.Int8)
            for category, name in zip(self.categories, self.columns, strict=True)
        }
        work.replace(self.column, made)

    def blame(self, number: int) -> tuple[str, str]:
        what = "has an item in no declared category: declare it, or one_hot with unknown='ignore'"
        return self.column, what

    def arguments(self) -> list[str]:
        categories = [] if self.categories is None else [listed(self.categories)]
        return [ascii(self.column), *categories, *unless(self.unknown, ERROR, "unknown")]

    def closed(self, kind: str) -> Self:
        """Return an open step with a single placeholder category of that type."""
        category: Any = "?" if kind == TEXT else True if kind == BOOL else 0
        return replace(self, categories=(category,))


def check_category(category: Category) -> None:
    """Raise SettingError if a category is too long or too large, or has control characters."""
    if isinstance(category, str):
        short_text(category, "a category")
    elif not -(2**63) <= category < 2**63:
        raise SettingError(f"the category {category} does not fit into 64 bits")


def _shown(category: Category) -> str:
    return str(category).lower() if isinstance(category, bool) else str(category)
