"""Mates have the schema of their mock, and differ from it in what a program may depend on."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays

from duetlink.compute.mocks.mates import BEYOND, GAPS, KINDS, TIES, mate
from duetlink.data import values

FRAME = pd.DataFrame(
    {
        "age": [20, 30, 40, 50, 60, 25] * 4,
        "pay": np.arange(24.0),
        "town": ["Bonn", "Jena", "Ulm"] * 8,
        "seen": pd.to_datetime(["2020-01-01", "2020-02-01"] * 12),
        "ill": [True, False] * 12,
        "kind": pd.Categorical(["a", "b", "a"] * 8, categories=["a", "b", "c"]),
        "count": pd.array([1, 2, None] * 8, dtype="Int64"),
    }
)
TABLE = pl.DataFrame(
    {
        "age": [20, 30, 40] * 4,
        "pay": np.arange(12.0),
        "town": ["Bonn", "Jena", "Ulm"] * 4,
        "day": [dt.date(2020, 1, 1)] * 12,
        "seen": [dt.datetime(2020, 1, 1)] * 12,
        "ill": [True, False] * 6,
        "parts": [[1], [2, 3]] * 6,
    }
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_mate_of_a_frame_has_its_schema(kind: str) -> None:
    made = mate(FRAME, kind, "people", [50, "Bonn", 2.5])
    assert made.dtypes.tolist() == FRAME.dtypes.tolist()
    assert list(made.columns) == list(FRAME.columns)
    assert len(made) == 24
    assert mate(TABLE, kind, "people", [50, "Bonn"]).schema == TABLE.schema


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_mock_and_constants_have_the_same_mate(kind: str) -> None:
    made = mate(FRAME, kind, "people", [50])
    pd.testing.assert_frame_equal(made, mate(FRAME, kind, "people", [50]))
    assert not made.equals(mate(FRAME, kind, "other people", [50]))
    assert not made.equals(FRAME)


def test_gaps_are_items_that_are_missing() -> None:
    made = mate(FRAME, GAPS, "people")
    assert [bool(made[name].isna().any()) for name in FRAME] == [
        *(False, True, True, True, False, True, True),
    ]
    assert mate(pd.Series([1.5]), GAPS, "one").isna().tolist() == [True]
    assert mate(TABLE, GAPS, "people").null_count().row(0)[:3] != (0, 0, 0)


def test_beyond_are_values_that_the_mock_has_not() -> None:
    made = mate(FRAME, BEYOND, "people", [7, "Kiel", "2031-05-06"])
    assert made.age.max() == 62
    assert {6, 7, 8} <= set(made.age)
    assert (made.pay.min(), made.pay.max()) == (-46.0, 69.0)
    assert {"", "a b c d", "17", "Kiel", "Kiel Kiel"} <= set(made.town)
    assert {pd.Timestamp("1960-02-29"), pd.Timestamp("2031-05-06")} <= set(made.seen)
    assert set(made.index) - set(FRAME.index)


def test_ties_are_few_values_and_repeated_labels() -> None:
    made = mate(FRAME, TIES, "people")
    assert made.age.nunique() == 3
    assert made.index.duplicated().any()
    assert made.index.is_monotonic_increasing
    assert mate(np.arange(12.0).reshape(4, 3), TIES, "x")[:, 0].tolist() == (
        mate(np.arange(12.0).reshape(4, 3), TIES, "x")[:, 2].tolist()
    )


def test_truth_values_have_other_shares_in_each() -> None:
    shares = [int(mate(np.arange(10) > 4, kind, "x").sum()) for kind in KINDS]
    assert shares == [2, 5, 8]
    assert [int(mate(TABLE, kind, "x")["ill"].sum()) for kind in KINDS] == [2, 6, 10]


def test_labels_that_are_asked_for_are_there_and_may_be_there_twice() -> None:
    frame = FRAME.set_index("town")
    assert "Kiel" in mate(frame, BEYOND, "people", ["Kiel"]).index
    assert mate(frame, TIES, "people", ["Kiel"]).index.tolist().count("Kiel") == 2
    levels = FRAME.set_index(["town", "age"])
    assert mate(levels, TIES, "people").index.duplicated().any()


def test_of_a_large_mock_only_the_first_rows_differ() -> None:
    mock = pd.DataFrame({"a": np.arange(30_000.0), "b": ["x"] * 30_000})
    for kind in KINDS:
        made = mate(mock, kind, "large")
        pd.testing.assert_frame_equal(made.iloc[10_000:], mock.iloc[10_000:])
        assert not made.iloc[:10_000].equals(mock.iloc[:10_000])
    assert mate(torch.arange(20_000.0), BEYOND, "large")[10_000:].tolist() == list(range(10_000, 20_000))
    assert mate(np.arange(20_000), BEYOND, "large").shape == (20_000,)
    assert len(mate(pl.Series(range(20_000)), BEYOND, "large")) == 20_000
    assert len(mate(pd.Index(range(20_000)), TIES, "large")) == 20_000


def test_within_containers_each_object_has_its_mate() -> None:
    made = mate({"x": np.arange(4), "y": [np.arange(3.0), "text"], "n": 3}, BEYOND, "both")
    assert made["x"].dtype == np.int64
    assert made["n"] in (4, 5)
    assert len(made["y"]) == 2
    odd = object()
    assert mate(odd, GAPS, "odd") is odd


@given(
    arrays.arrays(
        st.one_of(arrays.scalar_dtypes(), arrays.unicode_string_dtypes(), arrays.byte_string_dtypes()),
        arrays.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=5),
    ),
    st.lists(st.one_of(st.integers(), st.floats(), st.text(max_size=5)), max_size=5),
)
def test_any_array_has_mates_of_its_shape(array: np.ndarray, constants: list[Any]) -> None:
    for kind in KINDS:
        made = mate(array, kind, "any", constants)
        assert (made.shape, made.dtype.kind) == (array.shape, array.dtype.kind)
        values.encode(made, plain_nan=True)
