"""What is shown of a value before it travels: its kind and shape, none of its content."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.values import Summary, summarise


@pytest.mark.parametrize(
    ("obj", "kind", "detail"),
    [
        (7, "int", ""),
        ("secret", "str", "6 characters"),
        (b"abc", "bytes", "3 bytes"),
        ([1, 2, 3, 4, 5], "list", "5 items"),
        ({"a": 1}, "dict", "1 item"),
        (np.zeros((3000, 3000)), "numpy.ndarray", "float64 (3000, 3000)"),
        (np.float32(1), "numpy.float32", ""),
        (np.zeros(2, "i4,f8"), "numpy.ndarray", "2 fields (2,)"),
        (torch.zeros(2, 3), "torch.Tensor", "float32 (2, 3)"),
        (torch.nn.Parameter(torch.zeros(2)), "torch.nn.Parameter", "float32 (2,)"),
        (pd.DataFrame(np.zeros((569, 31))), "pandas.DataFrame", "569 rows × 31 columns"),  # noqa: RUF001
        (pd.Series(["x"], dtype="category"), "pandas.Series", "1 row, category"),
        (pa.table({"a": range(1000)}), "pyarrow.Table", "1,000 rows × 1 column"),  # noqa: RUF001
        (pa.schema([("a", pa.int8())]), "pyarrow.Schema", "1 field"),
        (pl.DataFrame({"a": [1, 2]}), "polars.DataFrame", "2 rows × 1 column"),  # noqa: RUF001
        (pl.Series(["a"], dtype=pl.Enum(["a", "secret"])), "polars.Series", "1 row, Enum"),
    ],
)
def test_kind_and_detail(obj: Any, kind: str, detail: str) -> None:
    summary = summarise(obj)
    assert (summary.kind, summary.detail) == (kind, detail)


def test_a_summary_is_a_frozen_value() -> None:
    assert summarise([]) == Summary("list", "0 items", summarise([]).size_bytes)
    with pytest.raises(AttributeError):
        summarise([]).kind = "x"  # type: ignore[misc]
