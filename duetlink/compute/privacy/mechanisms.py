"""The mechanism of each kind of statistic: where noise is added, and how the result is computed from it.

Each function takes the statistic, the bounds to clamp to (low, high), and `d_in`, the number of rows that one
person may have. It chooses the noise without the data.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from duetlink.compute.privacy import noise
from duetlink.compute.privacy.column import Floats, Ints, category_codes, count_present, numbers
from duetlink.compute.privacy.noise import Noisy
from duetlink.compute.privacy.statistic import COUNT, HISTOGRAM, MEAN, QUANTILE, SUM, VARIANCE, Statistic

Bounds = tuple[float, float] | None

_ALPHA = 0.05  # the share of releases whose error may exceed the stated one
_QUANTILE_CANDIDATES = 1_001  # evenly spaced between the bounds, if the statistic gives none
# Numbers are rounded to a grid of 2 ** -bits of their bounds. The bits are few enough to keep the noise far
# from the ends of int64, where OpenDP cuts it off, and at most 32, so that 2 ** 31 rows do not reach them
# either.
_MOST_BITS, _FEWEST_BITS, _NOISE_BITS = 32, 16, 56


@dataclass(frozen=True, slots=True)
class Mechanism:
    """The noise for one statistic.

    `finish(column)` returns the value and its 95 % error. It reads the column only through the noisy
    measurements in `parts`. `words` describes the noise for people.
    """

    parts: tuple[Noisy, ...]
    words: str
    finish: Callable[[Any], tuple[Any, float]]


def count(statistic: Statistic, bounds: Bounds, d_in: int) -> Mechanism:
    part = noise.noisy_count(Fraction(statistic.cost), d_in)
    error = part.error(_ALPHA)

    def finish(column: Any) -> tuple[Any, float]:
        return np.float64(part.measure(_placeholders(count_present(column)))), error

    return Mechanism((part,), f"discrete Laplace noise of scale {part.scale:.4g}", finish)


def sum_(statistic: Statistic, bounds: Bounds, d_in: int) -> Mechanism:
    assert bounds is not None
    low, high = bounds
    epsilon = Fraction(statistic.cost)
    step = math.ldexp(1.0, math.frexp(max(-low, high))[1] - _grid_bits(epsilon, d_in))
    lowest, highest = math.floor(low / step), math.ceil(high / step)
    part = noise.noisy_sum(lowest, highest, epsilon, d_in)
    error = part.error(_ALPHA) * step

    def finish(column: Any) -> tuple[Any, float]:
        steps = np.clip(numbers(column), low, high) / step
        return np.float64(part.measure(_whole(steps, lowest, highest)) * step), error

    return Mechanism((part,), f"discrete Laplace noise of scale {part.scale * step:.4g}", finish)


def mean(statistic: Statistic, bounds: Bounds, d_in: int) -> Mechanism:
    assert bounds is not None
    low, high = bounds
    half = (high - low) / 2
    share = Fraction(statistic.cost) / 2
    top = 2 ** _grid_bits(share, d_in)
    sums, rows = noise.noisy_sum(-top, top, share, d_in), noise.noisy_count(share, d_in)
    errors = sums.error(_ALPHA / 2) / top, rows.error(_ALPHA / 2)

    def finish(column: Any) -> tuple[Any, float]:
        centred = _centred(numbers(column), low, high)
        noisy_rows = float(rows.measure(_placeholders(centred.size)))
        value, error = _ratio(sums.measure(_whole(centred * top, -top, top)) / top, noisy_rows, *errors)
        return np.float64(min(max(low + half + half * value, low), high)), half * error

    words = "discrete Laplace noise on the sum and on the count, half of epsilon each"
    return Mechanism((sums, rows), words, finish)


def variance(statistic: Statistic, bounds: Bounds, d_in: int) -> Mechanism:
    """Plan a population variance: squared distances from the mean, divided by the number of items."""
    assert bounds is not None
    low, high = bounds
    share = Fraction(statistic.cost) / 3
    top = 2 ** _grid_bits(share, d_in)
    sums, squares = noise.noisy_sum(-top, top, share, d_in), noise.noisy_sum(-top, top, share, d_in)
    rows = noise.noisy_count(share, d_in)
    errors = sums.error(_ALPHA / 3) / top, rows.error(_ALPHA / 3)

    def finish(column: Any) -> tuple[Any, float]:
        centred = _centred(numbers(column), low, high)
        noisy_rows = float(rows.measure(_placeholders(centred.size)))
        first, first_error = _ratio(sums.measure(_whole(centred * top, -top, top)) / top, noisy_rows, *errors)
        # squares are from 0 to 1: stretched to -1 to 1, they need no more noise than the numbers themselves
        moved = _whole((2 * centred * centred - 1) * top, -top, top)
        second, second_error = _ratio(squares.measure(moved) / top, noisy_rows, *errors)
        value = min(max((second + 1) / 2 - first * first, 0.0), 1.0)
        error = second_error / 2 + first_error * (2 * abs(first) + first_error)
        scale = ((high - low) / 2) ** 2
        return np.float64(value * scale), min(error, 1.0) * scale

    words = "discrete Laplace noise on the sum, the sum of squares and the count, a third of epsilon each"
    return Mechanism((sums, squares, rows), words, finish)


def quantile(statistic: Statistic, bounds: Bounds, d_in: int) -> Mechanism:
    assert statistic.q is not None
    candidates = statistic.candidates
    if candidates is None:
        assert bounds is not None
        candidates = tuple(np.linspace(*bounds, _QUANTILE_CANDIDATES).tolist())
    part = noise.noisy_quantile(candidates, statistic.q, Fraction(statistic.cost), d_in)
    error = part.error(_ALPHA)

    def finish(column: Any) -> tuple[Any, float]:
        items = numbers(column)
        chosen = part.measure(items if bounds is None else np.clip(items, *bounds))
        return np.float64(candidates[chosen]), error

    return Mechanism((part,), f"permute-and-flip among {len(candidates):,} candidates", finish)


def histogram(statistic: Statistic, bounds: Bounds, d_in: int) -> Mechanism:
    """Plan a histogram. Items outside all bins or categories are not counted, and bounds are ignored."""
    epsilon, edges, categories = Fraction(statistic.cost), statistic.bins, statistic.categories
    if edges is not None:
        number, part = len(edges) - 1, noise.noisy_bins(edges, epsilon, d_in)
    else:
        assert categories is not None
        number, part = len(categories), noise.noisy_codes(len(categories), epsilon, d_in)
    error = part.error(_ALPHA / number)

    def finish(column: Any) -> tuple[Any, float]:
        if categories is not None:
            counts = part.measure(category_codes(column, categories))
        else:
            assert edges is not None
            items = numbers(column)
            items[items == edges[-1]] = math.nextafter(edges[-1], -math.inf)  # OpenDP's last bin is open
            counts = part.measure(items)
        return np.array(counts[:number], dtype=np.float64), error

    return Mechanism((part,), f"discrete Laplace noise of scale {part.scale:.4g} on each count", finish)


MECHANISMS: Mapping[str, Callable[[Statistic, Bounds, int], Mechanism]] = {
    COUNT: count,
    SUM: sum_,
    MEAN: mean,
    VARIANCE: variance,
    QUANTILE: quantile,
    HISTOGRAM: histogram,
}


def _grid_bits(epsilon: Fraction, d_in: int) -> int:
    bits = math.floor(math.log2(epsilon / d_in)) + _NOISE_BITS
    return max(_FEWEST_BITS, min(bits, _MOST_BITS))


def _placeholders(number: int) -> Ints:
    """Return `number` items for OpenDP to count; their values do not matter."""
    return np.zeros(number, dtype=np.int64)


def _centred(items: Floats, low: float, high: float) -> Floats:
    """Clamp to `low` to `high` and map that range linearly to -1 to 1."""
    half = (high - low) / 2
    return np.asarray(np.clip((np.clip(items, low, high) - (low + half)) / half, -1.0, 1.0))


def _whole(steps: Floats, lowest: int, highest: int) -> Ints:
    """Round to the nearest integers, then clip: the noise is calibrated for exactly these bounds."""
    return np.clip(np.rint(steps).astype(np.int64), lowest, highest)


def _ratio(total: float, rows: float, total_error: float, rows_error: float) -> tuple[float, float]:
    """Return the mean of items between -1 and 1, and its error, from a noisy sum and a noisy count.

    With noise a on the sum S and b on the count N, (S + a) / (N + b) - S / N = (a - b S / N) / (N + b), and
    S / N is between -1 and 1.
    """
    if rows < 1:
        return 0.0, 1.0
    return min(max(total / rows, -1.0), 1.0), min((total_error + rows_error) / rows, 2.0)
