"""Release of a statistic with noise: pure epsilon-differential privacy, for rows added or removed.

A `ReleasePlan` is made before the data is touched, so that an error in the question can be reported in full.
After that there is one failure with one fixed text, because a reason would reveal something about the data.
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
    """A planned release: statistic, noise and cost, all chosen without the data."""

    statistic: Statistic
    _mechanism: Mechanism

    @property
    def epsilon(self) -> Fraction:
        """The cost of all measurements together, by OpenDP's account; never more than `statistic.cost`."""
        return sum((Fraction(part.epsilon) for part in self._mechanism.parts), Fraction())

    @property
    def mechanism(self) -> str:
        """The noise in words."""
        return self._mechanism.words

    def release(self, column: Any) -> PrivateStatistic:
        """Compute the statistic of a column of numpy, pandas, polars or torch. Charge the ledger before.

        Raises:
            OperationFailed: always with the same text. A failed release costs as much as a successful one.
        """
        try:
            with np.errstate(all="ignore"):  # a warning would reveal something about the data
                value, accuracy = self._mechanism.finish(column)
            unit = ROWS if self.statistic.kind == QUANTILE else VALUE
            return PrivateStatistic(value, self.statistic.epsilon, float(accuracy), unit, self.mechanism)
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic in a Rust library is not an Exception
            pass
        raise OperationFailed(FAILED)  # outside the handler, so that it does not carry the reason as context


def plan(
    statistic: Statistic, bounds: tuple[float, float] | None = None, *, max_contributions: int = 1
) -> ReleasePlan:
    """Choose noise and cost for a release of `statistic`, without looking at data.

    `bounds` are the owner's, and apply if the statistic has none of its own. Both are safe, being constants
    that do not depend on the data. One person has at most `max_contributions` rows.

    Raises:
        SettingError: the statistic needs bounds and has none; `bounds` or `max_contributions` cannot be used.
        MissingLibrary: OpenDP is not installed.
    """
    d_in = check_contributions(max_contributions)
    clamp = statistic.bounds or (None if bounds is None else checked_bounds(bounds))
    needs_bounds = statistic.kind in (SUM, MEAN, VARIANCE) or (
        statistic.kind == QUANTILE and statistic.candidates is None
    )
    if needs_bounds and clamp is None:
        raise SettingError(
            f"a private {statistic.kind} needs bounds, which must not be taken from the data: give "
            "bounds=(lowest, highest), or let the owner set some for the asset"
        )
    made = ReleasePlan(statistic, MECHANISMS[statistic.kind](statistic, clamp, d_in))
    assert made.epsilon <= Fraction(statistic.cost)
    return made
