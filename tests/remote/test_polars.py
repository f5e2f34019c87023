"""Plain Polars on pointers: expressions, selectors and types."""

from __future__ import annotations

import datetime
from typing import Any

import polars as pl
import polars.selectors as cs
import pytest
from polars.testing import assert_frame_equal

from duetlink import errors
from duetlink.duet.answering.requests import Request
from duetlink.duet.asking.pointers.remote import Result
from tests.remote.conftest import Bench


@pytest.fixture(scope="module")
def real() -> pl.DataFrame:
    days = [datetime.date(2024, 1, 1) + datetime.timedelta(days=number) for number in range(40)]
    return pl.DataFrame(
        {
            "day": days,
            "town": ["Ulm", "Bonn", "Jena", "Ulm"] * 10,
            "age": [number * 7 % 60 for number in range(40)],
            "pay": [None if number % 9 == 0 else number * 1.5 for number in range(40)],
        }
    )


@pytest.fixture
def people(bench: Bench, real: pl.DataFrame) -> Any:
    if "people" not in bench.owner.store:
        bench.share(real, "people", mock="auto")
    return bench.scientist.wait_object("people", 10)


OPERATIONS = {
    "filter": lambda d: d.filter(pl.col("age") > 30),
    "several conditions": lambda d: d.filter((pl.col("age") > 9) & (pl.col("town") == "Ulm"), pay=4.5),
    "select": lambda d: d.select(pl.col("town").str.to_uppercase(), m=pl.col("pay").mean()),
    "with_columns": lambda d: d.with_columns((pl.col("age") / 2).alias("half"), old=pl.col("age") > 40),
    "groups": lambda d: d.group_by("town").agg(pl.col("pay").mean().alias("m"), pl.len()).sort("town"),
    "when": lambda d: d.select(pl.when(pl.col("age") > 30).then(pl.lit("old")).otherwise(pl.lit("young"))),
    "over": lambda d: d.with_columns(pl.col("age").rank("dense").over("town").alias("r")),
    "dates": lambda d: d.filter(pl.col("day") >= datetime.date(2024, 1, 20)).select(
        pl.col("day").dt.weekday()
    ),
    "a list": lambda d: d.filter(pl.col("town").is_in(["Ulm", "Jena"])),
    "a dict": lambda d: d.cast({"age": pl.Float32, "day": pl.Datetime("ms")}),
    "selectors": lambda d: d.select(cs.numeric() - cs.by_name("age")).select(pl.all().fill_null(0)),
    "drop by a selector": lambda d: d.drop(cs.string()),
    "lazy": lambda d: d.lazy().filter(pl.col("age") > 30).select(pl.col("pay").sum()).collect(),
    "windows": lambda d: d.select(pl.col("age").rolling_mean(3).round(2), pl.col("pay").diff()),
    "dynamic groups": lambda d: d.sort("day").group_by_dynamic("day", every="1w").agg(pl.col("age").max()),
    "a sorted frame": lambda d: d.sort(pl.col("pay").fill_null(0), "age", descending=[True, False]).head(4),
    "a join": lambda d: d.join(d.group_by("town").agg(pl.col("age").max().alias("oldest")), on="town").sort(
        "day"
    ),
}


@pytest.mark.parametrize("name", OPERATIONS)
def test_plain_expressions_are_what_they_are_here(people: Any, real: pl.DataFrame, name: str) -> None:
    made = OPERATIONS[name](people)
    assert isinstance(made, Result)
    assert_frame_equal(made.get(), OPERATIONS[name](real))


def test_an_expression_is_placed(bench: Bench, people: Any, real: pl.DataFrame) -> None:
    young = bench.scientist.remote(pl.col("age") < 20)
    assert_frame_equal(people.filter(young).get(), real.filter(pl.col("age") < 20))


def test_the_owner_reads_what_was_written(bench: Bench, people: Any) -> None:
    codes = []

    def answer(request: Request) -> None:
        codes.append(str(request.code))
        request.approve()

    bench.answer = answer
    people.filter(pl.col("age") > 3).get()
    assert codes == ['people.filter(pl.col("age") > pl.lit(3))']


def test_a_function_is_refused_before_anything_is_sent(people: Any) -> None:
    with pytest.raises(errors.OperationRefused, match=r"@duet\.remote"):
        people.select(pl.col("age").map_batches(lambda age: age + 1))
