"""Many releases from two neighbours: no outcome is more likely for one of them than e^epsilon allows.

This can find a mistake, and proves nothing: that OpenDP's measurements keep their word is OpenDP's proof.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest

from duetlink.compute.privacy.release import plan
from duetlink.compute.privacy.statistic import Statistic

RELEASES = 1_500
SURE = 6.0  # standard deviations: all comparisons of a run together are wrong once in ten million runs

# The neighbour has one row more: the one that changes the statistic most.
FEW = np.array([10.0, 20.0, 30.0, 40.0, 50.0, 60.0])
MORE = np.append(FEW, 100.0)

CASES: dict[str, tuple[Statistic, int, float]] = {
    "count": (Statistic("count", 0.5), 1, 1.0),
    "sum": (Statistic("sum", 1.0, (0, 100)), 1, 25.0),
    "mean": (Statistic("mean", 1.0, (0, 100)), 1, 5.0),
    "variance": (Statistic("variance", 1.0, (0, 100)), 1, 100.0),
    "quantile": (Statistic("quantile", 1.0, q=0.9, candidates=tuple(range(0, 101, 20))), 1, 20.0),
    "histogram": (Statistic("histogram", 1.0, bins=(0, 50, 100)), 1, 1.0),
}


def outcomes(statistic: Statistic, column: Any, max_contributions: int, width: float) -> Counter[Any]:
    planned = plan(statistic, max_contributions=max_contributions)
    values = np.array([np.atleast_1d(planned.release(column).value) for _ in range(RELEASES)])
    return Counter(map(tuple, np.clip(np.round(values / width), -20, 40).tolist()))


def surely_told(first: Counter[Any], second: Counter[Any]) -> float:
    """What the largest likelihood ratio is at least, as a logarithm."""
    found = 0.0
    for outcome in {*first, *second}:
        counts = first[outcome], second[outcome]
        more, fewer = max(counts), max(min(counts), 1)
        found = max(found, math.log(more / fewer) - SURE * math.sqrt(1 / more + 1 / fewer))
    return found


@pytest.mark.parametrize(("statistic", "max_contributions", "width"), CASES.values(), ids=CASES)
def test_no_outcome_tells_of_a_row(statistic: Statistic, max_contributions: int, width: float) -> None:
    first = outcomes(statistic, FEW, max_contributions, width)
    second = outcomes(statistic, MORE, max_contributions, width)
    assert surely_told(first, second) <= statistic.epsilon


def test_the_noise_of_a_count_is_no_larger_than_it_has_to_be() -> None:
    """The mean distance of discrete Laplace noise of scale 2 is 1 / sinh(1/2), within seven deviations."""
    planned = plan(Statistic("count", 0.5))
    distance = np.mean([abs(planned.release(FEW).value - 6) for _ in range(RELEASES)])
    assert distance == pytest.approx(1 / math.sinh(0.5), rel=0.2)


def test_the_test_finds_noise_that_is_too_small() -> None:
    """With noise for one row, and a person who has three."""
    statistic = Statistic("count", 0.5)
    three = np.append(FEW, [1.0, 2.0, 3.0])
    assert surely_told(outcomes(statistic, FEW, 1, 1.0), outcomes(statistic, three, 1, 1.0)) > 0.5
    assert surely_told(outcomes(statistic, FEW, 3, 1.0), outcomes(statistic, three, 3, 1.0)) <= 0.5
