"""Which item it was that does not fit: the first row, and the column."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import narwhals as nw

from duetlink.compute.prep.fields import Fields
from duetlink.compute.prep.lowering import BAD, ROW, lowered
from duetlink.compute.prep.spec import PrepSpec
from duetlink.compute.prep.steps import Cast, OneHot
from duetlink.errors import PrepError


def blamed(
    spec: PrepSpec,
    number: int,
    fields: Fields,
    where: str,
    first: Callable[[Callable[[Any], Any]], dict[str, Any]],
    *,
    ordered: bool = True,
    place: Callable[[int], tuple[str, int]] | None = None,
) -> PrepError:
    """The error for step `number`, from 1, of which an item does not fit.

    `first(prepare)` applies a function to a frame of the source, which has ROW if it is `ordered`, or to one
    piece of it after the other, and gives the first row that comes out. `place(row)` is the file with that
    row of the source, and its number there.
    """
    blaming = lowered(spec, fields, where, row=ordered, keep_row=ordered, blame=number)

    def unfit(frame: Any) -> Any:
        found = blaming.apply(frame).filter(nw.col(BAD) > 0)
        return (found.sort(ROW) if ordered else found).head(1).select(BAD, *([ROW] if ordered else []))

    bad = first(unfit)
    step, row = spec.steps[number - 1], bad.get(ROW)
    if row is not None and place is not None:
        where, row = place(row)
    at = f"row {row:,}" if row is not None else "a row (whose number is not known: the source has no order)"
    if isinstance(step, Cast):
        column, kind = step.types[bad[BAD] - 1]
        what = f"has an item that is no {kind}: mend it, or cast with invalid='missing'"
    else:
        assert isinstance(step, OneHot)
        column = step.column
        what = "has an item in no declared category: declare it, or one_hot with unknown='ignore'"
    return PrepError(
        f"{at} of {where}, column {column!r}, {what} (step {number}, {step.name})",
        file=where,
        row=row,
        column=column,
    )
