"""Numbers with a unit: a library that duetlink does not know."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Measures:
    """Numbers, and what they are in."""

    numbers: Any
    unit: str


def scaled(numbers: Any, factor: float) -> Any:
    """Item by item."""
    return np.multiply(numbers, factor)


def measured(numbers: Any, unit: str) -> Measures:
    return Measures(numbers, unit)


def secret(numbers: Any) -> Any:
    """In no list."""
    return numbers
