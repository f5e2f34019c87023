"""What a twin looks like: its object's schema, as many rows as wanted, values that ordinary code can use."""

from __future__ import annotations

import datetime as dt
from collections import OrderedDict
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.compute.mocks import Mock, check, make, row_count, synthetic
from duetlink.data.values import encode
from duetlink.errors import SettingError
from tests.compute.mocks.pairs import PAIRS

# these hold what a twin has
ALIKE = {"range", "small index", "tuple", *(name for name in PAIRS["pandas"] if name.startswith("index "))}


@pytest.mark.parametrize("library", PAIRS)
def test_a_twin_has_the_schema_and_shares_nothing_with_its_object(library: str) -> None:
    for name, pair in PAIRS[library].items():
        for obj in pair:
            made = make(obj)
            assert type(made) is type(obj), name
            assert row_count(made) == row_count(obj), name
            if name not in ALIKE:
                check(obj, made)


@pytest.mark.parametrize("library", PAIRS)
def test_twins_of_other_seeds_can_be_encoded_too(library: str) -> None:
    for one, _ in PAIRS[library].values():
        encode(make(one, Mock(seed=5)))


def test_the_seed_tells_twins_apart() -> None:
    assert make(1.0) == make(2.0)
    assert make(1.0) != make(1.0, Mock(seed=1))


def test_integers_are_labels_that_a_classifier_can_learn() -> None:
    made: Any = make(np.zeros(100, np.int64))
    assert np.unique(made).tolist() == list(range(10))
    assert np.bincount(made).tolist() == [10] * 10
    made = make(np.zeros(2, bool))
    assert sorted(made.tolist()) == [False, True]


def test_floats_are_normal_and_texts_are_placeholders() -> None:
    made: Any = make(np.zeros(10_000))
    assert abs(made.mean()) < 0.05
    assert abs(made.std() - 1) < 0.05
    assert sorted(make(["private"] * 12))[:4] == ["text 0", "text 0", "text 1", "text 1"]
    assert make(np.array(["pri"])).dtype == "U3"
    assert set(make(np.array(["pri"] * 10)).tolist()) == set("0123456789")


def test_times_are_spread_from_the_year_2000() -> None:
    made: Any = make(pd.Series(pd.to_datetime(["1900-01-01"] * 1000)))
    assert pd.Timestamp("2000-01-01") <= made.min() < pd.Timestamp("2000-02-01")
    assert pd.Timestamp("2009-12-01") < made.max() < pd.Timestamp("2010-01-01")
    day = make(dt.date(1900, 1, 1))
    assert type(day) is dt.date
    assert 2000 <= day.year < 2010


def test_rows_may_be_fewer_or_more() -> None:
    frame = pd.DataFrame({"a": [1, 2, 3]}, index=["x", "y", "z"])
    assert list(make(frame, Mock(rows=2)).index) == ["row 0", "row 1"]
    assert len(make(frame, Mock(rows=50))) == 50
    assert make(np.zeros((3, 4)), Mock(rows=7)).shape == (7, 4)
    one, other = make((np.zeros((3, 4)), [1, 2, 3]), Mock(rows=7))
    assert (len(one), len(other)) == (7, 7)


def test_large_objects_get_as_many_rows_as_fit_all_parts_alike(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(synthetic, "MAX_BYTES", 1000)
    assert make(np.zeros((1000, 5))).shape == (25, 5)
    assert make(np.zeros((3, 500))).shape == (1, 500)
    features, labels = make((torch.zeros(300, 4), torch.zeros(300, dtype=torch.int64)))
    assert len(features) == len(labels) == 300 * 1000 // 7200
    assert make(pl.DataFrame({"a": [1.0] * 1000})).height == 125
    assert make(pa.table({"a": [1.0] * 1000})).num_rows == 125
    assert len(make(pd.DataFrame({"a": [1.0] * 1000}))) == 62
    assert len(make([1.0] * 1000)) == 15


def test_the_index_is_of_the_same_kind_and_ascending() -> None:
    values = {"v": [1.0, 2.0, 3.0]}
    made: Any = make(pd.DataFrame(values, index=pd.RangeIndex(9, 3, -2, name="r")))
    assert made.index.equals(pd.RangeIndex(3))
    assert made.index.name == "r"
    made = make(pd.DataFrame(values, index=pd.DatetimeIndex(["2021", "1990", "2021"], name="when")))
    assert made.index.tolist() == list(pd.to_datetime(["2000-01-01", "2000-01-02", "2000-01-03"]))
    assert made.index.freq is None
    made = make(pd.DataFrame(values, index=pd.MultiIndex.from_arrays([[5, 5, 5], ["a", "b", "c"]])))
    assert made.index.tolist() == [(0, "row 0"), (1, "row 1"), (2, "row 2")]


def test_names_are_kept_and_names_left_out_are_not() -> None:
    frame = pd.DataFrame(np.ones((2, 3)), columns=pd.CategoricalIndex(["a", "b", "secret"], name="n"))
    frame.attrs = {"secret": 1}
    made: Any = make(frame.iloc[:, :2])
    assert made.columns.tolist() == ["a", "b"]
    assert made.columns.categories.tolist() == ["a", "b"]
    assert made.columns.name == "n"
    assert made.attrs == {}


def test_categories_are_three_placeholders() -> None:
    made: Any = make(pd.Series(pd.Categorical(["x", "y"] * 5, ["y", "x"], ordered=True)))
    assert made.cat.categories.tolist() == ["category 0", "category 1", "category 2"]
    assert made.cat.ordered
    assert made.nunique() == 3
    of_enum: Any = make(pl.Series(["x"] * 9, dtype=pl.Enum(["x"]))).dtype
    assert of_enum.categories.to_list() == [
        "category 0",
        "category 1",
        "category 2",
    ]


def test_keys_are_schema_only_of_a_dict_of_columns() -> None:
    assert list(make({"age": [1, 2], "town": ["a", "b"]})) == ["age", "town"]
    assert list(make({"ada": 1, "bob": 2})) == ["key 0", "key 1"]
    assert list(make({"ada": [1, 2], "bob": [2]})) == ["key 0", "key 1"]
    assert list(make({5: np.ones(2), 9: np.ones(2)})) == [0, 1]
    state = make(OrderedDict(weight=torch.ones(2, 3), bias=torch.ones(2)))
    assert type(state) is OrderedDict
    assert {name: tuple(value.shape) for name, value in state.items()} == {"weight": (2, 3), "bias": (2,)}


def test_a_tensor_keeps_its_gradient_s_flag_and_a_parameter_stays_one() -> None:
    made: Any = make(torch.nn.Parameter(torch.ones(2, 3), requires_grad=False))
    assert type(made) is torch.nn.Parameter
    assert not made.requires_grad
    assert make(torch.ones(2, requires_grad=True)).requires_grad


@pytest.mark.parametrize(
    ("obj", "words"),
    [
        (object(), "builtins.object|a object"),
        ({1, 2}, "a set"),
        ([1, "a"], "a list of int, str"),
        ({1: 2, "a": 3}, "neither all texts nor all integers"),
        (np.array([None]), "Python objects"),
        (np.ma.masked_array([1]), "MaskedArray"),
        (pd.Series(pd.arrays.SparseArray([0, 0, 1])), "Sparse"),
        (pl.LazyFrame({"a": [1]}), r"\.collect\(\)"),
        (pl.Series([object()]), "Object"),
        (torch.ones(2).to_sparse(), "not dense"),
        (torch.nn.Linear(1, 1), "Linear"),
        ((np.ones(2), object()), "a object"),
    ],
)
def test_of_anything_else_a_mock_is_given_by_hand(obj: object, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        make(obj)
    assert "mock" in str(caught.value)


def test_an_object_that_contains_itself_is_refused() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(SettingError, match="contains itself"):
        make(loop)
    with pytest.raises(SettingError, match="contains itself"):
        check(loop, [[]])


def test_objects_of_one_schema_have_different_twins() -> None:
    """Otherwise their difference is zero on the mocks, and a matrix made of both is singular."""
    a, b = (make(np.zeros(50), name=name) for name in "ab")
    assert isinstance(a, np.ndarray)
    assert isinstance(b, np.ndarray)
    assert not np.array_equal(a, b)
    np.testing.assert_array_equal(a, make(np.ones(50), name="a"))
