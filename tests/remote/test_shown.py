"""What a notebook and a terminal show of pointers and of what they bring: the library's own lines."""

from __future__ import annotations

import html
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink.duet.asking.mocks.mock_shown import html_of, text_of
from tests.remote.conftest import Bench

SERIES = pd.Series([1.5, 2.5, 3.5], index=["a", "b", "c"], name="dose")
OBJECTS = {
    "series": SERIES,
    "frame": SERIES.to_frame(),
    "index": pd.Index([f"label {number}" for number in range(40)]),
    "groups": pd.Series([1.0, 2.0], pd.MultiIndex.from_tuples([("x", 1), ("y", 2)])),
    "polars frame": pl.DataFrame({"a": [1, 2]}),
    "polars series": pl.Series("a", [1, 2]),
    "array": np.arange(40.0).reshape(10, 4),
    "tensor": torch.zeros(4, 3),
    "dict": {"first": SERIES, "second": np.zeros((3, 2))},
}


def lines_of(obj: Any) -> list[str]:
    return repr(obj).expandtabs(4).splitlines()


@pytest.mark.parametrize("name", OBJECTS)
def test_an_object_is_shown_by_the_lines_of_its_library(name: str) -> None:
    obj = OBJECTS[name]
    assert text_of(obj).split("\n") == lines_of(obj)
    shown = html_of("result 1", obj)
    if hasattr(obj, "_repr_html_"):
        assert obj._repr_html_() in shown
    else:
        found = re.search("<pre>(.*)</pre>", shown, re.DOTALL)
        assert found is not None
        assert html.unescape(found[1]).split("\n") == lines_of(obj)


def test_words_of_the_owner_cannot_command_a_terminal_nor_a_notebook() -> None:
    evil = pd.Series(["\x1b[2Jgone", "<script>x</script>"])
    assert "\x1b" not in text_of(evil)
    assert "\\x1b[2Jgone" in text_of(evil)
    assert "<script>" not in html_of("result <1>", evil)
    assert "result &lt;1&gt;" in html_of("result <1>", evil)


def test_a_frame_that_has_no_html_is_shown_as_text() -> None:
    with pd.option_context("display.notebook_repr_html", False):
        assert "<pre>   dose\na   1.5" in html_of("result 1", SERIES.to_frame())


def test_a_pointer_to_a_series_prints_as_a_series(bench: Bench) -> None:
    mock = pd.Series([11.5, 12.5, 13.5], index=["a", "b", "c"], name="dose")
    shared = bench.share(SERIES, "doses", mock=mock)
    doubled = shared * 2
    assert repr(doubled).split("\n")[1:] == [
        *repr(mock * 2).split("\n")[:-1],
        "Name: dose, dtype: float64>",
    ]
    assert "a    23.0\nb    25.0\nc    27.0\nName: dose" in doubled._repr_html_()
    value = doubled.get(reason="how it prints")
    assert repr(value) == repr(SERIES * 2)
    both = bench.scientist.fetch({"twice": doubled, "as it is": shared}, reason="how they print")
    assert repr(both) == repr({"twice": SERIES * 2, "as it is": SERIES})
    assert "\\n" not in repr({"twice": doubled})
