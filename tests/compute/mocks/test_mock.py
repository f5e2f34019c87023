"""The owner's description: checked when it is made, told in words, and light to import."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink.compute.mocks import Mock, describe
from duetlink.errors import SettingError


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"rows": 0}, "rows=0"),
        ({"rows": 1.5}, "rows=1.5"),
        ({"seed": -1}, "seed=-1"),
        (
            {"bounds": {"age": (120, 0)}},
            r"bounds of 'age' are \(120, 0\), the first above the second; swap them",
        ),
        ({"bounds": (0, float("inf"))}, "finite"),
        ({"bounds": (0, float("nan"))}, "finite"),
        ({"bounds": (1, 2, 3)}, "the least and the greatest"),
        ({"bounds": "ab"}, "the least and the greatest"),
        ({"bounds": {"age": 5}}, "bounds of 'age'"),
        ({"bounds": (0, pd.Timestamp("2020"))}, "of two kinds"),
        ({"categories": {"town": "Bonn"}}, "categories of 'town' are 'Bonn'; give a list"),
        ({"categories": []}, "empty"),
        ({"categories": ["a", None]}, "missing"),
        ({"from_data": "bounds"}, "is a text"),
        ({"from_data": ("mean",)}, "bounds, categories, missing, index"),
    ],
)
def test_what_cannot_be_used_is_refused_at_once(given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        Mock(**given)


def test_a_description_does_not_follow_later_changes_of_its_arguments() -> None:
    bounds = {"age": (0, 120)}
    mock = Mock(bounds=bounds)
    bounds["age"] = (5, 6)
    assert mock.bounds == {"age": (0, 120)}


FRAME = pd.DataFrame({"a": [1.0] * 1569})


@pytest.mark.parametrize(
    ("mock", "obj", "words"),
    [
        (Mock(), FRAME, "synthetic, 1,569 rows, from the schema"),
        (Mock(rows=1), FRAME, "synthetic, 1 row, from the schema"),
        (Mock(), 5.0, "synthetic, from the schema"),
        (Mock(), (FRAME, 5), "synthetic, from the schema"),
        (Mock(bounds=(0, 1)), np.zeros(3), "synthetic, 3 rows, from the schema; bounds given by the owner"),
        (
            Mock(bounds={"a": (0, 1), "b": (0, 1), "c": (0, 1)}, categories={"d": ["private"]}),
            FRAME,
            "synthetic, 1,569 rows, from the schema; bounds of 3 columns and categories of 1 column given "
            "by the owner",
        ),
        (
            Mock(from_data=("bounds", "missing", "index", "categories:a")),
            FRAME,
            "synthetic, 1,569 rows, from the schema; bounds, shares of missing values, the index, categories "
            "of 1 column computed from the data",
        ),
    ],
)
def test_a_twin_is_described_in_one_line_without_values(mock: Mock, obj: object, words: str) -> None:
    assert describe(mock, obj) == words


def test_importing_mocks_loads_no_array_library() -> None:
    program = "import sys, duetlink.compute.mocks; print(*sorted(set(sys.modules) & set(sys.argv[1:])))"
    heavy = ("numpy", "torch", "pyarrow", "pandas", "polars")
    done = subprocess.run(
        [sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""


def test_a_twin_of_one_library_loads_no_other() -> None:
    program = (
        "import sys, numpy; from duetlink.compute.mocks import check, make; obj = numpy.zeros(3);"
        "check(obj, make(obj)); make([1]); print(*sorted(set(sys.modules) & set(sys.argv[1:])))"
    )
    heavy = ("torch", "pyarrow", "pandas", "polars")
    done = subprocess.run(
        [sys.executable, "-c", program, *heavy], capture_output=True, text=True, check=True, timeout=60
    )
    assert done.stdout.strip() == ""
