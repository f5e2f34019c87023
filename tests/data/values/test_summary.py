"""What is shown of a value before it travels: its kind and shape, none of its content."""

from __future__ import annotations

import datetime as dt
import decimal
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.data.values import Summary, encode, summarise


@pytest.mark.parametrize(
    ("obj", "kind", "detail"),
    [
        (7, "int", ""),
        (2**64 - 1, "int", ""),
        (2**64, "int", "65 bits"),
        (-(2**7000), "int", "7,001 bits"),
        ("secret", "str", "6 characters"),
        (b"abc", "bytes", "3 bytes"),
        ([1, 2, 3, 4, 5], "list", "5 items"),
        ({"a": 1}, "dict", "1 item"),
        (np.zeros((3000, 3000)), "numpy.ndarray", "float64 (3000, 3000)"),
        (np.float32(1), "numpy.float32", ""),
        (np.zeros(2, "i4,f8"), "numpy.ndarray", "2 fields (2,)"),
        (torch.zeros(2, 3), "torch.Tensor", "float32 (2, 3)"),
        (torch.nn.Parameter(torch.zeros(2)), "torch.nn.Parameter", "float32 (2,)"),
        (pd.DataFrame(np.zeros((569, 31))), "pandas.DataFrame", "569 rows × 31 columns"),
        (pd.Series(["x"], dtype="category"), "pandas.Series", "1 row, category"),
        (pa.table({"a": range(1000)}), "pyarrow.Table", "1,000 rows × 1 column"),
        (pa.schema([("a", pa.int8())]), "pyarrow.Schema", "1 field"),
        (pl.DataFrame({"a": [1, 2]}), "polars.DataFrame", "2 rows × 1 column"),
        (pl.Series(["a"], dtype=pl.Enum(["a", "secret"])), "polars.Series", "1 row, Enum"),
    ],
)
def test_kind_and_detail(obj: Any, kind: str, detail: str) -> None:
    summary = summarise(obj)
    assert (summary.kind, summary.detail) == (kind, detail)


@pytest.mark.parametrize(
    ("obj", "elements"),
    [
        (7, 1),
        (-(2**64) + 1, 1),
        (2**64, 2),
        (1.5, 1),
        (None, 1),
        ("secret", 6),
        ("", 1),
        (b"", 1),
        (b"abc", 3),
        ([], 1),
        ([(), [], ()], 3),  # what they are of could tell anything
        (slice(1, 2), 3),
        (decimal.Decimal("1.5"), 1),
        (decimal.Decimal("9" * 38), 2),
        ([1, [2, 3], (4.0,)], 4),
        ({"loss": 0.5}, 5),
        (range(10**9), 3),
        (dt.datetime(2026, 1, 1, tzinfo=dt.UTC), 1),
        (np.zeros((30, 40)), 1200),
        (np.zeros(0), 1),
        (np.zeros((7, 0, 9)), 2),  # so could a shape
        (np.zeros(3, "S0"), 3),
        (torch.zeros(7, 0, 9), 2),
        (np.complex128(1), 1),
        (np.zeros(3, "U7"), 21),
        (np.zeros(3, "S7"), 21),
        (np.zeros(3, "i4,f8"), 6),
        (np.str_("abc"), 3),
        (np.array(["a"], np.dtypes.StringDType()), None),
        (torch.zeros(2, 3), 6),
        ({"w": torch.zeros(2, 3), "b": torch.zeros(2)}, 10),
        (pd.DataFrame(np.zeros((5, 4))), 20),
        (pd.DataFrame(np.zeros((5, 4)), index=list("abcde")), 25),
        (pd.Series([1.0, 2.0]), 2),
        (pd.Series([1.0, 2.0], name=(1.5, ("Ada", 2.5))), 5),
        (pd.Series([1.0, 2.0], index=pd.RangeIndex(7, 11, 2)), 4),
        (pd.DataFrame({"a": [1]}).rename_axis([(1, 2, 3)]), 4),
        (pd.DataFrame({("a", 1.5): [1]}), 3),
        (pd.DataFrame(columns=["Ada", "Bob"]), 9),
        (pd.Series(["x"], dtype="category"), 1),
        (pd.MultiIndex.from_product([[1, 2], [3, 4]]), 8),
        (pd.Timestamp("2026-01-01"), 1),
        (pa.table({"a": range(1000), "b": range(1000)}), 2000),
        (pa.table({"a": [[1, 2]]}), None),
        (pa.chunked_array([[1, 2], [3]]), 3),
        (pa.scalar(1), 1),
        (pl.DataFrame({"a": [1, 2], "b": ["x", "y"]}), 4),
        (pl.Series([[1]]), None),
        (pl.DataFrame({"Ada": [], "Bob": []}), 2),
        (pl.Series(["a"], dtype=pl.Enum(["a", "Ada", "Bob"])), 3),
        (pa.table({"Ada": pa.array([], pa.int64()), "Bob": pa.array([], pa.int64())}), 2),
        (pa.DictionaryArray.from_arrays(pa.array([0]), pa.array(["a", "Ada"])), None),
        ([1, np.array(["a"], np.dtypes.StringDType()), 2], None),
        ([pd.DataFrame(np.zeros((5, 4))), 1], 21),
    ],
)
def test_how_much_data_it_is_in_numbers(obj: Any, elements: int | None) -> None:
    assert summarise(obj).elements == elements
    assert encode(obj).summary.elements == elements


def test_a_summary_is_a_frozen_value() -> None:
    assert summarise([]) == Summary("list", "0 items", summarise([]).size_bytes, 1)
    with pytest.raises(AttributeError):
        summarise([]).kind = "x"  # type: ignore[misc]
