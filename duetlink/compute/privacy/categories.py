"""Which values of a column are not rare, by (epsilon, delta)-differential privacy, for rows added or removed.

Theory. Each count of a value that is there gets discrete Laplace noise, and a value is released if its noisy
count reaches a threshold. That is so high that a value of one person alone reaches it with a probability of
at most delta: Korolova, Kenthapadi, Mishra and Ntoulas, "Releasing search queries and clicks privately",
2009, section 4. The account is OpenDP's, after Rogers, "A unifying privacy analysis framework for unknown
domain algorithms in differential privacy", 2023. Desfontaines, Voss, Gipson and Mandayam, "Differentially
private partition selection", 2022, releases a few values more. OpenDP 0.16 does not have it; python-dp 1.1
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
    """What a release will do: noise, threshold and cost are settled, and no data was needed for it."""

    threshold: int  # the least noisy count that is released
    scale: float  # of the discrete Laplace noise
    epsilon: float  # that it costs, by OpenDP's account; never over what was allowed
    delta: float
    _measure: Any

    def release(self, counts: Mapping[Any, int]) -> dict[Any, int]:
        """From how many rows have each value to the noisy counts of those that are released.

        Charge the budget before.

        Raises:
            OperationFailed: with one fixed text. It has cost what a release costs.
        """
        try:
            return dict(self._measure(dict(counts)))
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException:  # a panic of a library in Rust is no Exception
            pass
        raise OperationFailed(FAILED)  # from here, so that the reason is not its context


def select(
    kind: type[str | int | bool],
    epsilon: Fraction,
    delta: float,
    *,
    max_contributions: int = 1,
) -> Selection:
    """What it takes to release values of a kind; one person has `max_contributions` rows at most.

    Raises:
        SettingError: epsilon, delta or `max_contributions` cannot be used.
        MissingLibrary: OpenDP is not installed.
    """
    d_in = check_contributions(max_contributions)
    Claim(float(epsilon), delta)
    if delta < LEAST_DELTA:
        raise SettingError(f"delta is {delta!r} for each column: it is {LEAST_DELTA:g} at least")
    keys = noisy_keys(kind, epsilon, delta, d_in)
    return Selection(keys.threshold, keys.scale, keys.epsilon, keys.delta, keys.measure)
