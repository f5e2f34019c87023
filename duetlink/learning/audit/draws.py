"""Tests whether batches were Poisson samples at the claimed rate, from the rows in each batch."""

from __future__ import annotations

import numpy as np
from scipy import stats

from duetlink.learning.audit.bounds import Floats
from duetlink.learning.audit.canaries import Counts
from duetlink.learning.audit.suspicion import Suspicion


def suspect_draws(counts: Counts, rate: float) -> list[Suspicion]:
    """Test the batches: each row at most once, the rate, the sizes of batches, the draws of each row.

    A rate below the claimed one costs less than the account says, and is not suspected. So the sizes and the
    numbers of draws are tested against the rate that was measured.

    Args:
        counts: shape (steps, rows), the number of times each row was in each batch.
        rate: the claimed one.
    """
    steps, rows = counts.shape
    most, found = int(counts.max()), float((counts > 0).mean())
    too_many = float(stats.binom.sf((counts > 0).sum() - 1, steps * rows, rate))
    of_sizes, sizes = _dispersion(counts.sum(1), rows * found * (1.0 - found))
    of_rows, draws = _dispersion(counts.sum(0), steps * found * (1.0 - found))
    return [
        Suspicion(float(most <= 1), f"A row was in one batch {most} times."),
        Suspicion(
            too_many, f"Rows were drawn at a rate of {found:.3g}, where the account has one of {rate:.3g}."
        ),
        Suspicion(
            of_sizes, f"The sizes of batches vary {sizes:.3g} times as much as those of Poisson samples."
        ),
        Suspicion(
            of_rows, f"The rows' numbers of draws vary {draws:.3g} times as much as those of Poisson samples."
        ),
    ]


def _dispersion(counts: Counts, variance: float) -> tuple[float, float]:
    """Return the probability of such a dispersion for binomial counts, and their variance over the expected
    one.

    This is the chi-squared test of dispersion. At a rate from 0.22 to 0.78 binomial counts have lighter tails
    than normal ones, so the test is seldom wrong for a sound training.
    """
    if variance == 0.0:
        return 1.0, 1.0
    values: Floats = counts - counts.mean()
    statistic, freedom = float(np.square(values).sum()) / variance, len(counts) - 1
    side = min(stats.chi2.cdf(statistic, freedom), stats.chi2.sf(statistic, freedom))
    return min(1.0, 2.0 * float(side)), statistic / freedom
