"""The contract of a step: a frozen value that is checked once, when it is made.

Theory. Each step works on one row at a time, independently of the other rows. Facts about all rows, such as
bounds and categories, are declared in it, since a statistic of private data is a release.
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

    name: ClassVar[str]  # the name of the method that adds it, and its name in the JSON
    narrows: ClassVar[bool] = False  # True if columns that it does not read are dropped
    drops_rows: ClassVar[bool] = False

    @abstractmethod
    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        """Return the columns after this step. `where` names the source in error messages.

        Raises:
            PrepError: a column is missing, or the step does not accept its type.
        """

    @abstractmethod
    def lower(self, work: Work) -> None:
        """Apply the step to the columns in `work`, whose fields are those before it."""

    @abstractmethod
    def arguments(self) -> list[str]:
        """Return the arguments of the method that adds the step, as Python source; texts are escaped."""

    @property
    def changes(self) -> tuple[str, ...]:
        """The columns whose items the step may change."""
        return ()

    def reads(self, fields: Fields) -> Iterable[str]:
        """Return the columns that the step names, for a table with these fields."""
        return self.changes

    @property
    def strict(self) -> bool:
        """True if an item can end the run: `lower` then calls `work.check`."""
        return False

    def blame(self, number: int) -> tuple[str, str]:
        """Return the column of the strict step's check `number`, from 1, and a description of the error."""
        raise AssertionError(f"{self.name} checks no item")

    @property
    def row_stable(self) -> bool:
        """True if the step treats each row independently of the others and cannot fail."""
        return not self.strict

    @property
    def open_column(self) -> str:
        """The column whose bounds or categories `fit_private` must still find; empty if there is none."""
        return ""

    def closed(self, kind: str) -> Self:
        """Return a step with an open column, of type `kind`, in the form with the widest effect."""
        return self


def listed(items: Iterable[object]) -> str:
    """Return the Python source of a list."""
    return f"[{', '.join(map(ascii, items))}]"


def unless(value: str, default: str, name: str) -> list[str]:
    """Return a keyword argument as Python source, or nothing if it has its default value."""
    return [] if value == default else [f"{name}={value!a}"]
