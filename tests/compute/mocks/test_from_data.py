"""What is computed from the data where the owner allows it, and only there."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.compute.mocks import Mock, make
from duetlink.data.values import encode
from duetlink.errors import SettingError
from tests.compute.mocks.pairs import PAIRS

ALL = Mock(from_data=("bounds", "categories", "missing", "index"))


@pytest.mark.parametrize("library", PAIRS)
def test_everything_may_be_allowed_for_everything(library: str) -> None:
    for name, pair in PAIRS[library].items():
        for obj in pair:
            made = make(obj, ALL)
            assert type(made) is type(obj), name
            encode(made)


FLOATS = [5.5, 6.5, float("inf"), float("nan")] * 5


@pytest.mark.parametrize(
    "obj",
    [
        np.array(FLOATS),
        torch.tensor(FLOATS),
        torch.tensor(FLOATS, dtype=torch.bfloat16),
        pd.Series(FLOATS),
        pd.Series(FLOATS, dtype=object),
        pl.Series([None if value != value else value for value in FLOATS]),
        pa.array(FLOATS, from_pandas=True),
        FLOATS,
    ],
    ids=lambda obj: type(obj).__module__.split(".")[0],
)
def test_bounds_are_the_finite_ones_and_missing_values_as_many(obj: Any) -> None:
    made: Any = make(obj, Mock(from_data=("bounds", "missing")))
    values = [x.as_py() if isinstance(x, pa.Scalar) else x for x in made]
    floats = np.array([np.nan if value is None else float(value) for value in values])
    assert np.isnan(floats).sum() == 5
    assert 5.5 <= np.nanmin(floats) <= np.nanmax(floats) <= 6.5
    only_bounds: Any = make(obj, Mock(from_data=("bounds",)))
    assert not any(value != value or value is None for value in only_bounds)


def test_times_keep_to_the_data_s_range_to_the_nanosecond() -> None:
    moment = pd.Timestamp("2020-01-01T00:00:00.123456789")
    for series in (pd.Series([moment]), pd.Series([moment.tz_localize("Asia/Tokyo")])):
        made: Any = make(series, Mock(from_data=("bounds",)))
        assert made[0] == series[0]
    assert (
        make(pa.array([moment.value], pa.timestamp("ns")), Mock(from_data=("bounds",)))[0].value
        == moment.value
    )


@pytest.mark.parametrize(
    "kind", ["str", "object", "category", "string[pyarrow]", "polars", "enum", "arrow", "list"]
)
def test_categories_are_of_columns_in_which_each_occurs_twice(kind: str) -> None:
    def column(texts: list[str]) -> Any:
        match kind:
            case "polars":
                return pl.Series(texts)
            case "enum":
                return pl.Series(texts, dtype=pl.Enum(sorted(set(texts))))
            case "arrow":
                return pa.array(texts).dictionary_encode()
            case "list":
                return texts
        return pd.Series(texts, dtype=kind)

    def values(made: Any) -> set[str]:
        return set(made.to_pylist() if isinstance(made, pa.Array) else made)

    allowed = Mock(from_data=("categories",))
    assert values(make(column(["Bonn", "Lyon"] * 5), allowed)) == {"Bonn", "Lyon"}
    once = values(make(column([*["Bonn", "Lyon"] * 5, "Ada's"]), allowed))
    assert not once & {"Bonn", "Lyon", "Ada's"}
    many = values(make(column([f"id {number}" for number in range(51)] * 2), allowed))
    assert not any(text.startswith("id") for text in many)


def test_integers_are_categories_too_but_floats_and_times_are_not() -> None:
    allowed = Mock(from_data=("categories",))
    assert set(make(np.array([3, 7] * 5), allowed).tolist()) == {3, 7}
    assert set(make(torch.tensor([3, 7] * 5), allowed).tolist()) == {3, 7}
    assert not set(make(np.array([3.5, 7.5] * 5), allowed).tolist()) & {3.5, 7.5}
    assert not make(pd.Series(pd.to_datetime(["2020", "2021"] * 5)), allowed).isin(["2020", "2021"]).any()


def test_one_column_is_allowed_by_its_name_and_all_its_values_with_it() -> None:
    frame = pd.DataFrame(
        {"town": ["Bonn", "Lyon", "Rome"], "name": ["Ada", "Bob", "Cy"], "age": [30, 40, 50]}
    )
    made: Any = make(frame, Mock(from_data=("categories:town", "bounds:age")))
    assert set(made.town) == {"Bonn", "Lyon", "Rome"}
    assert not set(made.name) & {"Ada", "Bob", "Cy"}
    assert made.age.between(30, 50).all()


def test_what_the_owner_gives_is_not_computed() -> None:
    frame = pd.DataFrame({"age": [30, 40] * 5, "town": ["Bonn"] * 10})
    made: Any = make(
        frame, Mock(bounds={"age": (0, 9)}, categories={"town": ["x"]}, from_data=("bounds", "categories"))
    )
    assert made.age.max() <= 9
    assert set(made.town) == {"x"}


def test_the_index_is_a_copy_of_as_many_labels_as_there_are_rows() -> None:
    pairs = pd.MultiIndex.from_tuples([("Ada", 1), ("Bob", 2), ("Cy", 3)], names=["who", "n"])
    made: Any = make(pd.DataFrame({"v": [1, 2, 3]}, index=pairs), Mock(rows=2, from_data=("index",)))
    assert made.index.tolist() == [("Ada", 1), ("Bob", 2)]
    assert made.index.levels[0].tolist() == ["Ada", "Bob"]
    series = pd.Series([1.0, 2.0], index=np.array([10, 20]))
    made = make(series, Mock(from_data=("index",)))
    assert made.index.tolist() == [10, 20]
    assert not np.shares_memory(made.index.to_numpy(), series.index.to_numpy())
    with pytest.raises(SettingError, match="fewer than rows=5"):
        make(series, Mock(rows=5, from_data=("index",)))


def test_without_leave_nothing_of_an_index_is_used_even_if_its_name_has_bounds() -> None:
    category = pd.CategoricalIndex(["Ada", "Bob", "Cy"], name="who")
    made: Any = make(pd.DataFrame({"v": [1, 2, 3]}, index=category), Mock(from_data=("categories", "bounds")))
    assert not set(made.index) & {"Ada", "Bob", "Cy"}
    made = make(pd.DataFrame({"v": [1, 2, 3]}, index=category), Mock(categories={"who": ["x", "y"]}))
    assert set(made.index) == {"x", "y"}
