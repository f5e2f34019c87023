"""A matrix holds each item of its batches as it is, rounded if it is a fraction, or names the column."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.errors import PrepError
from duetlink.prep.matrix import Matrix

KINDS = ["int8", "int64", "uint32", "float32", "float64", "bool"]
EDGES = [edge + beside for edge in (2**11, 2**24, 2**53) for beside in (-1, 0, 1)]
NUMBERS = {
    "int8": st.integers(-128, 127),
    "int64": st.one_of(st.integers(-9, 9), st.sampled_from([*EDGES, *(-edge for edge in EDGES), 2**63 - 1])),
    "uint32": st.one_of(st.integers(0, 9), st.sampled_from([2**24 + 1, 2**32 - 1])),
    "float32": st.floats(width=32),
    "float64": st.one_of(
        st.floats(-9, 9), st.sampled_from([65_520.0, 3.4028235677973366e38, *map(float, EDGES)]), st.floats()
    ),
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


@settings(max_examples=300, deadline=None)
@given(batches(), st.sampled_from([np.float16, np.float32, np.float64, np.int8, np.int64, np.bool_]))
def test_a_matrix_holds_what_each_item_says_or_names_the_first_column(
    given_: list[pa.RecordBatch], dtype: Any
) -> None:
    made = Matrix(given_[0].num_columns, dtype)
    for batch in given_:
        wrong = [name for name in batch.schema.names if not all(fits(item, dtype) for item in batch[name])]
        if wrong:
            with pytest.raises(PrepError, match="cannot have") as error:
                made.add(batch)
            assert error.value.column == wrong[0]
            return
        made.add(batch)
    items = [item for batch in given_ for row in batch.to_pylist() for item in row.values()]
    with np.errstate(all="ignore"):
        expected = np.array([np.nan if item is None else item for item in items], object).astype(dtype)
    np.testing.assert_array_equal(made.finish().reshape(-1), expected)


def fits(scalar: pa.Scalar, dtype: Any) -> bool:
    """Say for one item whether `dtype` can hold it, as the documentation of `Prepared.numpy` does."""
    item, kind = scalar.as_py(), np.dtype(dtype)
    if item is None:
        return bool(kind.kind == "f")
    if isinstance(item, bool) or scalar.type == kind:
        return True
    if kind.kind == "b" or (isinstance(item, float) and kind.kind != "f"):
        return False
    if kind.kind == "i":
        return bool(np.iinfo(kind).min <= item <= np.iinfo(kind).max)
    if isinstance(item, int):
        return bool(abs(item) <= 2 ** (np.finfo(kind).nmant + 1))
    return not math.isfinite(item) or abs(item) <= float(np.finfo(kind).max)


@pytest.mark.parametrize("rows", [0, 30_000, 40_000])
def test_batches_of_any_size_fill_a_matrix(rows: int) -> None:
    """The matrix has room for that many rows, and grows."""
    numbers = np.arange(40_000)
    table = pa.table({"a": numbers, "b": numbers / 2})
    found = Matrix(2, np.float64, rows)
    for batch in table.to_batches(max_chunksize=9_001):
        found.add(batch)
    np.testing.assert_array_equal(found.finish(), np.column_stack([numbers, numbers / 2]))
