"""What a step of a preparation is: a frozen value, checked once when it is made.

Theory. Each step works on one row at a time, whatever the other rows are. What it needs to know of all rows,
such as bounds and categories, is declared in it, since a statistic of private data is a release.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar, Self

from duetlink.data.prep.fields import Field, Fields

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work

ERROR, MISSING, IGNORE = "error", "missing", "ignore"


@dataclass(frozen=True, slots=True)
class Step(ABC):
    """One step. Its fields are those of its JSON: texts, numbers, and tuples of them; None is left out."""

    name: ClassVar[str]  # of the method that adds it, and in the JSON
    narrows: ClassVar[bool] = False  # whether what it does not read is gone after it
    drops_rows: ClassVar[bool] = False

    @abstractmethod
    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        """The columns after it. `where` names the source for a person.

        Raises:
            PrepError: a column is not there, or of a type that the step is not for.
        """

    @abstractmethod
    def lower(self, work: Work) -> None:
        """Do it to the columns in `work`, whose fields are those before it."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """Python of the arguments of the method that adds it; texts are escaped."""

    @property
    def changes(self) -> tuple[str, ...]:
        """The columns whose items it may change."""
        return ()

    def reads(self, fields: Fields) -> Iterable[str]:
        """The columns that it names, where a table has these."""
        return self.changes

    @property
    def strict(self) -> bool:
        """Whether an item can end the run: its `lower` checks items."""
        return False

    def blame(self, place: int) -> tuple[str, str]:
        """Of a strict step: the column of its check number `place`, from 1, and what is wrong there."""
        raise AssertionError(f"{self.name} checks no item")

    @property
    def row_stable(self) -> bool:
        """Nothing about a row depends on other rows, nor can it fail."""
        return not self.strict

    @property
    def open_column(self) -> str:
        """The column whose bounds or categories `fit_private` has still to find; empty: none."""
        return ""

    def closed(self, kind: str) -> Self:
        """Of one with an open column, of that type: what it may become, with the widest effect."""
        return self


def listed(items: Iterable[object]) -> str:
    """Python of a list."""
    return f"[{', '.join(map(ascii, items))}]"


def unless(value: str, default: str, name: str) -> list[str]:
    """A keyword, unless it has its default."""
    return [] if value == default else [f"{name}={value!a}"]
