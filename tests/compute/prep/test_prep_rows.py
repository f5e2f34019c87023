"""A row more or less in a frame is a row more or less in what a row-stable preparation makes, no other."""

from __future__ import annotations

from collections import Counter
from typing import Any

import hypothesis.strategies as st
import pandas as pd
import polars as pl
from hypothesis import HealthCheck, given, settings

from duetlink.compute.prep.frames import PREPARE, prepare
from duetlink.compute.privacy.call import Unstable
from duetlink.compute.privacy.selection import selection_of
from duetlink.compute.privacy.table import PANDAS, PrivateTable, table_of
from duetlink.data.prep.spec import PrepSpec

KINDS = {"whole": "int64", "small": "int16", "real": "float64", "word": "str", "yes": "bool"}
POLARS = {"whole": pl.Int64, "small": pl.Int16, "real": pl.Float64, "word": pl.String, "yes": pl.Boolean}
ROW = st.fixed_dictionaries(
    {
        "whole": st.integers(-(2**63), 2**63 - 1) | st.integers(-3, 3),
        "small": st.integers(-(2**15), 2**15 - 1),
        "real": st.floats() | st.sampled_from([0.0, 2.0, 2.5]),
        "word": st.sampled_from(["1", "a", "2.5", "true", "2024-01-01", "", "é"]),
        "yes": st.booleans(),
    }
)
CASTS = ["bool", "int8", "int16", "int64", "float32", "float64", "text", "date"]


@st.composite
def stable(draw: st.DrawFn) -> PrepSpec:
    prep = PrepSpec()
    for _ in range(draw(st.integers(1, 4))):
        column = draw(st.sampled_from(sorted(KINDS)))
        kind = draw(st.integers(0, 6))
        if kind == 0:
            prep = prep.drop_missing(*draw(st.sampled_from([(), (column,)])))
        elif kind in (1, 2, 3):
            prep = prep.cast({column: draw(st.sampled_from(CASTS))}, invalid="missing")
        elif kind == 4:
            wanted: list[list[str | int | bool]] = [["a"], [0, 2], [True]]
            prep = prep.one_hot(column, draw(st.sampled_from(wanted)), unknown="ignore")
        elif kind == 5:
            prep = prep.scale(column, (-1, 2))
        elif prep.split_step is None:
            prep = prep.split(0.5, seed=1, by="whole")
    return prep


def rows_of(frame: Any) -> Counter[Any]:
    rows = frame.itertuples(index=False) if isinstance(frame, pd.DataFrame) else frame.iter_rows()
    return Counter(repr(tuple(None if item != item else item for item in row)) for row in rows)


def frames(rows: list[dict[str, Any]]) -> list[Any]:
    return [pd.DataFrame(rows, columns=list(KINDS)).astype(KINDS), pl.DataFrame(rows, schema=POLARS)]


@settings(max_examples=120, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.lists(ROW, min_size=1, max_size=5), stable(), st.data())
def test_neighbours_stay_neighbours_and_types_are_foretold(
    rows: list[dict[str, Any]], prep: PrepSpec, data: st.DataObject
) -> None:
    selects = selection_of(PREPARE, PANDAS)
    assert selects is not None
    without = data.draw(st.integers(0, len(rows) - 1))
    for frame, neighbour in zip(frames(rows), frames(rows[:without] + rows[without + 1 :]), strict=True):
        table = table_of(frame)
        assert isinstance(table, PrivateTable)
        try:
            foretold = selects(table, [prep.to_json()], {}, 1)
        except Unstable:
            continue
        made, other = prepare(frame, prep.to_json()), prepare(neighbour, prep.to_json())
        assert rows_of(other) <= rows_of(made)
        assert (rows_of(made) - rows_of(other)).total() <= 1
        assert list(map(str, made.dtypes)) == list(map(str, other.dtypes))
        assert isinstance(foretold, PrivateTable)
        assert table_of(made).columns == foretold.columns  # type: ignore[union-attr]


def test_what_is_there_of_a_pandas_frame_is_as_it_was() -> None:
    frame = pd.DataFrame(
        {"a": [1, 2], "b": ["x", None], "c": pd.array([1, None], dtype="Int64")}, index=[5, 6]
    )
    made = prepare(frame, PrepSpec().clip("a", (0, 1)).to_json())
    assert made.isna().to_numpy().tolist() == [[False, False, False], [False, True, True]]
    assert made.iloc[0].tolist() == [1, "x", 1.0]
    assert made["a"].tolist() == [1, 1]
    assert frame["a"].tolist() == [1, 2]
