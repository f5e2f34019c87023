"""Releases are near the truth where epsilon is large, and as far from it as they say where it is small."""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.compute.privacy.release import FAILED, ROWS, VALUE, plan
from duetlink.compute.privacy.statistic import PrivateStatistic, Statistic
from duetlink.errors import MissingLibrary, OperationFailed, SettingError

LARGE = 100.0
AGES = np.random.default_rng(7).normal(45, 20, 20_000)
CLAMPED = np.clip(AGES, 0, 120)

# kind -> statistic, the truth about AGES between 0 and 120, and how near to it epsilon 100 is, surely
NEAR: dict[str, tuple[Statistic, float, float]] = {
    "count": (Statistic("count", LARGE), 20_000, 1),
    "sum": (Statistic("sum", LARGE, (0, 120)), float(CLAMPED.sum()), 60),
    "mean": (Statistic("mean", LARGE, (0, 120)), float(CLAMPED.mean()), 0.005),
    "variance": (Statistic("variance", LARGE, (0, 120)), float(CLAMPED.var()), 0.5),
    "median": (Statistic("quantile", LARGE, (0, 120), q=0.5), float(np.quantile(CLAMPED, 0.5)), 0.2),
    "quantile": (Statistic("quantile", LARGE, (0, 120), q=0.9), float(np.quantile(CLAMPED, 0.9)), 0.3),
}


def release(
    statistic: Statistic,
    column: Any,
    bounds: tuple[float, float] | None = None,
    *,
    max_contributions: int = 1,
) -> PrivateStatistic:
    return plan(statistic, bounds, max_contributions=max_contributions).release(column)


@pytest.mark.parametrize(("statistic", "truth", "near"), NEAR.values(), ids=NEAR)
def test_at_large_epsilon_it_is_the_truth(statistic: Statistic, truth: float, near: float) -> None:
    planned = plan(statistic)
    for _ in range(5):
        found = planned.release(AGES)
        assert isinstance(found.value, np.float64)
        assert abs(found.value - truth) <= near
        assert found.epsilon == LARGE


def test_the_mean_of_many_releases_is_the_truth() -> None:
    """No bias: 1,000 counts with noise of standard deviation 14 have a mean within 6 * 14 / sqrt(1000)."""
    planned = plan(Statistic("count", 0.1))
    assert abs(np.mean([planned.release(AGES[:50]).value for _ in range(1_000)]) - 50) < 2.7


# With probability 1 - 1e-8, of 1,000 releases that are within their bound 95 % of the time 912 to 981 are.
@pytest.mark.parametrize(
    ("statistic", "truth", "most"),
    [
        (Statistic("count", 0.1), 20_000, 981),
        (Statistic("sum", 0.1, (0, 120)), float(CLAMPED.sum()), 981),
        (Statistic("mean", 0.1, (0, 120)), float(CLAMPED.mean()), 1_000),
        (Statistic("variance", 0.1, (0, 120)), float(CLAMPED.var()), 1_000),
    ],
    ids=lambda value: value.kind if isinstance(value, Statistic) else "",
)
def test_the_stated_error_is_kept(statistic: Statistic, truth: float, most: int) -> None:
    planned = plan(statistic)
    found = [planned.release(AGES) for _ in range(1_000)]
    within = sum(abs(float(each.value) - truth) <= float(each.accuracy_95) for each in found)
    assert 912 <= within <= most
    assert {each.accuracy_unit for each in found} == {VALUE}


def test_the_stated_error_of_a_quantile_is_in_rows() -> None:
    """How many more rows are on the wrong side than at the best candidate."""
    planned = plan(Statistic("quantile", 0.1, q=0.25, candidates=tuple(range(0, 121, 5))))
    items = np.sort(CLAMPED)

    def wrong(candidate: float) -> float:
        below, above = np.sum(items < candidate), np.sum(items > candidate)
        return abs(0.75 * below - 0.25 * above)

    best = min(wrong(candidate) for candidate in range(0, 121, 5))
    found = [planned.release(CLAMPED) for _ in range(300)]
    assert {each.accuracy_unit for each in found} == {ROWS}
    assert sum(wrong(float(each.value)) - best <= each.accuracy_95 for each in found) >= 260
    assert found[0].accuracy_95 < 700


def test_the_stated_error_of_a_histogram_is_for_all_its_counts() -> None:
    edges = tuple(range(0, 130, 10))
    planned = plan(Statistic("histogram", 0.1, bins=edges))
    truth, _ = np.histogram(CLAMPED, edges)
    found = [planned.release(CLAMPED) for _ in range(500)]
    within = sum(bool(np.all(np.abs(each.value - truth) <= each.accuracy_95)) for each in found)
    assert 440 <= within <= 500


def test_a_histogram_counts_as_numpy_does() -> None:
    items = np.array([0, 0.5, 1, 1.5, 2, 2, 2.5, 3, 3, 3.5, -1, 99, np.nan, np.inf, -0.0])
    found = release(Statistic("histogram", LARGE, bins=(0, 1, 2, 3)), items)
    assert isinstance(found.value, np.ndarray)
    assert found.value.dtype == np.float64
    assert np.round(found.value).tolist() == [3, 2, 5]


def test_a_histogram_counts_categories() -> None:
    towns = ["Ulm"] * 30 + ["Bonn"] * 20 + ["Köln"] * 5 + [None] * 3
    statistic = Statistic("histogram", LARGE, categories=("Bonn", "Ulm", "Trier"))
    numbers = Statistic("histogram", LARGE, categories=(1, 2.5))
    columns = [
        pd.Series(towns),
        pd.Series(towns, dtype="category"),
        pl.Series(towns),
        np.array(towns, dtype=object),
    ]
    for column in columns:
        assert np.round(np.asarray(release(statistic, column).value)).tolist() == [20, 30, 0]
    for column in (
        np.array([1, 1, 2.5, 3, np.nan]),
        pl.Series([1.0, 1, 2.5, 3, None]),
        torch.tensor([1, 1, 2.5]),
    ):
        assert np.round(np.asarray(release(numbers, column).value)).tolist() == [2, 1]


COLUMNS: dict[str, Any] = {
    "numpy": np.array([1.0, 2.0, 3.0, np.nan]),
    "numpy, whole": np.array([1, 2, 3]),
    "numpy, narrow": np.array([1, 2, 3], dtype=np.int8),
    "numpy, single": np.array([1, 2, 3, np.nan], dtype=np.float32),
    "pandas": pd.Series([1.0, 2.0, 3.0, None], index=[7, 7, 7, 7]),
    "pandas, whole": pd.Series([1, 2, 3]),
    "pandas, nullable": pd.Series([1, 2, 3, None], dtype="Int64"),
    "polars": pl.Series([1.0, 2.0, 3.0, None, float("nan")]),
    "polars, whole": pl.Series([1, 2, None, 3]),
    "torch": torch.tensor([1.0, 2.0, 3.0, math.nan], requires_grad=True),
    "torch, whole": torch.tensor([1, 2, 3]),
}


@pytest.mark.parametrize("column", COLUMNS.values(), ids=COLUMNS)
def test_columns_of_all_libraries_are_the_same(column: Any) -> None:
    assert abs(float(release(Statistic("sum", LARGE, (0, 10)), column).value) - 6) < 3
    assert abs(float(release(Statistic("count", LARGE), column).value) - 3) < 2


def test_truth_values_are_zeros_and_ones() -> None:
    for column in (np.array([True] * 50), pd.Series([True] * 50), pl.Series([True] * 50), torch.ones(50) > 0):
        assert abs(float(release(Statistic("sum", LARGE, (0, 1)), column).value) - 50) < 1


def test_texts_are_counted() -> None:
    for column in (pd.Series(["a", None, "b"]), pl.Series(["a", None, "b"])):
        assert abs(float(release(Statistic("count", LARGE), column).value) - 2) < 1


ALL = (
    Statistic("count", LARGE),
    Statistic("sum", LARGE, (-1, 1)),
    Statistic("mean", LARGE, (-1, 1)),
    Statistic("variance", LARGE, (-1, 1)),
    Statistic("quantile", LARGE, (-1, 1), q=0.5),
    Statistic("quantile", LARGE, q=0, candidates=(0, 1)),
    Statistic("quantile", LARGE, q=1, candidates=(0, 1)),
    Statistic("histogram", LARGE, bins=(0, 1)),
    Statistic("histogram", LARGE, categories=(0, 1)),
    Statistic("histogram", LARGE, categories=("a",)),
)
EXTREMES = np.array([np.inf, -np.inf, 1e308, -1e308, 5e-324, -0.0])


@pytest.mark.parametrize("statistic", ALL, ids=lambda statistic: statistic.words())
def test_any_data_makes_a_finite_statistic(statistic: Statistic) -> None:
    of_text = statistic.of_text
    for items in (np.array([]), np.array([np.nan] * 3), EXTREMES, np.array([0.5])):
        column = pd.Series(items, dtype="str") if of_text else items
        found = release(statistic, column)
        assert np.all(np.isfinite(found.value))
        assert 0 < found.accuracy_95 < math.inf


@pytest.mark.parametrize("statistic", ALL[2:5], ids=lambda statistic: statistic.kind)
def test_it_stays_where_it_can_be(statistic: Statistic) -> None:
    noisy = Statistic(statistic.kind, 1e-6, statistic.bounds, statistic.q)
    planned = plan(noisy)
    for _ in range(20):
        assert -1 <= planned.release(np.array([0.5])).value <= 1


def test_the_owners_bounds_are_for_a_statistic_without_its_own() -> None:
    many = np.full(10_000, 50.0)
    assert abs(float(release(Statistic("mean", LARGE), many, (0, 10)).value) - 10) < 0.1
    assert abs(float(release(Statistic("mean", LARGE, (0, 20)), many, (0, 10)).value) - 20) < 0.1


@pytest.mark.parametrize("kind", ["sum", "mean", "variance", "quantile"])
def test_without_bounds_nothing_is_planned(kind: str) -> None:
    with pytest.raises(SettingError, match="needs bounds"):
        plan(Statistic(kind, 1, q=0.5 if kind == "quantile" else None))


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, 10**7])
def test_max_contributions_is_a_number_of_rows(wrong: Any) -> None:
    with pytest.raises(SettingError, match="max_contributions"):
        plan(Statistic("count", 1), max_contributions=wrong)


def test_rows_of_one_person_are_paid_for() -> None:
    one = release(Statistic("count", 1), AGES).accuracy_95
    ten = release(Statistic("count", 1), AGES, max_contributions=10).accuracy_95
    assert 9 < ten / one < 11


MAKE: tuple[Callable[[float], Statistic], ...] = (
    lambda epsilon: Statistic("count", epsilon),
    lambda epsilon: Statistic("sum", epsilon, (-3, 120)),
    lambda epsilon: Statistic("mean", epsilon, (-3, 120)),
    lambda epsilon: Statistic("variance", epsilon, (1e-90, 1e90)),
    lambda epsilon: Statistic("quantile", epsilon, q=1 / 3, candidates=(1, 2, 3)),
    lambda epsilon: Statistic("histogram", epsilon, bins=(0, 1, 2)),
    lambda epsilon: Statistic("histogram", epsilon, categories=("a", "b")),
)


@settings(deadline=None, max_examples=40)
@given(st.floats(1e-6, 100), st.sampled_from(MAKE), st.integers(1, 10**6))
def test_no_more_is_spent_than_is_charged(
    epsilon: float, make: Callable[[float], Statistic], max_contributions: int
) -> None:
    """By OpenDP's own account, and to the last digit: a float may be over what it is written as."""
    planned = plan(make(epsilon), max_contributions=max_contributions)
    charged = Fraction(Decimal(repr(epsilon)))
    assert charged * Fraction(999, 1_000) <= planned.epsilon <= charged


@pytest.mark.parametrize(
    "column",
    [
        pd.Series(["secret", 3], dtype=object),
        np.array(["secret"]),
        np.array([[1.0]]),
        pl.Series(["secret"]),
        "secret",
        None,
    ],
    ids=str,
)
def test_a_failure_tells_nothing(column: Any) -> None:
    with pytest.raises(OperationFailed) as caught:
        release(Statistic("mean", 1, (0, 1)), column)
    assert str(caught.value) == FAILED == "the statistic could not be made"
    assert caught.value.__cause__ is caught.value.__context__ is None


def test_a_panic_tells_nothing_and_a_person_may_interrupt() -> None:
    class Panic(BaseException):
        pass

    class Column:
        def __init__(self, error: BaseException) -> None:
            self.error = error

        @property
        def ndim(self) -> int:
            raise self.error

    planned = plan(Statistic("histogram", 1, categories=("a",)))
    with pytest.raises(OperationFailed, match=FAILED):
        planned.release(Column(Panic("secret")))
    with pytest.raises(KeyboardInterrupt):
        planned.release(Column(KeyboardInterrupt()))


def test_a_plan_says_what_it_will_do_before_there_is_data() -> None:
    assert plan(Statistic("count", 0.5)).mechanism == "discrete Laplace noise of scale 2"
    assert plan(Statistic("sum", 0.5, (0, 120))).mechanism == "discrete Laplace noise of scale 240"
    assert (
        plan(Statistic("quantile", 0.5, (0, 1), q=0.5)).mechanism == "permute-and-flip among 1,001 candidates"
    )


def test_without_opendp_the_remedy_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    real = builtins.__import__

    def without(name: str, *arguments: Any, **keywords: Any) -> Any:
        if name.startswith("opendp"):
            raise ImportError("No module named 'opendp'")
        return real(name, *arguments, **keywords)

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(MissingLibrary, match=r"pip install 'duetlink\[privacy\]'"):
        plan(Statistic("count", 1))
