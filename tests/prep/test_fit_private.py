"""Bounds from data, with noise and at a price."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from duetlink.compute.privacy.ledger import Ledger
from duetlink.data.prep.scale import Scale
from duetlink.duet.objects.budget import Budget
from duetlink.errors import BudgetExceeded, PrepError, SettingError
from duetlink.prep import Prep

ROWS = 5_000
TABLE = pa.table(
    {
        "age": np.random.default_rng(0).integers(20, 60, ROWS),
        "pay": np.random.default_rng(1).normal(3_000, 100, ROWS),
        "id": np.arange(ROWS),
    }
)
OPEN = (
    Prep()
    .drop_missing()
    .scale("age", within=(0, 150))
    .clip("pay", within=(0.0, 10_000.5))
    .split(seed=1, by="id")
)


def test_open_bounds_are_found_near_the_quantiles() -> None:
    with pytest.raises(PrepError, match="open"):
        OPEN.run(TABLE)
    found = OPEN.fit_private(TABLE, 4.0, quantiles=(0.05, 0.95))
    assert isinstance(found, Prep)
    assert found.open_columns == ()
    _, age, pay, _ = found.steps
    assert isinstance(age, Scale)
    assert age.bounds == pytest.approx((22, 58), abs=4)
    assert all(type(bound) is int for bound in age.bounds or ())
    low, high = pay.bounds  # type: ignore[attr-defined]
    assert low == pytest.approx(np.quantile(TABLE["pay"], 0.05), abs=60)
    assert high == pytest.approx(np.quantile(TABLE["pay"], 0.95), abs=60)
    assert found.run(TABLE).column("age").max() == 1.0


def test_it_is_paid_before_it_is_made(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.set_budget("people", 5)
    OPEN.fit_private(TABLE, Budget(4), ledger=ledger, asset="people")
    assert ledger.spent("people") == 4
    assert ledger.history("people")[-1].what == "fit_private: bounds of age, pay"
    with pytest.raises(BudgetExceeded):
        OPEN.fit_private(TABLE, "1.5", ledger=ledger, asset="people")
    assert ledger.spent("people") == 4


def test_what_cannot_be_fitted_costs_nothing(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.set_budget("people", 5)
    for prep in (
        Prep().scale("age", (0, 1)),
        Prep().cast(pay="int64").scale("age", within=(0, 1)),
        Prep().split(seed=1).scale("age", within=(0, 1)),
    ):
        with pytest.raises(SettingError):
            prep.fit_private(TABLE, 1, ledger=ledger, asset="people")
    with pytest.raises(PrepError, match="no column"):
        Prep().scale("salary", within=(0, 1)).fit_private(TABLE, 1, ledger=ledger, asset="people")
    with pytest.raises(SettingError, match="which, asset="):
        OPEN.fit_private(TABLE, 1, ledger=ledger)
    with pytest.raises(SettingError, match="give more"):
        OPEN.fit_private(TABLE, 1e-6)
    assert ledger.spent("people") == 0


SPLIT = Prep().split(0.5, seed=3, by="id")
TRAINS = np.asarray(SPLIT.run(TABLE).column("train"))
APART = TABLE.set_column(0, "age", pa.array(np.where(TRAINS, 20 + np.arange(ROWS) % 21, 90), pa.int64()))


@pytest.mark.parametrize("engine", ["pyarrow", "polars", "duckdb"])
@pytest.mark.parametrize("first", [True, False])
def test_bounds_are_those_of_the_rows_to_train_with(engine: str, first: bool) -> None:
    """Wherever the split stands: all test rows are 90, the others 20 to 40."""
    scale = Prep().scale("age", within=(0, 150)).steps
    prep = Prep((*SPLIT.steps, *scale) if first else (*scale, *SPLIT.steps))
    found = prep.fit_private(APART, 8, quantiles=(0.05, 0.95), engine=engine)
    (age,) = (step for step in found.steps if isinstance(step, Scale))
    assert age.bounds == pytest.approx((20, 40), abs=3)
    assert [step.name for step in found.steps] == [step.name for step in prep.steps]


def test_categories_are_those_of_the_rows_to_train_with() -> None:
    words = pa.array(np.where(TRAINS, "train", "test"))
    table = TABLE.append_column("word", words)
    found = Prep((*Prep().one_hot("word", unknown="ignore").steps, *SPLIT.steps)).fit_private(
        table, 10, delta=1e-6
    )
    assert list(found.run(table).columns) == ["age", "pay", "id", "word=train", "train"]


def test_a_split_has_to_be_known_where_bounds_are_open(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    ledger.set_budget("people", 5)
    texts = TABLE.set_column(2, "id", TABLE["id"].cast("string"))
    for prep, words in (
        (Prep().scale("age", within=(0, 1)).split(0.5, seed=1), "split with by="),
        (
            Prep()
            .scale("age", within=(0, 1))
            .cast({"id": "int64"}, invalid="missing")
            .split(0.5, seed=1, by="id"),
            "'id', by which split tells rows apart, is changed .* put split before",
        ),
    ):
        with pytest.raises(SettingError, match=words):
            prep.fit_private(texts, 1, ledger=ledger, asset="people")
    assert ledger.spent("people") == 0
