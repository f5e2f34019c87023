"""The privacy cost that a function claims for the data it is given, checked against a meter after its run."""

from __future__ import annotations

import math
from dataclasses import dataclass

from duetlink.compute.privacy.account import amount
from duetlink.errors import SettingError

_MOST_EPSILON = 1e6


@dataclass(frozen=True, slots=True)
class Claim:
    """A promise of (epsilon, delta)-differential privacy for all that a function returns.

    Neighbouring data sets differ by one row that is added or removed.
    """

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Raises SettingError if epsilon or delta is out of range."""
        if not (isinstance(self.epsilon, int | float) and 0.0 < self.epsilon <= _MOST_EPSILON):
            raise SettingError(
                f"epsilon is {self.epsilon!r}: it must be above 0, and at most {_MOST_EPSILON:,.0f}"
            )
        amount(self.epsilon)  # raises for amounts that no ledger can hold, such as 1e-40
        if not (isinstance(self.delta, int | float) and 0.0 < self.delta < 1.0):
            raise SettingError(
                f"delta is {self.delta!r}: it must be between 0 and 1, well below 1 over the number of rows"
            )
        if math.isclose(self.delta, 1.0):
            raise SettingError(f"delta is {self.delta!r}: that promises nothing")

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g} at delta {self.delta:g}"
