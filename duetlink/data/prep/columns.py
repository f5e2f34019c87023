"""The effect of a preparation on the columns of a source, known before any row is read."""

from __future__ import annotations

from duetlink.data.prep.fields import BOOL, TRAIN, Field, Fields
from duetlink.data.prep.spec import PrepSpec
from duetlink.errors import PrepError


def fields_after(spec: PrepSpec, fields: Fields, where: str = "the table") -> dict[str, Field]:
    """Return the columns that a preparation makes of those of a source. Raises PrepError."""
    found = dict(fields)
    for step in spec.steps:
        found = step.after(found, where)
    return with_train(found, where) if spec.split_step is not None else found


def with_train(fields: Fields, where: str) -> dict[str, Field]:
    """Return the columns with the one that a split adds; raise PrepError if its name is taken."""
    if TRAIN in fields:
        raise PrepError(
            f"{where} has a column {TRAIN!r}, which is what split makes; select the others, or rename it",
            file=where,
            column=TRAIN,
        )
    return {**fields, TRAIN: Field(BOOL, nullable=False)}


def needed(spec: PrepSpec, fields: Fields) -> list[str]:
    """Return the columns of the source that the preparation uses, in the source's order."""
    named: set[str] = set()
    for step in spec.steps:
        named.update(step.reads(fields))
        if step.narrows:
            return [name for name in fields if name in named]
    return list(fields)
