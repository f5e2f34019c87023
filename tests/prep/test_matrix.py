"""Batches that are written in threads make the matrix that they make one by one, or the same error."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import PrepError
from duetlink.prep.matrix import Matrix

KINDS = ["int8", "int64", "float32", "float64", "bool"]
NUMBERS = {
    "int8": st.integers(-128, 127),
    "int64": st.one_of(st.integers(-9, 9), st.sampled_from([2**24 + 1, -(2**53) - 1])),
    "float32": st.floats(width=32),
    "float64": st.one_of(st.floats(-9, 9), st.sampled_from([1e39, float("inf"), float("nan")])),
    "bool": st.booleans(),
}


@st.composite
def batches(draw: Any) -> list[pa.RecordBatch]:
    kinds = draw(st.lists(st.sampled_from(KINDS), min_size=1, max_size=3))
    found = []
    for rows in draw(st.lists(st.integers(0, 5), min_size=1, max_size=5)):
        columns = []
        for kind in kinds:
            item = draw(st.sampled_from([NUMBERS[kind], st.none() | NUMBERS[kind]]))
            columns.append(pa.array(draw(st.lists(item, min_size=rows, max_size=rows)), kind))
        found.append(pa.RecordBatch.from_arrays(columns, [f"c{n}" for n in range(len(kinds))]))
    return found


@settings(max_examples=150, deadline=None)
@given(batches(), st.sampled_from([np.float32, np.float64, np.float16, np.int64, np.bool_]))
def test_threads_make_the_same_matrix_or_error(given_: list[pa.RecordBatch], dtype: Any) -> None:
    width, rows = given_[0].num_columns, sum(batch.num_rows for batch in given_)

    def one_by_one() -> Matrix:
        made = Matrix(width, dtype)
        for batch in given_:
            made.add(batch)
        return made

    def in_threads() -> Matrix:
        made = Matrix(width, dtype, rows)
        made.add_all(given_)
        return made

    assert outcome(in_threads) == outcome(one_by_one)


def outcome(make: Any) -> tuple[Any, ...]:
    try:
        found = make().finish()
    except PrepError as error:
        return str(error), error.column
    return found.shape, str(found.dtype), found.tobytes()


def test_batches_of_any_size_fill_a_matrix() -> None:
    rows = np.arange(40_000)
    table = pa.table({"a": rows, "b": rows / 2})
    found = Matrix(2, np.float64, len(rows))
    found.add_all(table.slice(0, 30_000).to_batches(max_chunksize=9_001))
    found.add_all([])
    found.add(table.slice(30_000).to_batches()[0])
    np.testing.assert_array_equal(found.finish(), np.column_stack([rows, rows / 2]))
