"""The base of `scale` and `clip`: a column of numbers with two bounds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self

from duetlink.data.prep.base import Step
from duetlink.data.prep.checks import Number, column_name, finite, settle
from duetlink.data.prep.fields import EXACT, NUMBERS, Field, Fields, typed_field
from duetlink.errors import PrepError, SettingError

Bounds = tuple[Number, Number]


@dataclass(frozen=True, slots=True)
class Bounded(Step):
    """A step with bounds. They are None while `fit_private` must still find them in `within`."""

    column: str
    bounds: Bounds | None = None
    within: Bounds | None = field(default=None, kw_only=True)

    def __post_init__(self) -> None:
        column_name(self.column)
        if (self.bounds is None) is (self.within is None):
            raise SettingError(
                f"{self.name} of {self.column!r} takes bounds=(lowest, highest), which are public; or "
                "within=(lowest, highest), in which fit_private finds bounds"
            )
        for what in ("bounds", "within"):
            if (given := getattr(self, what)) is not None:
                settle(self, what, _bounds(given, self.column))

    @property
    def changes(self) -> tuple[str, ...]:
        return (self.column,)

    @property
    def open_column(self) -> str:
        return self.column if self.bounds is None else ""

    @property
    def declared(self) -> Bounds:
        """The bounds of a step that is not open."""
        assert self.bounds is not None
        return self.bounds

    def field_before(self, fields: Fields, where: str) -> Field:
        """Return the column's field.

        Raises:
            PrepError: the column does not exist or has no numbers, or its bounds are open.
        """
        found = typed_field(fields, self.column, NUMBERS, self.name, where)
        if self.bounds is None:
            raise PrepError(
                f"the bounds of {self.column!r} are open: let fit_private find them, or give bounds=",
                file=where,
                column=self.column,
            )
        return found

    def arguments(self) -> list[str]:
        what = "within" if self.bounds is None else "bounds"
        return [ascii(self.column), f"{what}={self.bounds or self.within}"]

    def closed(self, kind: str) -> Self:
        """Return an open step with the widest bounds that it may get."""
        return replace(self, bounds=self.within, within=None)


def between(column: Any, low: float, high: float) -> Any:
    """Clip floating point numbers to the bounds.

    The engines' own `clip` is not used: they differ in whether -0.0 is below 0.
    """
    import narwhals as nw

    beyond = nw.when(column > high).then(nw.lit(high, nw.Float64)).otherwise(column)
    return nw.when(column < low).then(nw.lit(low, nw.Float64)).otherwise(beyond)


def _bounds(bounds: Any, column: str) -> Bounds:
    if isinstance(bounds, str) or not isinstance(bounds, Sequence) or len(bounds) != 2:
        raise SettingError(f"the bounds of {column!r} are two numbers: (lowest, highest)")
    low, high = (finite(bound, f"a bound of {column!r}") for bound in bounds)
    if not max(abs(low), abs(high)) <= (EXACT if isinstance(low, int) and isinstance(high, int) else 1e300):
        raise SettingError(f"the bounds of {column!r}, {low} to {high}, are too far from 0")
    if not low < high:
        raise SettingError(f"the bounds of {column!r} are ({low}, {high}): give the lowest, then the highest")
    if float(high) - float(low) < 1e-300:
        raise SettingError(f"the bounds of {column!r}, {low} to {high}, leave no room")
    return _plain(low), _plain(high)


def _plain(bound: Number) -> Number:
    """Return 1 for 1.0, so that equal bounds are written alike."""
    return int(bound) if isinstance(bound, float) and abs(bound) <= EXACT and bound.is_integer() else bound
