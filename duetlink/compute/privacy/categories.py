"""Private category selection: the frequent values of a column, with (epsilon, delta)-differential privacy.

Neighbours differ by one row that is added or removed.

Theory. Each value that occurs gets a count with discrete Laplace noise, and is released if the noisy count
reaches a threshold. The threshold is so high that a value of a single person reaches it with a probability of
at most delta: Korolova, Kenthapadi, Mishra and Ntoulas, "Releasing search queries and clicks privately",
2009, section 4. The account is OpenDP's, after Rogers, "A unifying privacy analysis framework for unknown
domain algorithms in differential privacy", 2023. Desfontaines, Voss, Gipson and Mandayam, "Differentially
private partition selection", 2022, releases a few more values. OpenDP 0.16 does not have it; python-dp 1.1
has it without noisy counts, and for one row of a person in each category.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

from duetlink.compute.privacy.claim import Claim
from duetlink.compute.privacy.noise import check_contributions, noisy_keys
from duetlink.compute.privacy.release import FAILED
from duetlink.errors import OperationFailed, SettingError

LEAST_DELTA = 1e-12  # OpenDP's account of delta is rounded up to a few 1e-16


@dataclass(frozen=True, slots=True)
class Selection:
    """A planned release of categories: noise, threshold and cost, all chosen without the data."""

    threshold: int  # the smallest noisy count that is released
    scale: float  # of the discrete Laplace noise
    epsilon: float  # the cost by OpenDP's account; never more than was allowed
    delta: float
    _measure: Any

    def release(self, counts: Mapping[Any, int]) -> dict[Any, int]:
        """Return the noisy counts that reach the threshold, given the exact number of rows of each value.

        Charge the budget before the call.

        Raises:
            OperationFailed: always with the same text. A failed release costs as much as a successful one.
        """
        try:
            return dict(self._measure(dict(counts)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic in a Rust library is not an Exception
            pass
        raise OperationFailed(FAILED)  # outside the handler, so that it does not carry the reason as context


def select(
    kind: type[str | int | bool],
    epsilon: Fraction,
    delta: float,
    *,
    max_contributions: int = 1,
) -> Selection:
    """Plan a release of the frequent values of type `kind`, with at most `max_contributions` rows per person.

    Raises:
        SettingError: epsilon, delta or `max_contributions` cannot be used.
        MissingLibrary: OpenDP is not installed.
    """
    d_in = check_contributions(max_contributions)
    Claim(float(epsilon), delta)
    if delta < LEAST_DELTA:
        raise SettingError(f"delta is {delta!r} for each column: it must be {LEAST_DELTA:g} at least")
    keys = noisy_keys(kind, epsilon, delta, d_in)
    return Selection(keys.threshold, keys.scale, keys.epsilon, keys.delta, keys.measure)
