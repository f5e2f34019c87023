"""A preparation at the owner, by a pointer: the same as here, read by a person, and kept row by row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

from duetlink import Budget, Mock, Policy, Prep, errors
from duetlink.compute.prep.frames import prepare
from duetlink.duet.answering.requests import Request
from tests.remote.conftest import Bench

ROWS = 3_000
PREP = (
    Prep()
    .drop_missing("income")
    .one_hot("job", ["smith", "clerk"], unknown="ignore")
    .scale("age", (0, 100))
    .clip("income", (0, 5_000))
    .split(0.75, seed=3, by="id")
)


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    chance = np.random.default_rng(3)
    income = chance.normal(3_000, 900, ROWS)
    income[::7] = np.nan
    jobs = chance.choice(["smith", "clerk", "baker"], ROWS)
    return pd.DataFrame(
        {"id": np.arange(ROWS), "age": chance.integers(18, 90, ROWS), "income": income, "job": jobs}
    )


MOCK = Mock(
    bounds={"age": (18, 90), "income": (0, 9_000), "id": (0, ROWS)}, categories={"job": ["smith", "clerk"]}
)


@pytest.fixture
def people(bench: Bench, real: pd.DataFrame) -> Any:
    if "people" not in bench.owner.store:
        bench.owner.share(real, "people", mock=MOCK, budget=Budget(200))
    return bench.scientist.wait_object("people", 10)


def test_it_is_done_at_the_owner_as_it_would_be_here(bench: Bench, people: Any, real: pd.DataFrame) -> None:
    read: list[Request] = []

    def answer(request: Request) -> None:
        read.append(request)
        request.approve()

    bench.answer = answer
    found = people.prep(PREP)
    assert list(found.mock) == ["id", "age", "income", "job=smith", "job=clerk", "train"]
    assert found.mock["age"].max() <= 1
    pd.testing.assert_frame_equal(found.get(reason="to train"), prepare(real, PREP.to_json()))
    assert PREP.code() in str(read[0].code)
    assert str(read[0].code).endswith(f"people.prep({PREP.code()})")


def test_polars_too(bench: Bench, real: pd.DataFrame) -> None:
    frame = pl.DataFrame(real.to_dict("list")).with_columns(pl.col("income").fill_nan(None))
    pointer = bench.share(frame, "polars people")
    found = pointer.prep(PREP)["age"].sum().get(reason="to see")
    expected = PREP.run(frame).arrow()["age"].to_pylist()
    assert found == pytest.approx(sum(expected))


def test_what_does_not_fit_is_told_as_an_error_of_the_data(bench: Bench, people: Any) -> None:
    strict = Prep().one_hot("job", ["smith", "clerk"])  # of the mock all are one of them
    with pytest.raises(errors.OperationFailed, match="no declared category"):
        people.prep(strict)["age"].mean().get(reason="to see")


def test_only_a_preparation_prepares(bench: Bench, people: Any) -> None:
    with pytest.raises(errors.OperationRefused, match=r"duetlink\.Prep"):
        people.prep("drop_missing")
    with pytest.raises(errors.OperationRefused, match="frames of pandas or polars"):
        people["age"].prep(Prep())
    with pytest.raises(errors.PrepError, match="no column 'salary'"):
        people.prep(Prep().drop_missing("salary"))


def test_private_statistics_of_what_was_prepared(people: Any, real: pd.DataFrame) -> None:
    found = people.prep(PREP)
    expected = prepare(real, PREP.to_json())
    mean = found["age"].mean().dp(epsilon=10, bounds=(0, 1))
    assert float(mean) == pytest.approx(expected["age"].mean(), abs=5 * mean.accuracy_95)
    train = found[found["train"]]["job=smith"]
    count = train.astype("int64").sum().dp(epsilon=10, bounds=(0, 1))
    assert float(count) == pytest.approx(
        expected[expected.train]["job=smith"].sum(), abs=6 * count.accuracy_95
    )


@pytest.mark.parametrize(
    ("prep", "why"),
    [
        (Prep().one_hot("job", ["smith", "clerk"]), "may fail for a row"),
        (Prep().split(0.5, seed=1), "depends on other rows"),
        (Prep().cast(income="int64"), "may fail for a row"),
    ],
)
def test_no_private_statistic_of_what_is_not_row_by_row(people: Any, prep: Prep, why: str) -> None:
    try:
        found = people.prep(prep)
    except errors.PrepError:  # the mock has what does not fit
        found = people.prep(prep.__class__((*prep.steps[:-1],)).split(0.5, seed=1))
    with pytest.raises(errors.OperationRefused, match=why):
        found["age"].mean().dp(epsilon=1, bounds=(0, 100))


def test_a_policy_approves_what_was_made_by_exactly_this_preparation(
    bench: Bench, people: Any, real: pd.DataFrame
) -> None:
    asked: list[str] = []

    def answer(request: Request) -> None:
        asked.append(str(request.code))
        request.deny()

    bench.answer = answer
    bench.owner.policies.add(
        Policy("approve", name="prepared", prep=PREP, operations=("*prepare", "getitem", "mean"))
    )
    try:
        found = people.prep(PREP)["age"].mean().get(reason="to see")
        assert found == pytest.approx(prepare(real, PREP.to_json())["age"].mean())
        assert asked == []
        for other in (people, people.prep(Prep().drop_missing("age")), people[["age"]].prep(Prep())):
            with pytest.raises(errors.RequestDenied):
                other["age"].mean().get(reason="to see")
        assert len(asked) == 3
        assert bench.owner.policies.usage("prepared") == "1 time, 1 element"
    finally:
        bench.owner.policies.clear()
