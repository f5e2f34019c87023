"""The sampler against the exact probabilities."""

from __future__ import annotations

import math

import numpy as np
import pytest

from duetlink.groups.secure.noise import Coins, discrete_gaussian


def chi_square(found: np.ndarray, chances: dict[int, float]) -> float:
    """How far counts are from what they should be, in standard deviations; rare values count together."""
    common = {value: chance for value, chance in chances.items() if chance * len(found) > 20}
    counts = [int((found == value).sum()) for value in common]
    wanted = [chance * len(found) for chance in common.values()]
    counts.append(len(found) - sum(counts))
    wanted.append(len(found) - sum(wanted))
    square = sum((count - want) ** 2 / want for count, want in zip(counts, wanted, strict=True))
    return float((square - len(common)) / math.sqrt(2 * len(common)))


def gaussian(sigma: int) -> dict[int, float]:
    weights = {y: math.exp(-(y**2) / (2 * sigma**2)) for y in range(-20 * sigma, 20 * sigma + 1)}
    return {y: weight / math.fsum(weights.values()) for y, weight in weights.items()}


@pytest.mark.parametrize("sigma", [1, 2, 7])
def test_every_value_is_as_probable_as_it_should_be(sigma: int) -> None:
    assert abs(chi_square(discrete_gaussian(sigma, 40_000), gaussian(sigma))) < 10


def test_a_wrong_distribution_would_be_seen() -> None:
    rounded = np.rint(np.random.default_rng(1).normal(0, 1, 40_000)).astype(np.int64)
    assert chi_square(rounded, gaussian(1)) > 15


@pytest.mark.parametrize("sigma", [2**10, 2**24])
def test_of_many_steps_it_is_a_normal_distribution(sigma: int) -> None:
    found = discrete_gaussian(sigma, 20_000) / sigma
    assert abs(found.mean()) < 5 / math.sqrt(len(found))
    assert found.var() == pytest.approx(1, abs=5 * math.sqrt(2 / len(found)))
    for at in (0.5, 1, 2):
        chance = math.erf(at / math.sqrt(2))
        assert (np.abs(found) < at).mean() == pytest.approx(
            chance, abs=5 * math.sqrt(chance * (1 - chance) / len(found))
        )
    assert len(np.unique(np.mod(found * sigma, 16))) == 16


@pytest.mark.parametrize(("above", "under"), [(0, 1), (1, 3), (1, 1), (5, 2)])
def test_coins_of_an_exponential(above: int, under: int) -> None:
    count = 20_000
    found = Coins().exp(np.full(count, above, np.uint64), np.full(count, under, np.uint64)).mean()
    chance = math.exp(-above / under)
    assert abs(found - chance) <= 5 * math.sqrt(chance * (1 - chance) / count)


def test_whole_numbers_below_a_bound_that_divides_no_power_of_two() -> None:
    bound = 2**63 + 2**62  # a modulo alone would make the lower third twice as probable
    found = Coins().below(np.full(30_000, bound, np.uint64))
    assert found.max() < bound
    assert (found < bound // 3).mean() == pytest.approx(1 / 3, abs=0.015)
    assert not Coins().below(np.ones(10, np.uint64)).any()


def test_two_draws_are_never_the_same() -> None:
    assert not np.array_equal(discrete_gaussian(1000, 100), discrete_gaussian(1000, 100))


@pytest.mark.parametrize("sigma", [0, -1, 2**24 + 1])
def test_what_cannot_be_drawn_exactly_is_refused(sigma: int) -> None:
    with pytest.raises(ValueError, match="1 to 16777216"):
        discrete_gaussian(sigma, 1)
