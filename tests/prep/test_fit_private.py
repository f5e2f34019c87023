"""Bounds from data, with noise and at a price."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from duetlink.compute.prep.steps import Scale
from duetlink.compute.privacy.ledger import Ledger
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
