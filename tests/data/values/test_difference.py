"""What counts as the same value, made twice."""

from __future__ import annotations

import contextlib
import math
import struct
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as npst

from duetlink.data.values import encode
from duetlink.data.values.difference import difference
from duetlink.errors import DuetError
from tests.data.values.test_properties import SETTINGS, dtypes, values


def body(obj: object) -> memoryview:
    return memoryview(b"".join(encode(obj, plain_nan=True).segments))


def found(one: object, other: object) -> tuple[str, str] | None:
    return difference(body(one), body(other))


ROUNDED = [
    (0.1 + 0.2, 0.3),
    (complex(1, 0.1 + 0.2), complex(1, 0.3)),
    (1e-17, 3e-17),  # what is left where all cancels out
    (np.float32(1), np.float32(1.00001)),
    (np.array([1e6, 1e-9]), np.array([1e6, 2e-9])),  # an error of the large one's
    (np.array([math.nan, math.inf, 1.0]), np.array([math.nan, math.inf, 1 + 1e-12])),
    (np.array([1, 2], np.float16), np.array([1, 2.002], np.float16)),
    (np.array([1 + 2j]), np.array([1 + 2j + 1e-12])),
    (np.array([(0.3, 1)], "f8,i4"), np.array([(0.1 + 0.2, 1)], "f8,i4")),
    (torch.tensor([0.1]), torch.tensor([0.10001])),
    (torch.tensor([1.0], dtype=torch.bfloat16), torch.tensor([1.0078], dtype=torch.bfloat16)),
    (pd.DataFrame({"a": [0.3], "b": ["x"]}), pd.DataFrame({"a": [0.1 + 0.2], "b": ["x"]})),
    (pd.Series([0.3, None], dtype="Float64"), pd.Series([0.1 + 0.2, None], dtype="Float64")),
    (pd.Index([0.3]), pd.Index([0.1 + 0.2])),
    (
        pl.DataFrame({"a": [0.3, None], "b": [[0.3], None]}),
        pl.DataFrame({"a": [0.1 + 0.2, None], "b": [[0.1 + 0.2], None]}),
    ),
    (pl.Series([{"a": 0.3}]), pl.Series([{"a": 0.1 + 0.2}])),
    (pa.chunked_array([[0.3], [1.0]]), pa.chunked_array([[0.1 + 0.2], [1.0]])),
    (pa.scalar(0.3), pa.scalar(0.1 + 0.2)),
    ([1, {"a": (0.3, "b")}], [1, {"a": (0.1 + 0.2, "b")}]),
    (np.arange(6.0).reshape(2, 3), np.asfortranarray(np.arange(6.0).reshape(2, 3))),
]

OTHERS = [
    (1.0, 1.00001, "1.0", "1.00001"),
    (1, 2, "1", "2"),
    (1, 1.0, "1", "1.0"),
    ("a", "b", "'a'", "'b'"),
    ([1], [1, 2], "[1]", "[1, 2]"),
    ([1, 2.0], [1, 3.0], "2.0", "3.0"),
    (np.arange(3.0), np.array([0, 1, 71.5]), "2.0 at [2]", "71.5 at [2]"),
    (np.zeros((2, 2)), np.eye(2), "0.0 at [0, 0]", "1.0 at [0, 0]"),
    (np.arange(3.0), np.arange(4.0), "float64 (3,)", "float64 (4,)"),
    (np.arange(3.0), np.arange(3), "float64 (3,)", "int64 (3,)"),
    (np.array([math.nan]), np.array([0.0]), "nan at [0]", "0.0 at [0]"),
    (np.array([math.inf]), np.array([-math.inf]), "inf at [0]", "-inf at [0]"),
    (np.array([True]), np.array([False]), "True at [0]", "False at [0]"),
    (torch.ones(2), torch.zeros(2), "1.0 at [0]", "0.0 at [0]"),
    (torch.ones(1), torch.ones(1).double(), "torch.float32 (1,)", "torch.float64 (1,)"),
    (pd.Series(["x", "y"]), pd.Series(["x", "z"]), "['x', 'y']", "['x', 'z']"),
    (pd.Series([1.0, 2.0]), pd.Series([1.0, 3.0]), "2.0 at [1]", "3.0 at [1]"),
    (
        pl.DataFrame({"a": [1.0, None]}),
        pl.DataFrame({"a": [1.0, 2.0]}),
        "[1.0, None] in 'a'",
        "[1.0, 2.0] in 'a'",
    ),
    (pl.DataFrame({"a": [1]}), pl.DataFrame({"b": [1]}), "1 row of a int64", "1 row of b int64"),
    (pl.Series(["x"], dtype=pl.Categorical), pl.Series(["y"], dtype=pl.Categorical), "['x']", "['y']"),
    (pa.schema([("a", pa.int64())]), pa.schema([("b", pa.int64())]), "a: int64", "b: int64"),
]


@pytest.mark.parametrize(("one", "other"), ROUNDED, ids=lambda value: type(value).__name__)
def test_what_is_rounded_otherwise_is_the_same(one: object, other: object) -> None:
    assert found(one, other) is None
    assert found(other, one) is None


@pytest.mark.parametrize(("one", "other", "here", "there"), OTHERS, ids=lambda value: type(value).__name__)
def test_what_differs_is_told_in_a_line_each(one: object, other: object, here: str, there: str) -> None:
    assert found(one, other) == (here, there)
    assert found(other, one) == (there, here)


def near(value: Any) -> Any:
    """The same with each float one bit further."""
    if isinstance(value, float):
        return math.nextafter(value, math.inf) if math.isfinite(value) and abs(value) < 1e300 else value
    if isinstance(value, (list, tuple)):
        return type(value)(map(near, value))
    return {key: near(item) for key, item in value.items()} if isinstance(value, dict) else value


@SETTINGS
@given(values)
def test_a_value_agrees_with_itself_rounded_otherwise(value: Any) -> None:
    assert found(value, near(value)) is None


@SETTINGS
@given(values, values)
def test_values_without_floats_agree_only_if_they_are_the_same_bytes(one: Any, other: Any) -> None:
    assume(not holds_float(one))
    assert (found(one, other) is None) == (body(one) == body(other))


def holds_float(value: Any) -> bool:
    if isinstance(value, (list, tuple)):
        return any(map(holds_float, value))
    if isinstance(value, dict):
        return any(map(holds_float, value.values()))
    return isinstance(value, (float, complex))


shapes = npst.array_shapes(min_dims=0, min_side=0, max_side=4)


@settings(SETTINGS, max_examples=80)
@given(dtypes.flatmap(lambda dtype: npst.arrays(dtype, shapes)))
def test_an_array_agrees_with_its_copy_in_another_order(array: np.ndarray[Any, Any]) -> None:
    assert found(array, array.copy(order="F")) is None


@SETTINGS
@given(
    npst.arrays(npst.integer_dtypes(), npst.array_shapes(max_side=4)),
    st.integers(0, 1000),
)
def test_an_array_differs_from_one_with_another_number(array: np.ndarray[Any, Any], place: int) -> None:
    other = array.copy()
    other.flat[place % other.size] ^= 1
    assert found(array, other) is not None


def test_all_nans_are_one() -> None:
    strange = struct.unpack("<d", struct.pack("<Q", 0x7FF8_0000_0000_0001))[0]
    assert difference(memoryview(b"".join(encode(strange).segments)), body(math.nan)) is None


@SETTINGS
@given(values, st.integers(0, 10_000), st.integers(1, 255))
def test_what_is_no_value_is_refused_and_nothing_else_is_raised(value: Any, place: int, flip: int) -> None:
    whole = body(value)
    spoilt = bytearray(whole)
    spoilt[place % len(spoilt)] ^= flip
    with contextlib.suppress(DuetError):
        difference(whole, memoryview(bytes(spoilt)))
