"""Variables of the caller's that have rows, as columns have."""

from __future__ import annotations

from typing import Any

from duetlink.compute.operations.sizes.mask import PUBLIC
from duetlink.duet.asking.program import Program


def has_rows(value: Any) -> bool:
    """Whether it is an array, series or frame."""
    shape = getattr(value, "shape", None)
    return isinstance(shape, tuple) and len(shape) > 0


def placed(program: Program, value: Any) -> Any:
    """A pointer to its copy at the owner. Raises UnsupportedValue."""
    return program.wrap(value, program.place(value), PUBLIC)
