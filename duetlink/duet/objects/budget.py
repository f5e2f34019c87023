"""The privacy budget of an asset, and the public facts about its values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation

from duetlink.compute.privacy.statistic import checked_bounds
from duetlink.compute.privacy.table import Table
from duetlink.errors import SettingError

Bounds = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Budget:
    """A budget for private statistics of an asset: the peer gets them without a request until they have cost
    `epsilon` in all.

    `bounds` are the smallest and largest possible item, from public knowledge and not from the data: two
    numbers for an array or a series, a dict of such pairs by column for a frame. Items are clamped to them. A
    person has at most `rows_per_person` rows. The statistics are epsilon-differentially private (pure) for
    adding or removing one row: a smaller epsilon protects more, by more noise.

    Raises:
        SettingError: a field cannot be used.
    """

    epsilon: float | str | Decimal
    bounds: Bounds | Mapping[str, Bounds] | None = None
    rows_per_person: int = 1

    def __post_init__(self) -> None:
        if isinstance(self.bounds, Mapping):
            object.__setattr__(
                self, "bounds", {str(name): checked_bounds(bounds) for name, bounds in self.bounds.items()}
            )
        elif self.bounds is not None:
            object.__setattr__(self, "bounds", checked_bounds(self.bounds))
        if not self.total >= 0:
            raise SettingError(f"epsilon is a number from 0 on, got {self.epsilon!r}")
        if type(self.rows_per_person) is not int or self.rows_per_person < 1:
            raise SettingError(f"rows_per_person is a whole number from 1 on, got {self.rows_per_person!r}")

    @property
    def total(self) -> Decimal:
        """Epsilon as an exact decimal."""
        try:
            return Decimal(str(self.epsilon))
        except InvalidOperation:
            raise SettingError(f"epsilon is a number, got {self.epsilon!r}") from None

    def bounds_of(self, column: str | None) -> Bounds | None:
        """Return the bounds of a column, or of the whole asset; None if there are none."""
        if isinstance(self.bounds, Mapping):
            return self.bounds.get(column) if column is not None else None
        return self.bounds


@dataclass(frozen=True, slots=True)
class BudgetedAsset:
    """The budget of an asset, with its schema and its number of rows when it was shared."""

    budget: Budget
    table: Table
    rows: int  # number of rows when it was shared
