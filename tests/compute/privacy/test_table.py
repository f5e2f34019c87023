"""What is public of an asset, and what makes a column of each library usable."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink.compute.privacy.column import category_codes, count_present, numbers
from duetlink.compute.privacy.table import Column, Matrix, PrivateTable, Table, table_of
from duetlink.errors import SettingError

TABLES: dict[str, tuple[Any, Table]] = {
    "array": (np.zeros(3), Column("numpy", "float")),
    "whole array": (np.zeros(3, dtype=np.int64), Column("numpy", "int")),
    "narrow array": (np.zeros(3, dtype=np.uint8), Column("numpy", "narrow")),
    "array of uint64": (np.zeros(3, dtype=np.uint64), Column("numpy", "other")),
    "array of halves": (np.zeros(3, dtype=np.float16), Column("numpy", "other")),
    "array of the other byte order": (np.zeros(3, dtype=">f8"), Column("numpy", "other")),
    "array of texts": (np.array(["a"]), Column("numpy", "text")),
    "array of objects": (np.array([None]), Column("numpy", "other")),
    "matrix": (np.zeros((3, 2), dtype=np.bool_), Matrix("numpy", "bool", 2)),
    "tensor": (torch.zeros(3), Column("torch", "float")),
    "whole tensor": (torch.zeros((3, 2), dtype=torch.int64), Matrix("torch", "int", 2)),
    "brain floats": (torch.zeros(3, dtype=torch.bfloat16), Column("torch", "other")),
    "series": (pd.Series([1, 2]), Column("pandas", "int")),
    "texts and none": (pd.Series(["a", None], dtype=object), Column("pandas", "text")),
    "texts and numbers": (pd.Series(["a", 3], dtype=object), Column("pandas", "other")),
    "texts that may be NA": (pd.Series(["a"], dtype="string"), Column("pandas", "other")),
    "numbers that may be NA": (pd.Series([1], dtype="Int64"), Column("pandas", "other")),
    "numbers of Arrow": (pd.Series([1], dtype="int64[pyarrow]"), Column("pandas", "other")),
    "times": (pd.Series(pd.to_datetime(["2026-01-01"])), Column("pandas", "other")),
    "categories": (pd.Series(["a", "b"], dtype="category"), Column("pandas", "text")),
    "categories of numbers": (pd.Series([1, 2], dtype="category"), Column("pandas", "other")),
    "frame": (pd.DataFrame({"a": [1.0], "b": ["x"]}), PrivateTable("pandas", {"a": "float", "b": "text"})),
    "frame by numbers": (pd.DataFrame([[1, True]]), PrivateTable("pandas", {0: "int", 1: "bool"})),
    "frame by pairs": (pd.DataFrame({("a", "b"): [1]}), PrivateTable("pandas", {})),
    "polars": (
        pl.DataFrame({"a": [1], "b": [None], "c": ["x"]}),
        PrivateTable("polars", {"a": "int", "b": "other", "c": "text"}),
    ),
    "series of polars": (pl.Series([1.0, None]), Column("polars", "float")),
}


@pytest.mark.parametrize(("obj", "table"), TABLES.values(), ids=TABLES)
def test_a_table_is_its_library_and_kinds(obj: Any, table: Table) -> None:
    assert table_of(obj) == table


class Mine(np.ndarray):
    """An array that may do anything."""


@pytest.mark.parametrize(
    "obj",
    [
        [1, 2],
        {"a": np.zeros(3)},
        3.0,
        np.zeros(()),
        np.zeros((2, 2, 2)),
        np.zeros(2).view(Mine),
        np.ma.masked_array([1, 2], [True, False]),
        pd.DataFrame([[1, 2]], columns=["a", "a"]),
        pd.Index([1, 2]),
        pl.DataFrame({"a": [1]}).lazy(),
        torch.zeros(3).to_sparse(),
        torch.nn.Parameter(torch.zeros(3)),
    ],
    ids=lambda obj: type(obj).__name__,
)
def test_what_has_no_rows_to_speak_of_is_refused(obj: Any) -> None:
    with pytest.raises(SettingError, match="private statistics cannot be made of a"):
        table_of(obj)


def test_numbers_are_those_that_are_there() -> None:
    assert numbers(np.array([1.0, np.nan, np.inf])).tolist() == [1.0, np.inf]
    assert numbers(pl.Series([1, None, 3])).tolist() == [1.0, 3.0]
    assert numbers(pd.Series([True, False])).tolist() == [1.0, 0.0]
    assert not np.signbit(numbers(np.array([-0.0]))).any()


def test_numbers_are_a_copy() -> None:
    array = np.array([1.0, 2.0])
    numbers(array)[0] = 9
    assert array.tolist() == [1.0, 2.0]


def test_codes_are_places_among_the_categories() -> None:
    assert category_codes(pd.Series(["b", "a", None, "c"]), ("a", "b")).tolist() == [1, 0, 2]
    assert category_codes(np.array([2.0, np.nan, 7.0, -0.0]), (0.0, 2.0)).tolist() == [1, 2, 0]


def test_items_that_are_missing_are_not_there() -> None:
    columns = (
        np.array([1.0, np.nan]),
        pd.Series(["a", None]),
        pl.Series([1.0, None, float("nan")]),
        pl.Series(["a", None]),
        torch.tensor([1.0, float("nan")]),
    )
    assert [count_present(column) for column in columns] == [1, 1, 1, 1, 1]
