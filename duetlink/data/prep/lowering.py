"""A preparation as Narwhals expressions: written once, run by whatever engine a frame is of.

Theory. Engines differ where items are missing, are NaN, or do not fit, and in division, rounding and reading
numbers. So NaN becomes missing first; what would not fit is taken out before it is converted, so that no
engine has to decide; text is recognised by a regular expression before an engine parses it; and no expression
uses `//`, `floor` or a remainder of negative numbers.

An item that may end the run (`invalid="error"`, `unknown="error"`) does not raise in the engine. Its row gets
the number of the step in the column BAD and is kept, so that one pass does the work and finds what is wrong.
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
    """What to do to a frame whose columns have inner names."""

    stages: tuple[Stage, ...]
    fields: Fields  # of the result, by the names that a person gave
    strict: bool  # whether the result has BAD, behind all others

    def apply(self, frame: Frame) -> Frame:
        """The result; its columns are `fields`, in order, under inner names, then BAD if `strict`, then ROW
        if the frame has it and `keep_row` was asked for.
        """
        for stage in self.stages:
            frame = stage(frame)
        return frame


def lowered(
    spec: PrepSpec, fields: Fields, where: str, *, row: bool, keep_row: bool = False, blame: int = 0
) -> Lowered:
    """What a preparation does to a source with these columns, in this order.

    `row`: the frame has the column ROW. With `blame` it ends with the step of that number, and BAD is the
    place of the check of that step, from 1, that is violated.

    Raises:
        PrepError: a column is not there or of another type; or split needs a column of keys.
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
    """What finds the first row with an item that does not fit step `number`, from 1: that row, of BAD, and of
    ROW if the frame is `ordered` and has it.
    """
    found = lowered(spec, fields, where, row=ordered, keep_row=ordered, blame=number)
    names = [BAD, *([ROW] if ordered else [])]

    def first(frame: Frame) -> Frame:
        bad = frame.filter(nw.col(BAD) > 0)
        return (bad.sort(ROW) if ordered else bad).head(1).select(*names)

    return Lowered((*found.stages, first), {}, strict=True)


def blamed(spec: PrepSpec, number: int, bad: Mapping[str, Any], where: str, row: int | None) -> PrepError:
    """The error for the row `bad` that `first_unfit` found; it is `row` of `where`, if that can be known."""
    step = spec.steps[number - 1]
    column, what = step.blame(bad[BAD])
    at = f"row {row:,}" if row is not None else "a row (whose number is not known: the source has no order)"
    return PrepError(
        f"{at} of {where}, column {column!r}, {what} (step {number}, {step.name})",
        file=where,
        row=row,
        column=column,
    )
