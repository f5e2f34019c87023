"""What travels along with a part of something: nothing of the rows beside it, but what its type has."""

from __future__ import annotations

from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch

from duetlink.data import values
from duetlink.duet.objects.preview import preview_text
from tests.remote.attempts import REFUSED, SHOWN, attempts, each

NAMES = [f"PATIENT {number:04}" for number in range(1000)]
NUMBERS = [10_000_019 + 2 * number for number in range(1000)]

# one row of a thousand
PARTS: dict[str, Any] = {
    "texts of pandas": pd.Series(NAMES).iloc[3:4],
    "texts of pandas, by a condition": pd.Series(NAMES)[pd.Series(NUMBERS) == NUMBERS[3]],
    "a row of a frame": pd.DataFrame({"name": NAMES, "number": NUMBERS}).iloc[3:4],
    "a column of Arrow in pandas": pd.Series(NAMES, dtype=pd.ArrowDtype(pa.string())).iloc[3:4],
    "numbers of Arrow in pandas": pd.Series(NUMBERS, dtype=pd.ArrowDtype(pa.int64())).iloc[3:4],
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


@attempts(
    "what a type holds", SHOWN, "all categories of a column of pandas, with one row", "all levels of an index"
)
def test_categories_travel_with_each_row_and_are_counted() -> None:
    category = pd.Series(NAMES, dtype="category").iloc[3:4]
    levels = pd.DataFrame({"x": 1}, index=pd.MultiIndex.from_arrays([NAMES, NUMBERS])).iloc[3:4]
    for one, elements in ((category, 1001), (levels, 2001)):  # and the number of the first row
        body = b"".join(bytes(segment) for segment in values.encode(one).segments)
        assert body.count(b"PATIENT") == 1000
        assert values.summarise(one).elements == elements  # which is what a policy goes by
    assert "PATIENT 0000" in preview_text(category)


@pytest.mark.parametrize("name", PARTS)
def test_it_is_what_it_was(name: str) -> None:
    part = PARTS[name]
    decoded: Any = values.decode(b"".join(bytes(segment) for segment in values.encode(part).segments))
    assert type(decoded) is type(part)
    if hasattr(part, "to_pylist"):
        assert decoded.equals(part)
    else:
        assert repr(decoded) == repr(part)
