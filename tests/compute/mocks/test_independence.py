"""A twin is made from the schema: two data sets of one schema have the same."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.compute.mocks import make
from duetlink.data.values import encode
from tests.compute.mocks.pairs import PAIRS


def encoded(obj: Any) -> bytes:
    return b"".join(encode(obj).segments)


@pytest.mark.parametrize("library", PAIRS)
def test_two_data_sets_of_one_schema_have_the_same_twin(library: str) -> None:
    for name, (one, other) in PAIRS[library].items():
        assert encoded(make(one)) == encoded(make(other)), name


@pytest.mark.parametrize("library", PAIRS)
def test_no_text_of_the_data_is_in_its_twin(library: str) -> None:
    for name, pair in PAIRS[library].items():
        for obj in pair:
            content = encoded(make(obj))
            for text in ("private", "confidential"):
                assert text.encode() not in content, name
                assert text.encode("utf-32-le") not in content, name


CELLS = {
    "float64": st.floats(),
    "int64": st.integers(-(2**63), 2**63 - 1),
    "str": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "object": st.none() | st.text(st.characters(exclude_categories=["Cs"]), max_size=5),
    "boolean": st.none() | st.booleans(),
    "category": st.none() | st.text("abc", min_size=1, max_size=2),
    "datetime64[ns]": st.none() | st.datetimes(pd.Timestamp(1700, 1, 1), pd.Timestamp(2200, 1, 1)),
}


@st.composite
def two_frames(draw: st.DrawFn) -> tuple[pd.DataFrame, pd.DataFrame]:
    dtypes = draw(st.lists(st.sampled_from(sorted(CELLS)), min_size=1, max_size=4))
    rows = draw(st.integers(0, 5))

    def frame() -> pd.DataFrame:
        columns = {}
        for number, dtype in enumerate(dtypes):
            cells = draw(st.lists(CELLS[dtype], min_size=rows, max_size=rows))
            if dtype == "category":
                texts = pd.Index(sorted({cell for cell in cells if cell is not None}), dtype="str")
                column = pd.Series(pd.Categorical(cells, categories=texts))
            else:
                column = pd.Series(cells, dtype=dtype)
            columns[f"column {number}"] = column
        index = draw(st.lists(st.text("xyz"), min_size=rows, max_size=rows))
        return pd.DataFrame(columns).set_index(pd.Index(index, dtype="str"))

    return frame(), frame()


@settings(max_examples=60, deadline=None)
@given(two_frames())
def test_frames_of_any_content_have_the_twin_of_their_schema(
    frames: tuple[pd.DataFrame, pd.DataFrame],
) -> None:
    one, other = frames
    assert encoded(make(one)) == encoded(make(other))


def test_what_earlier_objects_held_has_no_part_in_a_twin() -> None:
    import polars as pl

    before = encoded(make(pl.Series(["a"], dtype=pl.Categorical)))
    pl.Series([f"later {number}" for number in range(1000)], dtype=pl.Categorical)
    assert encoded(make(pl.Series(["a"], dtype=pl.Categorical))) == before


def test_bytes_between_and_behind_values_are_zero() -> None:
    gaps = np.dtype({"names": ["x", "y"], "formats": ["u1", "<f4"], "offsets": [3, 8], "itemsize": 20})
    twin: Any = make(np.ones(4, gaps))
    octets = twin.view(np.uint8).reshape(4, 20)
    assert not octets[:, [0, 1, 2, *range(4, 8), *range(12, 20)]].any()
    wide: Any = make(np.ones(100, np.longdouble))
    assert not wide.view(np.uint8).reshape(100, -1)[:, 10:].any() or np.finfo(np.longdouble).nmant != 63
