"""OpenDP's measurements over integers, each with the least noise that its share of epsilon allows.

Noise is added only to integers and to sums of integers of bounded size. The last bits of floating point sums
depend on the order of the rows, and noise on floating point numbers leaks through its own last bits (Mironov,
"On significance of the least significant bits for differential privacy", 2012). Integers do neither.
OpenDP's `map` gives the cost of each measurement, rounded up. `d_in` is the number of rows that one person
may have.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from types import SimpleNamespace
from typing import Any

import numpy as np

from duetlink.errors import MissingLibrary, SettingError

MAX_CONTRIBUTIONS = 1_000_000  # rows of one person


@dataclass(frozen=True, slots=True)
class Noisy:
    """A noisy measurement. `measure(items)` returns an integer, or a list of integers, with noise added."""

    measure: Callable[[Any], Any]
    epsilon: float  # the cost, by OpenDP's account
    scale: float  # of its noise

    def error(self, alpha: float) -> float:
        """Return the error that is exceeded in at most a share `alpha` of all releases."""
        return float(_opendp().accuracy.discrete_laplacian_scale_to_accuracy(self.scale, alpha))


@dataclass(frozen=True, slots=True)
class NoisyChoice(Noisy):
    """A measurement that returns the index of a candidate whose score is close to the best."""

    candidates: int
    rows_per_score: float

    def error(self, alpha: float) -> float:
        """Return the rank error in rows, exceeded in at most a share `alpha` of all releases.

        Compared with the best candidate, at most this many more rows are on the wrong side of the chosen one.
        The exponential mechanism's bound also holds for permute-and-flip (McKenna and Sheldon,
        "Permute-and-Flip", 2020): the gap of scores exceeds scale * (ln candidates + t) with a probability of
        at most exp(-t).
        """
        return self.rows_per_score * self.scale * (math.log(self.candidates) - math.log(alpha))


@dataclass(frozen=True, slots=True)
class NoisyKeys(Noisy):
    """A measurement of counts by key, which returns the noisy counts that reach the threshold."""

    delta: float  # the cost
    threshold: int


def check_contributions(max_contributions: int) -> int:
    """Return the number of rows that one person may have. Raises SettingError if it is out of range."""
    if type(max_contributions) is not int or not 1 <= max_contributions <= MAX_CONTRIBUTIONS:
        raise SettingError(
            f"max_contributions is {max_contributions!r}; it is the number of rows that one person may have, "
            f"from 1 to {MAX_CONTRIBUTIONS:,}"
        )
    return max_contributions


def noisy_count(epsilon: Fraction, d_in: int) -> Noisy:
    """Count int64 items."""
    dp = _opendp()
    count = dp.transformations.make_count(_integers(), dp.metrics.symmetric_distance(), TO="i64")
    return _with_laplace(count, epsilon, d_in, sensitivity=1)


def noisy_sum(low: int, high: int, epsilon: Fraction, d_in: int) -> Noisy:
    """Sum int64 items between `low` and `high`. The caller must clip them: OpenDP does not check."""
    dp = _opendp()
    total = dp.transformations.make_sum(_integers((low, high)), dp.metrics.symmetric_distance())
    return _with_laplace(total, epsilon, d_in, sensitivity=max(abs(low), abs(high)))


def noisy_bins(edges: Sequence[float], epsilon: Fraction, d_in: int) -> Noisy:
    """Count float64 items without NaN in each bin between two edges. The last count is of all other items."""
    dp = _opendp()
    found = dp.transformations.make_find_bin(_floats(), dp.metrics.symmetric_distance(), list(edges))
    return _with_laplace(found >> _count_each(range(1, len(edges))), epsilon, d_in, sensitivity=1)


def noisy_codes(number: int, epsilon: Fraction, d_in: int) -> Noisy:
    """Count how many int64 items are 0, 1, … `number - 1`. The last count is of all other items."""
    dp = _opendp()
    counts = (_integers(), dp.metrics.symmetric_distance()) >> _count_each(range(number))
    return _with_laplace(counts, epsilon, d_in, sensitivity=1)


def noisy_quantile(candidates: Sequence[float], q: float, epsilon: Fraction, d_in: int) -> NoisyChoice:
    """Choose the candidate that has about a share `q` of float64 items without NaN below it."""
    dp = _opendp()
    score = dp.transformations.make_quantile_score_candidates(
        _floats(), dp.metrics.symmetric_distance(), list(candidates), q
    )
    # OpenDP's scores are integers: with q = n / d, a row below a candidate counts d - n and one above it n,
    # so that one row of rank error counts d
    outside = (math.nextafter(candidates[0], -math.inf), math.nextafter(candidates[-1], math.inf))
    per_row = score(np.array(outside[:1]))[0] + score(np.array(outside[1:]))[0]

    def chain(scale: float) -> Any:
        return score >> dp.measurements.then_noisy_max(dp.measures.max_divergence(), scale, negate=True)

    scale, measurement = _least_noise(chain, epsilon, d_in, guess=2.0 * score.map(d_in) / float(epsilon))
    return NoisyChoice(measurement, measurement.map(d_in), scale, len(candidates), 1 / per_row)


def noisy_keys(kind: type, epsilon: Fraction, delta: float, d_in: int) -> NoisyKeys:
    """Take int64 counts by key of type `kind`, and release the noisy counts that reach a threshold.

    The threshold is the lowest whose delta is not over `delta`.
    """
    dp = _opendp()
    counts = dp.domains.map_domain(
        dp.domains.atom_domain(T={str: "String", int: "i64", bool: "bool"}[kind]),
        dp.domains.atom_domain(T="i64"),
    )
    metric = dp.metrics.l01inf_distance(dp.metrics.absolute_distance(T="i64"))
    # one person has d_in rows, which change at most d_in keys, d_in counts in total, and d_in of one count
    distance = (d_in, d_in, d_in)

    def cost(scale: float, threshold: int) -> tuple[float, float]:
        spent: tuple[float, float] = dp.measurements.make_laplace_threshold(
            counts, metric, scale, threshold
        ).map(distance)
        return spent

    guess = d_in / float(epsilon)
    scale = dp.mod.binary_search(
        lambda scale: cost(scale, d_in + 1)[0] <= round_down(epsilon), bounds=(guess / 4, guess * 4)
    )
    low, high = d_in, d_in + 1
    while cost(scale, high)[1] > delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if cost(scale, middle)[1] <= delta else (middle, high)
    spent = cost(scale, high)
    assert Fraction(spent[0]) <= epsilon
    # OpenDP's delta is that of a noisy count above the threshold; up to version 0.16 at least, its
    # measurement releases those that are equal to it, too. test_private_categories measures that.
    measure = dp.measurements.make_laplace_threshold(counts, metric, scale, high + 1)
    return NoisyKeys(measure, spent[0], scale, spent[1], high + 1)


def round_down(share: Fraction) -> float:
    """Return the largest float64 that is not over `share`."""
    nearest = float(share)
    return nearest if Fraction(nearest) <= share else math.nextafter(nearest, 0.0)


def _with_laplace(transformation: Any, epsilon: Fraction, d_in: int, *, sensitivity: int) -> Noisy:
    dp = _opendp()

    def chain(scale: float) -> Any:
        return transformation >> dp.measurements.then_laplace(scale)

    guess = d_in * sensitivity / float(epsilon)  # where the search begins; OpenDP's map decides
    scale, measurement = _least_noise(chain, epsilon, d_in, guess)
    return Noisy(measurement, measurement.map(d_in), scale)


def _least_noise(
    chain: Callable[[float], Any], epsilon: Fraction, d_in: int, guess: float
) -> tuple[float, Any]:
    scale = _opendp().mod.binary_search_param(
        chain, d_in=d_in, d_out=round_down(epsilon), bounds=(guess / 4, guess * 4)
    )
    measurement = chain(scale)
    assert Fraction(measurement.map(d_in)) <= epsilon
    return scale, measurement


def _integers(bounds: tuple[int, int] | None = None) -> Any:
    dp = _opendp()
    return dp.domains.vector_domain(dp.domains.atom_domain(bounds=bounds, T="i64"))


def _floats() -> Any:
    dp = _opendp()
    return dp.domains.vector_domain(dp.domains.atom_domain(T="f64", nan=False))


def _count_each(codes: range) -> Any:
    make = _opendp().transformations.then_count_by_categories
    return make(list(codes), null_category=True, MO="L1Distance<i64>", TOA="i64")


def _opendp() -> SimpleNamespace:
    """Import OpenDP's modules. Its `prelude` is avoided: it imports pandas, polars and scikit-learn.

    Raises:
        MissingLibrary: OpenDP is not installed.
    """
    try:
        from opendp import accuracy, domains, measurements, measures, metrics, mod, transformations
    except ImportError as error:
        raise MissingLibrary(
            f"private statistics need OpenDP, which cannot be imported here ({error}); install it with "
            "`pip install 'duetlink[privacy]'`, on the owner's side"
        ) from error
    mod.enable_features("contrib")  # OpenDP's name for parts whose proofs are not all reviewed
    return SimpleNamespace(
        accuracy=accuracy,
        domains=domains,
        measurements=measurements,
        measures=measures,
        metrics=metrics,
        mod=mod,
        transformations=transformations,
    )
