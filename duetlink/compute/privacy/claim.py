"""What a function claims to cost of the privacy of what it is given."""

from __future__ import annotations

import math
from dataclasses import dataclass

from duetlink.compute.privacy.account import amount
from duetlink.errors import SettingError

_MOST_EPSILON = 1e6


@dataclass(frozen=True, slots=True)
class Claim:
    """(epsilon, delta)-differential privacy of all that a function returns, for one row more or less."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Raises SettingError for a claim that there is none of."""
        if not (isinstance(self.epsilon, int | float) and 0.0 < self.epsilon <= _MOST_EPSILON):
            raise SettingError(
                f"epsilon is {self.epsilon!r}: it is above 0, and at most {_MOST_EPSILON:,.0f}"
            )
        amount(self.epsilon)  # what no ledger can hold, such as 1e-40, can be charged to none
        if not (isinstance(self.delta, int | float) and 0.0 < self.delta < 1.0):
            raise SettingError(
                f"delta is {self.delta!r}: it lies between 0 and 1, well below 1 over the rows"
            )
        if math.isclose(self.delta, 1.0):
            raise SettingError(f"delta is {self.delta!r}: that promises nothing")

    def __str__(self) -> str:
        return f"epsilon {self.epsilon:g} at delta {self.delta:g}"
