"""What travels along with a part of something: nothing of rows beside it or of blanked cells, but what its
type has.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest
import torch

from duetlink.data import values
from duetlink.duet.objects.preview import preview_text
from tests.remote.attempts import REFUSED, SHOWN, attempts, each
from tests.remote.conftest import Bench

NAMES = [f"PATIENT {number:04}" for number in range(1000)]
NUMBERS = [10_000_019 + 2 * number for number in range(1000)]

# one row of a thousand
PARTS: dict[str, Any] = {
    "texts of pandas": pd.Series(NAMES).iloc[3:4],
    "texts of pandas, by a condition": pd.Series(NAMES)[pd.Series(NUMBERS) == NUMBERS[3]],
    "a row of a frame": pd.DataFrame({"name": NAMES, "number": NUMBERS}).iloc[3:4],
    "a column of Arrow in pandas": pd.Series(NAMES, dtype=pd.ArrowDtype(pa.string())).iloc[3:4],
    "numbers of Arrow in pandas": pd.Series(NUMBERS, dtype=pd.ArrowDtype(pa.int64())).iloc[3:4],
    "labels of several levels": pd.DataFrame(
        {"x": 1}, index=pd.MultiIndex.from_arrays([NAMES, NUMBERS])
    ).iloc[3:4],
    "names of columns": pd.DataFrame([range(1000)], columns=pd.MultiIndex.from_arrays([NAMES])).iloc[:, 3:4],
    "labels": pd.Series(1, index=NAMES).iloc[3:4],
    "texts of Polars": pl.Series("name", NAMES)[3:4],
    "texts of Polars, by a condition": pl.DataFrame({"name": NAMES}).filter(pl.col("name") == NAMES[3]),
    "bytes of Polars": pl.Series("name", [name.encode() for name in NAMES])[3:4],
    "lists of Polars": pl.Series("name", [[name] for name in NAMES])[3:4],
    "structs of Polars": pl.DataFrame({"row": [{"name": name} for name in NAMES]})[3:4],
    "categories of Polars": pl.Series("name", NAMES, dtype=pl.Categorical)[3:4],
    "a slice of an Arrow array": pa.array(NAMES).slice(3, 1),
    "numbers of an Arrow array": pa.array(NUMBERS).slice(3, 1),
    "numbers, some of which are missing": pa.array([None, *NUMBERS]).slice(4, 1),
    "a slice of an Arrow table": pa.table({"name": NAMES, "number": NUMBERS}).slice(3, 1),
    "a dictionary of Arrow": pa.array(NAMES).dictionary_encode().slice(3, 1),
    "texts of Arrow, one of many chunks": pa.chunked_array([NAMES, NAMES[:4]]).slice(1003, 1),
    "lists of Arrow": pa.array([[name] for name in NAMES]).slice(3, 1),
    "views of Arrow": pa.array(NAMES, pa.string_view()).slice(3, 1),
    "items of a tensor": torch.tensor(NUMBERS)[3:4],
    "a column of a tensor": torch.tensor(NUMBERS).reshape(500, 2)[3:4, 0],
}


@each("rows beside those that were approved", REFUSED, PARTS)
def test_nothing_of_other_rows_travels_along(name: str) -> None:
    body = b"".join(bytes(segment) for segment in values.encode(PARTS[name]).segments)
    assert body.count(b"PATIENT") <= 1
    assert sum(number.to_bytes(8, "little") in body for number in NUMBERS) <= 1
    assert len(body) < 2000


@attempts("what a type holds", SHOWN, "all categories of a column of pandas, with one row")
def test_categories_travel_with_each_row_and_are_counted() -> None:
    category = pd.Series(NAMES, dtype="category").iloc[3:4]
    body = b"".join(bytes(segment) for segment in values.encode(category).segments)
    assert body.count(b"PATIENT") == 1000
    assert values.summarise(category).elements == 1001  # and the number of the first row
    assert "PATIENT 0000" in preview_text(category)


def _salaries() -> pd.Series:
    column = pd.Series(NUMBERS[:4], dtype="Int64")
    column[column > NUMBERS[1]] = pd.NA
    return column


@attempts(
    "what an owner has blanked",
    REFUSED,
    "the cells of what was approved",
    "the cells of a mock, without a request",
    "the cells of what was sent",
    "the cells of a result that seems to be empty",
)
def test_no_way_out_has_what_was_blanked(bench: Bench) -> None:
    column = _salaries()
    salaries = bench.share(column, "salaries", mock=column.mask(column > 0))
    asked = len(bench.owner.requests)
    assert salaries.mock.array._data.tolist() == [0, 0, 0, 0]
    bench.owner.send(column, "a gift")
    assert bench.scientist.wait_object("a gift", 20).get().array._data.tolist() == [*NUMBERS[:2], 0, 0]
    assert len(bench.owner.requests) == asked
    assert salaries.get().array._data.tolist() == [*NUMBERS[:2], 0, 0]
    hidden = salaries.mask(salaries > 0).get()
    assert hidden.isna().all()
    assert hidden.array._data.tolist() == [0, 0, 0, 0]


@attempts("what an owner has blanked", REFUSED, "the bits of NaN of a result")
def test_all_nan_of_a_result_have_the_same_bits(bench: Bench) -> None:
    odd = np.array([0x7FF8_0000_00AB_CDEF, 0xFFF8_0000_0000_0001], np.uint64).view(np.float64)
    x = bench.share(odd, "odd", mock=np.zeros(2))
    assert x[:2].get().view(np.uint64).tolist() == [0x7FF8_0000_0000_0000] * 2


BLANK = [row != 3 for row in range(1000)]  # all rows but one

BLANKED: dict[str, Any] = {
    "numbers of pandas, by mask": pd.Series(NUMBERS, dtype="Int64").mask(pd.Series(BLANK)),
    "floats of pandas, by where": pd.Series(NUMBERS, dtype="Float64").where(~pd.Series(BLANK)),
    "texts of pandas": pd.Series(NAMES, dtype="string").mask(pd.Series(BLANK)),
    "a column of Arrow in pandas": pd.Series(NUMBERS, dtype="int64[pyarrow]").mask(pd.Series(BLANK)),
    "numbers of Polars, by when": pl.DataFrame({"x": NUMBERS, "blank": BLANK}).select(
        pl.when("blank").then(None).otherwise("x")
    ),
    "texts of Polars, by when": pl.DataFrame({"x": NAMES, "blank": BLANK}).select(
        pl.when("blank").then(None).otherwise("x")
    ),
    "structs of Polars, by when": pl.DataFrame(
        {"x": [{"name": name} for name in NAMES], "blank": BLANK}
    ).select(pl.when("blank").then(None).otherwise("x")),
    "numbers of Arrow, by if_else": pc.if_else(BLANK, pa.scalar(None, pa.int64()), pa.array(NUMBERS)),
    "texts of Arrow, by if_else": pc.if_else(BLANK, pa.scalar(None, pa.string()), pa.array(NAMES)),
    "structs of Arrow, by a mask": pa.StructArray.from_arrays(
        [pa.array(NAMES), pa.array(NUMBERS)], ["name", "number"], mask=pa.array(BLANK)
    ),
    "lists of Arrow, by a mask": pa.ListArray.from_arrays(
        pa.array(range(1001), pa.int32()), pa.array(NAMES), mask=pa.array(BLANK)
    ),
    "fields of NumPy that were left out": np.array(
        list(zip(range(1000), NAMES, NUMBERS, strict=True)), [("id", "i4"), ("name", "S12"), ("n", "i8")]
    )[["id"]],
}


@each("what an owner has blanked", REFUSED, BLANKED)
def test_nothing_travels_that_was_blanked(name: str) -> None:
    body = b"".join(bytes(segment) for segment in values.encode(BLANKED[name]).segments)
    assert body.count(b"PATIENT") <= 1
    hidden = NUMBERS[:3] + NUMBERS[4:]
    assert not any(number.to_bytes(8, "little") in body for number in hidden)
    assert not any(np.float64(number).tobytes() in body for number in hidden)


@pytest.mark.parametrize("name", PARTS | BLANKED)
def test_it_is_what_it_was(name: str) -> None:
    part = (PARTS | BLANKED)[name]
    decoded: Any = values.decode(b"".join(bytes(segment) for segment in values.encode(part).segments))
    assert type(decoded) is type(part)
    if hasattr(part, "to_pylist"):
        assert decoded.type == part.type if hasattr(part, "type") else decoded.schema == part.schema
        assert decoded.to_pylist() == part.to_pylist()
    else:
        assert repr(decoded) == repr(part)
