"""OpenDP's measurements over integers, each with the least noise that its share of epsilon allows.

Everything that gets noise is an integer, or a sum of integers of bounded size: floating point sums depend on
the order of the rows in their last bits, and noise that is added to floating point numbers leaks through its
own last bits (Mironov, "On significance of the least significant bits for differential privacy", 2012).
Integers do neither. Each measurement's own `map` tells what it costs, rounded up.
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
    """A measurement: give it the column, as it takes it, and it returns an integer, or a list of them."""

    measure: Callable[[Any], Any]
    epsilon: float  # that it costs, by OpenDP's account
    scale: float  # of its noise

    def error(self, alpha: float) -> float:
        """How far its result is from the truth at most, but for a share `alpha` of all releases.

        For a choice: how much better the best candidate's score is.
        """
        return float(_opendp().accuracy.discrete_laplacian_scale_to_accuracy(self.scale, alpha))


@dataclass(frozen=True, slots=True)
class NoisyChoice(Noisy):
    """A measurement that returns the index of a candidate whose score is about the best."""

    candidates: int
    rows_per_score: float

    def error(self, alpha: float) -> float:
        """How many rows more than at the best candidate are on the wrong side of the one that was chosen.

        The exponential mechanism's bound, which permute-and-flip keeps (McKenna and Sheldon,
        "Permute-and-Flip", 2020): the gap of scores is over scale * (ln candidates + t) with a probability
        of exp(-t) at most.
        """
        return self.rows_per_score * self.scale * (math.log(self.candidates) - math.log(alpha))


@dataclass(frozen=True, slots=True)
class NoisyKeys(Noisy):
    """A measurement of counts by key: it returns those noisy counts that reach the threshold."""

    delta: float  # that it costs
    threshold: int


def check_contributions(max_contributions: int) -> int:
    """Rows that one person may have. Raises SettingError."""
    if type(max_contributions) is not int or not 1 <= max_contributions <= MAX_CONTRIBUTIONS:
        raise SettingError(
            f"max_contributions is {max_contributions!r}: how many rows one person may have at most, "
            f"from 1 to {MAX_CONTRIBUTIONS:,}"
        )
    return max_contributions


def noisy_count(epsilon: Fraction, d_in: int) -> Noisy:
    """Of how many items there are, from int64."""
    dp = _opendp()
    count = dp.transformations.make_count(_integers(), dp.metrics.symmetric_distance(), TO="i64")
    return _with_laplace(count, epsilon, d_in, sensitivity=1)


def noisy_sum(low: int, high: int, epsilon: Fraction, d_in: int) -> Noisy:
    """Of the sum of int64 between `low` and `high`. The caller has clipped them: OpenDP trusts that."""
    dp = _opendp()
    total = dp.transformations.make_sum(_integers((low, high)), dp.metrics.symmetric_distance())
    return _with_laplace(total, epsilon, d_in, sensitivity=max(abs(low), abs(high)))


def noisy_bins(edges: Sequence[float], epsilon: Fraction, d_in: int) -> Noisy:
    """Of how many of float64 without NaN are between each two edges; a last number counts the rest."""
    dp = _opendp()
    found = dp.transformations.make_find_bin(_floats(), dp.metrics.symmetric_distance(), list(edges))
    return _with_laplace(found >> _count_each(range(1, len(edges))), epsilon, d_in, sensitivity=1)


def noisy_codes(number: int, epsilon: Fraction, d_in: int) -> Noisy:
    """Of how many of int64 are 0, 1, … `number - 1`; a last number counts the rest."""
    dp = _opendp()
    counts = (_integers(), dp.metrics.symmetric_distance()) >> _count_each(range(number))
    return _with_laplace(counts, epsilon, d_in, sensitivity=1)


def noisy_quantile(candidates: Sequence[float], q: float, epsilon: Fraction, d_in: int) -> NoisyChoice:
    """Of which of the candidates has about a share `q` of float64 without NaN below it."""
    dp = _opendp()
    score = dp.transformations.make_quantile_score_candidates(
        _floats(), dp.metrics.symmetric_distance(), list(candidates), q
    )
    # OpenDP scores in whole numbers: q is a fraction n / d, a row below a candidate counts d - n, one above
    # it n, so that one row of rank counts d
    outside = (math.nextafter(candidates[0], -math.inf), math.nextafter(candidates[-1], math.inf))
    per_row = score(np.array(outside[:1]))[0] + score(np.array(outside[1:]))[0]

    def chain(scale: float) -> Any:
        return score >> dp.measurements.then_noisy_max(dp.measures.max_divergence(), scale, negate=True)

    scale, measurement = _least_noise(chain, epsilon, d_in, guess=2.0 * score.map(d_in) / float(epsilon))
    return NoisyChoice(measurement, measurement.map(d_in), scale, len(candidates), 1 / per_row)


def noisy_keys(kind: type, epsilon: Fraction, delta: float, d_in: int) -> NoisyKeys:
    """Of the keys of `kind` that are there, int64 counts by key: those whose noisy count is high enough."""
    dp = _opendp()
    counts = dp.domains.map_domain(
        dp.domains.atom_domain(T={str: "String", int: "i64", bool: "bool"}[kind]),
        dp.domains.atom_domain(T="i64"),
    )
    metric = dp.metrics.l01inf_distance(dp.metrics.absolute_distance(T="i64"))
    # d_in rows of one person: so many keys at most, and so many counts more, of all and of one
    distance = (d_in, d_in, d_in)

    def cost(scale: float, threshold: int) -> tuple[float, float]:
        spent: tuple[float, float] = dp.measurements.make_laplace_threshold(
            counts, metric, scale, threshold
        ).map(distance)
        return spent

    guess = d_in / float(epsilon)
    scale = dp.mod.binary_search(
        lambda scale: cost(scale, d_in + 1)[0] <= below(epsilon), bounds=(guess / 4, guess * 4)
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


def below(share: Fraction) -> float:
    """The largest float64 that is not over `share`."""
    nearest = float(share)
    return nearest if Fraction(nearest) <= share else math.nextafter(nearest, 0.0)


def _with_laplace(transformation: Any, epsilon: Fraction, d_in: int, *, sensitivity: int) -> Noisy:
    dp = _opendp()

    def chain(scale: float) -> Any:
        return transformation >> dp.measurements.then_laplace(scale)

    guess = d_in * sensitivity / float(epsilon)  # where to look; what is found is what OpenDP's map says
    scale, measurement = _least_noise(chain, epsilon, d_in, guess)
    return Noisy(measurement, measurement.map(d_in), scale)


def _least_noise(
    chain: Callable[[float], Any], epsilon: Fraction, d_in: int, guess: float
) -> tuple[float, Any]:
    scale = _opendp().mod.binary_search_param(
        chain, d_in=d_in, d_out=below(epsilon), bounds=(guess / 4, guess * 4)
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
    """OpenDP's modules: not its `prelude`, which imports pandas, polars and scikit-learn.

    Raises:
        MissingLibrary: it is not installed.
    """
    try:
        from opendp import accuracy, domains, measurements, measures, metrics, mod, transformations
    except ImportError as error:
        raise MissingLibrary(
            f"private statistics need OpenDP, which cannot be imported here ({error}); install it with "
            "`pip install 'duetlink[privacy]'`, on the owner's side"
        ) from error
    mod.enable_features("contrib")  # OpenDP's word for: its proofs are not all reviewed
    return SimpleNamespace(
        accuracy=accuracy,
        domains=domains,
        measurements=measurements,
        measures=measures,
        metrics=metrics,
        mod=mod,
        transformations=transformations,
    )
