"""The step that limits numbers to two bounds."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from duetlink.data.prep.bounded import Bounded, between
from duetlink.data.prep.fields import INTEGERS, MOST_FLOAT32, Field, Fields, range_of
from duetlink.errors import PrepError

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work


@dataclass(frozen=True, slots=True)
class Clip(Bounded):
    """Replace items beyond a bound by the bound.

    The type stays: integers need integer bounds, and for float32 the bounds are limited to its range.
    """

    name: ClassVar[str] = "clip"

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        kind = self.field_before(fields, where).type
        if kind in INTEGERS:
            low, high = self.declared
            least, most = range_of(kind)
            if not (isinstance(low, int) and isinstance(high, int)):
                raise PrepError(
                    f"column {self.column!r} of {where} has whole numbers, and its bounds are "
                    f"({low}, {high}): give whole bounds, or cast it to float64 before",
                    file=where,
                    column=self.column,
                )
            if high < least or low > most:
                raise PrepError(
                    f"no {kind} is between {low} and {high}: cast column {self.column!r} of {where} before",
                    file=where,
                    column=self.column,
                )
        return dict(fields)

    def lower(self, work: Work) -> None:
        import narwhals as nw

        from duetlink.data.prep.work import TYPES

        low, high = self.declared
        kind, column = work.fields[self.column].type, work.column(self.column)
        if kind in INTEGERS:
            column = column.cast(nw.Int64).clip(low, high)
        else:
            most = MOST_FLOAT32 if kind == "float32" else math.inf
            low, high = (min(max(float(bound), -most), most) for bound in (low, high))
            column = between(column.cast(nw.Float64), low, high)
        work.set(self.column, column.cast(TYPES[kind]))
