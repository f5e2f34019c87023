"""The step that scales numbers to the range 0 to 1."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from duetlink.data.prep.bounded import Bounded, between
from duetlink.data.prep.fields import EXACT, INTEGERS, Field, Fields

if TYPE_CHECKING:
    from duetlink.data.prep.work import Work


@dataclass(frozen=True, slots=True)
class Scale(Bounded):
    """Scale to float64 from 0 at the lower bound to 1 at the upper one; items beyond them become 0 or 1."""

    name: ClassVar[str] = "scale"

    def after(self, fields: Fields, where: str) -> dict[str, Field]:
        return {**fields, self.column: Field("float64", self.field_before(fields, where).nullable)}

    def lower(self, work: Work) -> None:
        import narwhals as nw

        low, high = self.declared
        column = work.column(self.column)
        first, last = float(low), float(high)
        if work.fields[self.column].type in INTEGERS:
            # within EXACT, so that no engine rounds or refuses
            least, most = max(math.floor(low), -EXACT), min(math.ceil(high), EXACT)
            column = column.cast(nw.Int64).clip(least, most).cast(nw.Float64)
            if (least, most) != (first, last):
                column = between(column, first, last)
        else:
            column = between(column.cast(nw.Float64), first, last)
        # multiplies by the reciprocal, as Polars divides by a constant; a division would round differently
        column = column * (1.0 / last) if first == 0 else (column - first) * (1.0 / (last - first))
        work.set(self.column, column)
