"""Categories from data: those that are not rare, with noise and at a price."""

from __future__ import annotations

import math
from fractions import Fraction
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from duetlink.compute.privacy.categories import select
from duetlink.compute.privacy.ledger import Ledger
from duetlink.data.prep.one_hot import OneHot
from duetlink.duet.objects.budget import Budget
from duetlink.errors import BudgetExceeded, PrepError, SettingError
from duetlink.prep import Prep

TABLE = pa.table(
    {
        "work": ["private"] * 500 + ["public"] * 300 + ["farm"] * 199 + ["juggler"],
        "kids": pa.array([0, 1, 2, None] * 250, pa.int8()),
        "owns": [True, False] * 500,
        "age": np.arange(1_000) % 90,
        "rate": np.arange(1_000) / 7,
    }
)
OPEN = Prep().one_hot("work", unknown="ignore")


@pytest.mark.parametrize("rows", [1, 3])
@pytest.mark.parametrize(("epsilon", "delta"), [("0.5", 1e-6), ("1", 0.01), ("3", 1e-9)])
def test_a_value_of_one_person_comes_out_with_a_probability_of_delta_at_most(
    epsilon: str, delta: float, rows: int
) -> None:
    """Exactly: P(Z >= n) of discrete Laplace noise Z of scale s is exp(-n / s) / (1 + exp(-1 / s))."""
    found = select(str, Fraction(epsilon), delta, max_contributions=rows)
    assert found.epsilon <= Fraction(epsilon)
    assert found.scale == pytest.approx(rows / float(epsilon))

    def probability(threshold: int) -> float:
        """That a value comes out of those that one person alone has; of the worst split of the rows."""
        return max(
            1
            - (1 - math.exp(-(threshold - rows // values) / found.scale) / (1 + math.exp(-1 / found.scale)))
            ** values
            for values in range(1, rows + 1)
        )

    assert probability(found.threshold) <= delta
    if rows == 1:  # and no threshold that is much lower would do
        assert probability(found.threshold - 2) > delta


def test_single_values_come_out_as_rarely_as_the_formula_says() -> None:
    """Of 200,000 values of one row each, within five standard deviations."""
    found = select(int, Fraction(1), 0.01)
    released = len(found.release(dict.fromkeys(range(200_000), 1))) / 200_000
    expected = math.exp(-(found.threshold - 1) / found.scale) / (1 + math.exp(-1 / found.scale))
    assert released == pytest.approx(expected, abs=5 * math.sqrt(expected / 200_000))
    assert 0.001 < expected <= 0.01


def test_frequent_categories_come_out_and_a_single_one_does_not() -> None:
    with pytest.raises(PrepError, match="categories of 'work' are open"):
        OPEN.run(TABLE)
    assert OPEN.open_columns == ("work",)
    assert not OPEN.row_stable
    assert OPEN.code() == "Prep().one_hot('work', unknown='ignore')"
    assert Prep.from_json(OPEN.to_json()) == OPEN
    found = OPEN.fit_private(TABLE, 1, delta=1e-9)
    assert found == Prep().one_hot("work", ["farm", "private", "public"], unknown="ignore")
    assert found.run(TABLE).column("work=farm").sum() == 199


@pytest.mark.parametrize("engine", ["pyarrow", "polars", "duckdb"])
def test_categories_of_each_type_and_bounds_share_a_budget(engine: str) -> None:
    prep = (
        Prep()
        .one_hot("kids", unknown="ignore")
        .scale("age", within=(0, 150))
        .one_hot("owns", unknown="ignore")
        .select("age", "owns=true")
    )
    found = prep.fit_private(TABLE, 9, quantiles=(0.05, 0.95), delta=1e-6, engine=engine)
    kids, age, owns, _ = found.steps
    assert kids == OneHot("kids", (0, 1, 2), "ignore")
    assert owns == OneHot("owns", (False, True), "ignore")
    assert age.bounds == pytest.approx((4, 85), abs=6)  # type: ignore[attr-defined]


def test_it_is_paid_before_and_an_exhausted_budget_is_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.set_budget("people", 2)
    OPEN.fit_private(TABLE, Budget(1), delta=1e-6, ledger=ledger, asset="people")
    assert ledger.spent("people") == 1
    assert ledger.history("people")[-1].what == "fit_private: at delta 1e-06: categories of work"
    with pytest.raises(PrepError, match="no category of 'work' is frequent enough"):
        OPEN.fit_private(TABLE.slice(999), Budget(1), delta=1e-9, ledger=ledger, asset="people")
    assert ledger.spent("people") == 2
    with pytest.raises(BudgetExceeded):
        OPEN.fit_private(TABLE, Budget(1), delta=1e-6, ledger=ledger, asset="people")


def test_what_cannot_be_fitted_costs_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.set_budget("people", 5)
    for prep, delta, words in (
        (OPEN, None, "need delta="),
        (OPEN, 0.0, "delta is 0.0"),
        (OPEN, 1.0, "delta is 1.0"),
        (OPEN, math.nan, "delta is nan"),
        (OPEN, 1e-13, "at least"),
        (Prep().scale("age", within=(0, 150)), 1e-6, "none are open"),
        (Prep().cast(age="text").one_hot("age", unknown="ignore"), 1e-6, "row by row|may fail"),
        (Prep().split(seed=1).one_hot("work", unknown="ignore"), 1e-6, "depend on others"),
        (Prep().one_hot("rate", unknown="ignore"), 1e-6, "is float64"),
        (Prep().one_hot("salary", unknown="ignore"), 1e-6, "no column 'salary'"),
    ):
        with pytest.raises((SettingError, PrepError), match=words):
            prep.fit_private(TABLE, 1, delta=delta, ledger=ledger, asset="people")
    with pytest.raises(SettingError, match="unknown='ignore' alone"):
        Prep().one_hot("work")
    assert ledger.spent("people") == 0


def test_a_text_that_can_be_no_category_is_left_out() -> None:
    table = pa.table({"a": ["a\x00b"] * 500 + ["x" * 201] * 500 + ["b"] * 500 + [None] * 500})
    found = Prep().one_hot("a", unknown="ignore").fit_private(table, 1, delta=1e-6)
    assert found == Prep().one_hot("a", ["b"], unknown="ignore")
