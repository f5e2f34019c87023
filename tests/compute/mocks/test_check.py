"""Checks of a mock that the owner wrote by hand: it fits the object, and is not the data itself."""

from __future__ import annotations

import copy
import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.compute.mocks import check, make
from duetlink.errors import SettingError
from tests.compute.mocks.pairs import PAIRS

FRAME = pd.DataFrame({"age": [31, 45, 27], "town": ["Bonn", "Lyon", "Rome"], "score": [0.1, 0.2, 0.3]})
ARRAY = np.arange(20.0).reshape(10, 2)
TENSOR = torch.arange(20.0).reshape(10, 2)
POLARS = pl.DataFrame({"age": [31, 45, 27], "town": ["Bonn", "Lyon", "Rome"]})
TABLE = pa.table({"age": [31, 45, 27], "town": ["Bonn", "Lyon", "Rome"]})


@pytest.mark.parametrize(
    ("obj", "mock", "words"),
    [
        (FRAME, FRAME.to_dict(), "is a pandas.*DataFrame, the mock a dict"),
        (FRAME, FRAME[["age", "town"]], "lacks the columns 'score'"),
        (FRAME, FRAME.assign(x=1), "has the columns 'x'"),
        (FRAME, FRAME[["town", "age", "score"]], "another order"),
        (
            FRAME,
            FRAME.astype({"age": "int8"}) + FRAME.astype({"age": "int8"}),
            "column 'age' is int64, in the mock int8",
        ),
        (FRAME, FRAME.set_index(pd.Index(["a", "b", "c"])), "index is int64, in the mock str"),
        (FRAME, FRAME.set_index(pd.MultiIndex.from_tuples([(1, 2)] * 3)), "1 levels, in the mock 2"),
        (FRAME.age, FRAME.age.rename("years") + 1, "name is 'age', the mock's 'years'"),
        (pd.Series(pd.Categorical(["a"])), pd.Series(pd.Categorical([1])), "dtype is category"),
        (ARRAY, ARRAY.astype("f4"), "dtype is float64, the mock's float32"),
        (ARRAY, np.zeros(3), "2 dimensions, the mock 1"),
        (TENSOR, TENSOR.half(), "dtype is torch.float32"),
        (TENSOR, torch.zeros(1, 2, requires_grad=True), "requires_grad"),
        (POLARS, POLARS.select("age"), "columns are 'age', 'town', the mock's 'age'"),
        (POLARS, POLARS.cast({"age": pl.Int8}), "column 'age' is Int64, in the mock Int8"),
        (TABLE, TABLE.select(["age"]), "the mock's 'age'"),
        (TABLE, pa.table({"age": [1.0], "town": ["x"]}), "column 'age' is int64, in the mock double"),
        ([1.5, None], ["a"], "items are float, the mock's str"),
        ({"x": ARRAY}, {"y": np.zeros((1, 2))}, "parts 'x', the mock 'y'"),
        ((ARRAY, TENSOR), (np.zeros((1, 2)), np.zeros(3)), r"\[1\] the object is a torch.Tensor"),
    ],
)
def test_what_is_no_twin_is_refused_with_what_differs(obj: object, mock: object, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        check(obj, mock)
    assert 'mock="auto"' in str(caught.value)


def reversed_view(frame: pd.DataFrame) -> pd.DataFrame:
    return frame.iloc[::-1]


@pytest.mark.parametrize(
    ("obj", "mock", "words"),
    [
        (FRAME, FRAME, "the object itself"),
        (FRAME, FRAME.copy(deep=False), "shares memory with the object"),
        (FRAME, FRAME.head(2), "shares memory"),
        (FRAME, reversed_view(FRAME), "shares memory"),
        (FRAME, make(FRAME).assign(score=FRAME.score), "shares memory with the object .column 'score'"),
        (FRAME, make(FRAME).assign(town=FRAME.town), "column 'town'"),
        (
            FRAME.set_index("age"),
            make(FRAME.set_index("age")).set_index(FRAME.set_index("age").index),
            "index",
        ),
        (FRAME, FRAME.copy(), "shares memory|own values"),
        (FRAME[["age"]], FRAME[["age"]].copy(), "own values"),
        (FRAME[["age"]], FRAME[["age"]].head(2).copy(), "own first rows"),
        (FRAME.age, FRAME.age.copy(), "own values"),
        (ARRAY, ARRAY[5:], "shares memory"),
        (ARRAY[:, 0], ARRAY[:, 1], "shares memory"),
        (ARRAY, ARRAY.copy(), "own values"),
        (ARRAY, ARRAY[:3].copy(), "own first rows"),
        (np.array([1, np.nan]), np.array([1, np.nan]), "own values"),
        (TENSOR, TENSOR.detach(), "shares memory"),
        (TENSOR, TENSOR[7:], "shares memory"),
        (TENSOR, TENSOR.clone(), "own values"),
        (torch.nn.Parameter(TENSOR), torch.nn.Parameter(TENSOR), "shares memory"),
        (POLARS, POLARS.clone(), "shares memory"),
        (POLARS, POLARS.tail(2), "shares memory"),
        (POLARS, pl.DataFrame(POLARS.to_dict(as_series=False)), "own values"),
        (TABLE, TABLE.slice(1), "shares memory"),
        (TABLE, pa.table(TABLE.to_pydict()), "own values"),
        (pa.array([0.5, float("nan")]), pa.array([0.5, float("nan")]), "own values"),
        ((ARRAY, TENSOR), (ARRAY, torch.zeros(1, 2)), "itself|shares memory"),
        ((ARRAY, TENSOR), (ARRAY.copy(), torch.zeros(1, 2)), r"own values \(\[0\]\)"),
        (
            (ARRAY, np.ones((3, 2))),
            (np.zeros((3, 2)), ARRAY[:3]),
            r"shares memory with the object \(\[0\] array\)",
        ),
        ({"x": ARRAY, "n": 3}, {"x": ARRAY[:2], "n": 3}, "shares memory"),
        ({"x": ARRAY, "n": 3}, {"x": ARRAY[:2].copy(), "n": 3}, r"own first rows \(\['x'\]\)"),
        ([1.5, 2.5], [1.5, 2.5], "own values"),
        (["Bonn", "Lyon", "Rome"], ["Bonn", "Lyon"], "own first rows"),
        ({"ada": 1, "bob": 2}, {"ada": 1, "bob": 2}, "own values"),
        ("private", "private", "own value"),
        (3.25, 3.25, "own value"),
        (pd.Timestamp("2020-05-05"), pd.Timestamp("2020-05-05"), "own value"),
        (np.float64(3.25), np.float64(3.25), "own value"),
        (pa.scalar("private"), pa.scalar("private"), "own value"),
    ],
)
def test_the_data_by_mistake_is_refused(obj: object, mock: object, words: str) -> None:
    with pytest.raises(SettingError, match=words) as caught:
        check(obj, mock)
    assert "would show the data" in str(caught.value)


@pytest.mark.parametrize(
    ("obj", "mock"),
    [
        (True, True),  # by chance; a refusal would tell the value
        (None, None),
        (3, 3),
        (np.bool_(True), np.bool_(True)),
        (np.array([True, False]), np.array([True, False])),
        (torch.tensor(True), torch.tensor(True)),
        (pa.scalar(True), pa.scalar(True)),
        ((True, 3), (True, 3)),
        ((), ()),
        (pd.NaT, pd.NaT),
        (pd.NA, pd.NA),
        (np.array([0, 0, 0, 1]), np.array([0, 0])),  # invented zeros
        (FRAME, FRAME.head(0).copy()),
        (np.array(["a long text"]), np.array(["short"])),
        (pd.Series(pd.Categorical(["a", "b"])), pd.Series(pd.Categorical(["x", "x"]))),
        (pl.Series(["a"], dtype=pl.Enum(["a"])), pl.Series(["x"], dtype=pl.Enum(["x", "y"]))),
        (FRAME, pd.DataFrame({"age": [1], "town": ["x"], "score": [0.5]})),
        (FRAME.iloc[1:], pd.DataFrame({"age": [1], "town": ["x"], "score": [0.5]}, index=[5])),
        ({"ada": 1}, {"somebody": 2}),
        (("train", ARRAY), ("train", np.zeros((2, 2)))),
        ({1, 2}, {3}),
        (dt.UTC, dt.UTC),
        (object(), object()),
    ],
)
def test_an_honest_mock_is_taken(obj: object, mock: object) -> None:
    check(obj, mock)


# nothing is in them, or few values that are the same by chance
ORDINARY = {
    *("null", "empty", "nothing", "none", "no chunks", "no size", "columns only", "rows only", "NoneType"),
    *("unknown", "bool", "scalar bool", "int", "ints"),
}


@pytest.mark.parametrize("library", PAIRS)
def test_a_copy_of_any_object_is_refused(library: str) -> None:
    for name, (obj, _) in PAIRS[library].items():
        if name.removeprefix("series ") in ORDINARY:
            continue
        clone = obj.clone() if isinstance(obj, pl.Series | pl.DataFrame) else copy.deepcopy(obj)
        with pytest.raises(SettingError, match="would show the data"):
            check(obj, clone)
            raise AssertionError(name)
