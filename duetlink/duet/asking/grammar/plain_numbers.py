"""Arithmetic of plain numbers in a text, with bounds: ten characters can name a number of gigabytes."""

from __future__ import annotations

import operator
from typing import Any

from duetlink.errors import OperationRefused

_MOST = 1 << 64  # larger numbers fit in no column
_MOST_POWER = 64
_KINDS = (int, float, bool, complex)


def bounded(value: Any) -> Any:
    """The value itself. Raises OperationRefused: it is an integer of more than 64 bits."""
    if isinstance(value, int) and abs(value) >= _MOST:
        raise OperationRefused("a number of more than 64 bits fits in no column")
    return value


def of_numbers(name: str, left: Any, right: Any) -> Any:
    """`operator.name` of two plain numbers. Raises OperationRefused: they are none, or too large."""
    if not all(type(side) in _KINDS for side in (left, right)):
        raise OperationRefused(
            f"{name} of two values, of which none is a column; work it out before and give it by its name"
        )
    if name == "pow" and isinstance(right, int) and abs(right) > _MOST_POWER:
        left = float(left) if isinstance(left, int) else left
    try:
        return bounded(getattr(operator, name)(left, right))
    except (ArithmeticError, TypeError, ValueError) as error:
        raise OperationRefused(f"{name} of {left} and {right}: {error}") from None
