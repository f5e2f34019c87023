"""What cannot travel: the error names the type, where it sits and what to do."""

from __future__ import annotations

import enum
import re
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse
import torch
from matplotlib.figure import Figure

from duetlink.data.values import encode, summarise
from duetlink.errors import DuetError, UnsupportedValue
from duetlink.testing.values import round_trip

Point = namedtuple("Point", "x y")  # noqa: PYI024


class Array(np.ndarray[Any, Any]):
    pass


@dataclass
class Patient:
    age: int


class Sex(enum.Enum):
    FEMALE = "f"


class Grid:
    """As those of xarray."""

    def to_dataframe(self) -> pd.DataFrame: ...


class Picture:
    """As those of PIL."""

    @property
    def __array_interface__(self) -> dict[str, object]:
        raise AssertionError("its pixels are not read to say what to do")


class Weights(OrderedDict[str, int]):
    pass


@pytest.mark.parametrize(
    ("obj", "message"),
    [
        ({"weights": [1, 2, 3, object()]}, r"^value\['weights'\]\[3\] is a builtins.object: "),
        (Point(1, 2), r"tests\.data\.values\.test_refused\.Point: .*send its \._asdict\(\)"),
        (Patient(41), r"Patient: .*send dataclasses\.asdict\(…\)"),
        (Sex.FEMALE, r"Sex: .*send its \.value"),
        (Path("a.csv"), r"Path: .*\.read_bytes\(\)"),
        (deque([1]), r"collections\.deque: .*send list\(…\)"),
        (scipy.sparse.csr_matrix([[1]]), r"\.data, \.row, \.col and \.shape of its \.tocoo\(\)"),
        (Figure(), r"Figure: .*\.savefig\(file, format='png'\)"),
        (Grid(), r"Grid: .*send its \.to_dataframe\(\)"),
        (Picture(), r"Picture: .*send np\.asarray\(…\)"),
        ({1: BytesIO(b"x")}, r"BytesIO: read it first"),
        (defaultdict(list), r"collections.defaultdict: .*send dict\(…\)"),
        (Counter("a"), r"collections.Counter: .*send dict\(…\)"),
        (Weights(), "Weights: "),
        (lambda: 1, "a function: code does not travel; .* @duet.remote"),
        (int, "builtins.type: code does not travel"),
        (iter([1]), r"send list\(…\)"),
        (ValueError("x"), "builtins.ValueError"),
        ([2**14_280], r"value\[0\] is a builtins.int: it has 14,281 bits; send \.to_bytes\(…\)"),
        (np.full(100_001, None), r"dtype object with 100,001 items.*\.astype\(str\).*pandas frame"),
        (np.array([[1, object()]]), r"^value\[1\] is a builtins.object: "),
        (np.zeros(1, [("a", "O")]), "dtype object"),
        (np.ma.array([1]), r"\.filled"),
        (np.matrix([[1]]), r"np\.asarray"),
        (np.zeros(1, "i4,f4").view(np.recarray), r"\.view\(np\.ndarray\)"),
        (np.arange(2).view(Array), "Array"),
        (np.dtype("f4"), "numpy"),
        (torch.nn.Linear(1, 1), r"\.state_dict\(\)"),
        (torch.eye(2).to_sparse(), r"\.to_dense\(\)"),
        (torch.eye(2, device="meta"), "meta device"),
        (torch.ones(1).as_subclass(type("T", (torch.Tensor,), {})), "T: "),
        (torch.Size([1]), "tuple"),
        (torch.float32, "torch"),
        (pl.DataFrame({"a": [1]}).lazy(), r"\.collect\(\)"),
        (pl.DataFrame({"big": pl.Series([1], dtype=pl.Int128)}), "column 'big' holds Int128"),
        (pl.DataFrame({"o": pl.Series([object()])}), "column 'o' holds Object"),
        (pd.DataFrame({"a": [1], "bad": [object()]}), r"value\['bad'\]\[0\] is a builtins.object"),
        (pd.DataFrame({"s": pd.arrays.SparseArray([0, 1])}), r"value\['s'\] .*\.sparse\.to_dense\(\)"),
        (pd.DataFrame({"a": [1]}).groupby("a"), "pandas"),
    ],
)
def test_the_error_names_type_place_and_remedy(obj: Any, message: str) -> None:
    for take in (encode, summarise):
        with pytest.raises(TypeError, match=message) as caught:
            take(obj)
        assert isinstance(caught.value, UnsupportedValue)
        assert isinstance(caught.value, DuetError)


def test_an_integer_travels_while_python_writes_it_in_decimal() -> None:
    longest = -(2**14_280) + 1
    assert round_trip(longest) == longest
    assert len(str(longest)) == 4_300  # 4,299 digits and the sign


def test_cycles_are_found() -> None:
    looped: list[Any] = [1]
    looped.append({"self": looped})
    with pytest.raises(
        UnsupportedValue, match=re.escape("value[1]['self'] is a builtins.list: it contains itself")
    ):
        encode(looped)


def test_the_same_object_twice_is_no_cycle() -> None:
    part = [1]
    assert round_trip([part, part]) == [[1], [1]]


def test_depth_64_travels_and_65_does_not() -> None:
    def nested(levels: int) -> Any:
        value: Any = 1
        for _ in range(levels):
            value = [value]
        return value

    assert round_trip(nested(64)) == nested(64)
    with pytest.raises(UnsupportedValue, match="nested deeper than 64"):
        encode(nested(65))


def test_too_many_parts_are_refused_by_the_sender(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.data.values.writer.MAX_NODES", 100)
    with pytest.raises(UnsupportedValue, match="more than 100 parts; use arrays or frames"):
        encode(list(range(100)))


def test_attributes_of_an_ordered_dict_travel_only_for_torch() -> None:
    state = torch.nn.Linear(2, 1).state_dict()
    received = round_trip(state)
    assert list(received) == ["weight", "bias"]
    assert received._metadata == state._metadata  # type: ignore[attr-defined]
    torch.nn.Linear(2, 1).load_state_dict(received)
    odd: Any = OrderedDict()
    odd.note = 1
    with pytest.raises(UnsupportedValue, match="attributes"):
        encode(odd)
