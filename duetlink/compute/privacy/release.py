"""From a column to a statistic with noise: pure epsilon-differential privacy, for rows added or removed.

A `ReleasePlan` is made before the data is touched, so that an error in the question is told in full. Once
the data is touched there is one failure with one text, because a reason would tell of the data.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from duetlink.compute.privacy.mechanisms import MECHANISMS, Mechanism
from duetlink.compute.privacy.noise import check_contributions
from duetlink.compute.privacy.statistic import (
    MEAN,
    QUANTILE,
    SUM,
    VARIANCE,
    PrivateStatistic,
    Statistic,
    checked_bounds,
)
from duetlink.errors import OperationFailed, SettingError

FAILED = "the statistic could not be made"
VALUE, ROWS = "value", "rows"


@dataclass(frozen=True, slots=True)
class ReleasePlan:
    """What a release will do: noise and cost are settled, and no data was needed for it."""

    statistic: Statistic
    _mechanism: Mechanism

    @property
    def epsilon(self) -> Fraction:
        """What its parts cost together, by OpenDP's account; never over `statistic.cost`."""
        return sum((Fraction(part.epsilon) for part in self._mechanism.parts), Fraction())

    @property
    def mechanism(self) -> str:
        """The noise in words."""
        return self._mechanism.words

    def release(self, column: Any) -> PrivateStatistic:
        """Touch the data, a column of numpy, pandas, polars or torch. Charge the ledger before.

        Raises:
            OperationFailed: with one fixed text. It has cost what a release costs.
        """
        try:
            with np.errstate(all="ignore"):  # a warning would tell of the data
                value, accuracy = self._mechanism.finish(column)
            unit = ROWS if self.statistic.kind == QUANTILE else VALUE
            return PrivateStatistic(value, self.statistic.epsilon, float(accuracy), unit, self.mechanism)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic of a library in Rust is no Exception
            pass
        raise OperationFailed(FAILED)  # from here, so that the reason is not its context


def plan(
    statistic: Statistic, bounds: tuple[float, float] | None = None, *, max_contributions: int = 1
) -> ReleasePlan:
    """What it takes to release `statistic` of a column.

    `bounds` are the owner's public ones, and apply where the statistic has none of its own: constants of
    either side are safe. One person has `max_contributions` rows at most.

    Raises:
        SettingError: it has no bounds and needs some; `bounds` or `max_contributions` cannot be used.
        MissingLibrary: OpenDP is not installed.
    """
    d_in = check_contributions(max_contributions)
    clamp = statistic.bounds or (None if bounds is None else checked_bounds(bounds))
    needs_bounds = statistic.kind in (SUM, MEAN, VARIANCE) or (
        statistic.kind == QUANTILE and statistic.candidates is None
    )
    if needs_bounds and clamp is None:
        raise SettingError(
            f"a private {statistic.kind} needs bounds, which nothing in the data may tell: give "
            "bounds=(lowest, highest), or let the owner set some for the asset"
        )
    made = ReleasePlan(statistic, MECHANISMS[statistic.kind](statistic, clamp, d_in))
    assert made.epsilon <= Fraction(statistic.cost)
    return made
