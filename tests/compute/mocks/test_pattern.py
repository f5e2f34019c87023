"""Texts by a pattern that the owner gives, and row labels: made up, and shaped as said."""

from __future__ import annotations

import datetime as dt
import re
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from duetlink.compute.mocks import Mock, describe, make
from duetlink.errors import SettingError

SECRETS = ["$1999.50", "$2.00", "$77.25", "$3.10"] * 10

TEXTS: dict[str, Any] = {
    "numpy": np.array(SECRETS),
    "series": pd.Series(SECRETS),
    "object series": pd.Series(SECRETS, dtype=object),
    "category": pd.Series(SECRETS, dtype="category"),
    "polars": pl.Series("s", SECRETS),
    "arrow": pa.array(SECRETS),
    "list": SECRETS,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_texts_of_every_library_are_like_the_pattern_and_none_is_the_datas(kind: str) -> None:
    made: Any = make(TEXTS[kind], Mock(like="$0.00"))
    found = [str(text) for text in (made.to_pylist() if kind == "arrow" else list(made))]
    assert len(found) == 40
    assert all(re.fullmatch(r"\$\d\.\d\d", text) for text in found)
    assert len(set(found)) > 10
    assert list(make(TEXTS[kind], Mock(like="$0.00"))) == list(made)
    assert list(make(TEXTS[kind], Mock(like="$0.00", seed=1))) != list(made)


@pytest.mark.parametrize(
    ("pattern", "shape"),
    [
        ("AA-000", r"[A-Z]{2}-\d{3}"),
        ("aa0@aaa.de", r"[a-z]{2}\d@[a-z]{3}\.de"),
        (r"\A\0\\-0", r"A0\\-\d"),
        ("no place", "no place".replace("a", "[a-z]")),
        ("DD.MM.YYYY", r"\d\d\.\d\d\.200\d"),
        ("YYYY-MM-DDThh:mm:ssZ", r"200\d-\d\d-\d\dT\d\d:\d\d:\d\dZ"),
    ],
)
def test_patterns(pattern: str, shape: str) -> None:
    made: Any = make(pd.Series(["x"] * 50), Mock(like=pattern))
    assert all(re.fullmatch(shape, text) for text in made)


def test_without_a_pattern_texts_say_nothing() -> None:
    made: Any = make(pd.Series(SECRETS))
    assert set(made) == {f"text {number}" for number in range(10)}


def test_code_for_the_data_runs_on_the_mock() -> None:
    real = pd.DataFrame({"price": ["$1999.50", "$2.00"] * 5, "seen": ["2021-03-04", "2021-05-06"] * 5})
    mock = Mock(like={"price": "$00.00", "seen": "YYYY-MM-DD"}, bounds={"seen": ("2021-01-01", "2021-12-31")})
    made: Any = make(real, mock)
    assert made.price.str.replace("$", "", regex=False).astype(float).between(0, 99.99).all()
    seen = pd.to_datetime(made.seen)
    assert seen.between("2021-01-01", "2021-12-31").all()
    assert seen.nunique() > 5
    assert describe(mock, real) == (
        "synthetic, 10 rows, from the schema; bounds of 1 column and patterns of 2 columns given by the owner"
    )


def test_row_labels_are_the_owners_where_an_index_has_no_name() -> None:
    real = pd.DataFrame({"a": [1.0, 2.0, 3.0]}, index=["Ada", "Bob", "Cyd"])
    made: Any = make(real, Mock(labels=["Jena", "Ulm", "Bonn"]))
    assert made.index.tolist() == ["Bonn", "Jena", "Ulm"]
    assert make(real).index.tolist() == ["row 0", "row 1", "row 2"]
    assert describe(Mock(labels=["Jena"]), real).endswith("row labels given by the owner")


@pytest.mark.parametrize(
    ("obj", "given", "words"),
    [
        (["a"], {"like": ""}, "give a text of at most 200"),
        (["a"], {"like": {"x": 3}}, "like of 'x' is 3"),
        (["a"], {"like": "0", "categories": ["b"]}, "both like and categories"),
        (["a"], {"like": "0", "bounds": (0, 1)}, "which is no date"),
        (["a"], {"like": "YYYY", "bounds": (0, 1)}, "two dates"),
        (pd.DataFrame({"a": ["x"]}), {"like": {"b": "0"}}, "like are given for 'b', but its columns are 'a'"),
        (pd.DataFrame({"a": [1]}), {"like": {"a": "AA"}}, "do not fit its dtype"),
        (np.zeros(3), {"like": "AA"}, "do not fit its dtype"),
        (np.array(["abc"]), {"like": "0000"}, "do not fit"),
        (pd.Series([1, 2]), {"labels": ["a"]}, "no index without a name"),
        (pd.Series([1, 2], index=[5, 7]), {"labels": ["a"]}, "do not fit its dtype"),
        (pd.Series([1, 2]), {"labels": "ab"}, "give a list of the values"),
    ],
)
def test_what_does_not_fit_is_said(obj: Any, given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make(obj, Mock(**given))


def test_numbers_are_not_like_a_text() -> None:
    for obj in (np.arange(3), pd.Series([1, 2]), pl.Series([1.5]), [dt.date(2020, 1, 1)]):
        with pytest.raises(SettingError, match="like"):
            make(obj, Mock(like="000"))
