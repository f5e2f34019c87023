"""Translate a preparation to Narwhals expressions: written once, run by any engine.

Theory. Engines differ in missing items, NaN, items that do not fit, division, rounding and parsing numbers.
So NaN becomes missing first; items that would not fit are removed before the conversion, so that no engine
has to decide; text is matched by a regular expression before an engine parses it; and no expression uses
`//`, `floor` or a remainder of negative numbers.

An item that may end the run (`invalid="error"`, `unknown="error"`) does not raise in the engine. Its row gets
the number of the step in the column BAD and is kept, so that a single pass does the work and finds the error.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import narwhals as nw

from duetlink.data.prep.columns import needed, with_train
from duetlink.data.prep.fields import Fields
from duetlink.data.prep.spec import PrepSpec
from duetlink.data.prep.work import BAD, ROW, Frame, Stage, Work
from duetlink.errors import PrepError


@dataclass(frozen=True, slots=True)
class Lowered:
    """The stages to apply to a frame whose columns have inner names."""

    stages: tuple[Stage, ...]
    fields: Fields  # of the result, by the user's names
    strict: bool  # True if the result has BAD, behind all other columns

    def apply(self, frame: Frame) -> Frame:
        """Return the result. Its columns are `fields`, in order, under inner names, then BAD if `strict`.

        ROW follows if the frame has it and `keep_row` was given.
        """
        for stage in self.stages:
            frame = stage(frame)
        return frame


def lowered(
    spec: PrepSpec, fields: Fields, where: str, *, row: bool, keep_row: bool = False, blame: int = 0
) -> Lowered:
    """Translate a preparation of a source with these columns, in this order.

    With `row` the frame has the column ROW. With `blame` only the steps up to that number run, and BAD is the
    number of the violated check of that step, from 1.

    Raises:
        PrepError: a column is missing or of another type, or split needs a column of keys.
    """
    work = Work(fields, needed(spec, fields), where, row=row, blame=blame)
    for step in spec.steps[: blame or None]:
        work.number += 1
        after = step.after(work.fields, where)
        step.lower(work)
        work.fields = after
    work.finish(keep_row=keep_row)
    made = with_train(work.fields, where) if work.split else work.fields
    return Lowered(tuple(work.stages), made, work.strict)


def first_unfit(spec: PrepSpec, number: int, fields: Fields, where: str, *, ordered: bool) -> Lowered:
    """Return stages that find the first row with an item that does not fit step `number`, from 1.

    The result is that row, with BAD, and with ROW if the frame is `ordered`.
    """
    found = lowered(spec, fields, where, row=ordered, keep_row=ordered, blame=number)
    names = [BAD, *([ROW] if ordered else [])]

    def first(frame: Frame) -> Frame:
        bad = frame.filter(nw.col(BAD) > 0)
        return (bad.sort(ROW) if ordered else bad).head(1).select(*names)

    return Lowered((*found.stages, first), {}, strict=True)


def blamed(spec: PrepSpec, number: int, bad: Mapping[str, Any], where: str, row: int | None) -> PrepError:
    """Return the error for the row `bad` of `first_unfit`; `row` is its number in `where`, if known."""
    step = spec.steps[number - 1]
    column, what = step.blame(bad[BAD])
    at = f"row {row:,}" if row is not None else "a row (whose number is not known: the source has no order)"
    return PrepError(
        f"{at} of {where}, column {column!r}, {what} (step {number}, {step.name})",
        file=where,
        row=row,
        column=column,
    )
