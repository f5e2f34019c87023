"""Lower bounds of a mechanism's epsilon, from its output about canaries.

A canary is a row that the auditor includes or leaves out by tossing a coin. If the output separates the two
cases too well, epsilon is at least the returned bound, with a stated confidence.
"""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
from scipy import optimize, stats

_MOST_EPSILON = 100.0

Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


def one_run_bound(scores: Floats, included: Bools, delta: float, confidence: float = 0.95) -> float:
    """Return a lower bound of epsilon from one run with many canaries.

    The auditor guesses "in" for the highest scores and "out" for the lowest. The number of right guesses
    bounds epsilon (Steinke, Nasr and Jagielski, "Privacy Auditing with One (1) Training Run", 2023, theorem
    5.2). Up to six numbers of guesses are tried, and the best bound is returned; they share the confidence.

    Args:
        scores: shape (m,), higher if the canary looks as if it was in.
        included: shape (m,), True if the canary was in, each by a fair coin.
        delta: of the claimed (epsilon, delta).
        confidence: the probability that the bound holds.
    """
    canaries = len(scores)
    order = np.argsort(scores)
    numbers = sorted({max(1, canaries * share // 64) for share in (1, 2, 4, 8, 16, 32)})
    best = 0.0
    for number in numbers:
        right = int(included[order[-number:]].sum() + (~included[order[:number]]).sum())
        doubt = (1.0 - confidence) / len(numbers)
        best = max(best, _bound_of_guesses(canaries, 2 * number, right, delta, doubt))
    return best


def _bound_of_guesses(canaries: int, guesses: int, right: int, delta: float, doubt: float) -> float:
    def surprise(epsilon: float) -> float:
        """Bound the probability of that many right guesses, if epsilon holds."""
        chance = 1.0 / (1.0 + math.exp(-epsilon))
        fewer = np.arange(1, right + 1)
        tail = np.cumsum(stats.binom.pmf(right - fewer, guesses, chance)) / fewer
        exact = float(stats.binom.sf(right - 1, guesses, chance))
        return min(1.0, exact + 2.0 * canaries * delta * float(tail.max(initial=0.0)))

    if surprise(0.0) >= doubt:
        return 0.0
    if surprise(_MOST_EPSILON) < doubt:
        return math.inf
    return float(optimize.brentq(lambda epsilon: surprise(epsilon) - doubt, 0.0, _MOST_EPSILON))


def gaussian_bound(scores: Floats, included: Bools, delta: float, confidence: float = 0.95) -> float:
    """Return a lower bound of epsilon for scores that are normal with equal variance, in and out.

    Sums along the directions of canaries in a Gaussian mechanism are: the distance of the two means in
    standard deviations is its mu (Dong, Roth and Su, "Gaussian Differential Privacy", 2022). This is tighter
    than counting right guesses. Arguments as for `one_run_bound`.
    """
    inside, outside = scores[included], scores[~included]
    if min(len(inside), len(outside)) < 2:
        return 0.0
    gap = float(inside.mean() - outside.mean())
    freedom = len(scores) - 2
    spread = math.sqrt((inside.var() * len(inside) + outside.var() * len(outside)) / freedom)
    if spread == 0.0:
        return math.inf if gap > 0.0 else 0.0
    error = spread * math.sqrt(1.0 / len(inside) + 1.0 / len(outside))
    doubt = (1.0 - confidence) / 2.0  # half for the gap, half for the spread
    least_gap = gap - error * float(stats.t.ppf(1.0 - doubt, freedom))
    most_spread = spread * math.sqrt(freedom / float(stats.chi2.ppf(doubt, freedom)))
    return epsilon_of_mu(max(0.0, least_gap / most_spread), delta)


def epsilon_of_mu(mu: float, delta: float) -> float:
    """Return the epsilon of a mu-GDP mechanism at `delta` (Balle and Wang 2018, theorem 8)."""
    if mu == 0.0:
        return 0.0

    def excess(epsilon: float) -> float:
        above, below = stats.norm.cdf(-epsilon / mu + mu / 2), stats.norm.logcdf(-epsilon / mu - mu / 2)
        return float(above - math.exp(epsilon + float(below)) - delta)

    if excess(0.0) <= 0.0:
        return 0.0
    most = mu * mu / 2.0 + mu * math.sqrt(2.0 * math.log(1.0 / delta)) + 1.0
    return float(optimize.brentq(excess, 0.0, most))
