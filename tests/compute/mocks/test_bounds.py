"""Bounds and categories that the owner gives: kept exactly, and refused where they cannot be."""

from __future__ import annotations

import datetime as dt
import decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.compute.mocks import Mock, make
from duetlink.data.values import encode
from duetlink.errors import SettingError

DAYS = (dt.date(2019, 3, 1), "2019-03-20")
FIRST, LAST = pd.Timestamp("2019-03-01"), pd.Timestamp("2019-03-20")


@given(
    st.sampled_from("efdg"),
    st.tuples(st.floats(-6e4, 6e4), st.floats(-6e4, 6e4)).map(sorted),
)
@settings(max_examples=100, deadline=None)
def test_floats_lie_within_bounds_or_there_are_none(kind: str, bounds: list[float]) -> None:
    low, high = bounds
    try:
        made: Any = make(np.zeros(20, kind), Mock(bounds=(low, high)))
    except SettingError:
        nearest = np.array([low, high]).astype(kind).astype(float)
        assert kind in "ef"  # the bounds are float64 themselves
        assert not ((low <= nearest) & (nearest <= high)).any()
        return
    assert low <= float(made.min())
    assert float(made.max()) <= high


@given(
    st.sampled_from("bBhHiIlL"),
    st.tuples(st.floats(-150, 300), st.floats(-150, 300)).map(sorted),
)
@settings(max_examples=100, deadline=None)
def test_integers_lie_within_bounds_or_there_are_none(kind: str, bounds: list[float]) -> None:
    low, high = bounds
    limits = np.iinfo(kind)
    try:
        made: Any = make(np.zeros(20, kind), Mock(bounds=(low, high)))
    except SettingError:
        assert low < limits.min or high > limits.max or not any(low <= k <= high for k in range(-150, 301))
        return
    assert low <= made.min()
    assert made.max() <= high


def test_few_integers_all_occur() -> None:
    made: Any = make(np.zeros(7, np.int64), Mock(bounds=(-1, 1)))
    assert sorted(made.tolist()) == [-1, -1, -1, 0, 0, 1, 1]
    assert make(np.zeros(3, np.int64), Mock(bounds=(5, 5))).tolist() == [5, 5, 5]
    widest: Any = make(np.zeros(50, np.int64), Mock(bounds=(-(2**63), 2**63 - 1)))
    assert len(set(widest.tolist())) == 50
    widest = make(np.zeros(50, np.uint64), Mock(bounds=(2**63, 2**64 - 1)))
    assert widest.min() >= 2**63
    endless: Any = make([1] * 50, Mock(bounds=(-5, 2**80)))
    assert all(-5 <= number <= 2**80 for number in endless)
    assert max(endless) > 2**64
    many: Any = make(np.zeros(2**20 + 1, np.uint8), Mock(bounds=(250, 255)))
    assert np.unique(many).tolist() == [250, 251, 252, 253, 254, 255]


def test_bounds_of_a_frame_go_by_column() -> None:
    frame = pd.DataFrame(
        {
            "age": [1, 2] * 10,
            "score": [0.5, 1.5] * 10,
            "when": pd.to_datetime(["1950", "2050"] * 10),
            "zoned": pd.to_datetime(["1950", "2050"] * 10, utc=True).tz_convert("Europe/Paris"),
            "took": pd.to_timedelta([1, 2] * 10),
            "nullable": pd.array([1, None] * 10, dtype="Int8"),
            "arrow": pd.array([1, None] * 10, dtype="float[pyarrow]"),
            "month": pd.period_range("1950", periods=20, freq="M"),
            "range": pd.interval_range(0.0, 20.0),
            7: [1j] * 20,
        }
    )
    hours = (dt.timedelta(hours=1), dt.timedelta(hours=3))
    bounds: Any = {
        "age": (18, 120),
        "score": (-0.25, 0.25),
        "when": DAYS,
        "zoned": DAYS,
        "took": hours,
        "nullable": (100, 127),
        "arrow": (0.1, 0.2),
        "month": ("2020-03-15", "2020-05-01"),
        "range": (2, 3),
        7: (0, 1),
    }
    made: Any = make(frame, Mock(bounds=bounds))
    assert made.dtypes.equals(frame.dtypes)
    assert made.age.between(18, 120).all()
    assert made.score.between(-0.25, 0.25).all()
    assert made.when.between(FIRST, LAST).all()
    assert made.zoned.between(FIRST.tz_localize("UTC"), LAST.tz_localize("UTC")).all()
    assert made.took.between(*hours).all()
    assert made.nullable.between(100, 127).all()
    assert made.arrow.between(0.1, 0.2).all()
    assert set(made.month.astype(str)) == {"2020-03", "2020-04", "2020-05"}
    assert ((made.range.array.left >= 2) & (made.range.array.right <= 3)).all()
    assert ((made[7].to_numpy().real >= 0) & (made[7].to_numpy().imag <= 1)).all()
    encode(made)


def test_bounds_go_to_fields_items_and_levels_by_name() -> None:
    record = np.zeros(9, [("a", "f8"), ("b", [("c", "i4"), ("d", "f8")])])
    made: Any = make(record, Mock(bounds={"a": (1, 2), "b.c": (5, 6), "d": (7, 8)}))
    assert ((made["a"] >= 1) & (made["a"] <= 2)).all()
    assert set(made["b"]["c"].tolist()) == {5, 6}
    assert ((made["b"]["d"] >= 7) & (made["b"]["d"] <= 8)).all()
    features, labels = make((np.zeros((9, 2)), np.zeros(9, int)), Mock(bounds={0: (0, 1), 1: (3, 4)}))
    assert 0 <= features.min() <= features.max() <= 1
    assert set(labels.tolist()) == {3, 4}
    both: Any = make(
        {"train": pd.DataFrame({"x": [1.0]}), "test": pd.DataFrame({"x": [2.0]})}, Mock(bounds={"x": (5, 6)})
    )
    assert all(5 <= both[name]["x"][0] <= 6 for name in ("train", "test"))
    indexed = pd.DataFrame({"v": [1, 2, 3]}, index=pd.Index([9, 8, 7], name="year"))
    made = make(indexed, Mock(bounds={"year": (2001, 2003)}))
    assert made.index.tolist() == [2001, 2002, 2003]
    nested = pa.table({"l": [[1.5]], "s": [{"f": 1}]})
    made = make(nested, Mock(bounds={"l": (3, 4), "s.f": (8, 8)}))
    assert all(3 <= item <= 4 for item in made["l"][0].as_py())
    assert made["s"][0].as_py() == {"f": 8}


def test_bounds_of_other_libraries() -> None:
    half = torch.zeros(50, dtype=torch.bfloat16)
    made: Any = make(half, Mock(bounds=(0.1, 0.3)))
    assert 0.1 <= float(made.min()) <= float(made.max()) <= 0.3
    eighth: Any = make(half.to(torch.float8_e4m3fn), Mock(bounds=(0.9, 1.3)))
    assert set(eighth.float().tolist()) == {0.9375, 1.0, 1.125, 1.25}
    frame: Any = make(
        pl.DataFrame(
            {"d": [dt.date(1950, 1, 1)] * 9, "t": [dt.time()] * 9, "m": [decimal.Decimal("1.00")] * 9}
        ),
        Mock(bounds={"d": DAYS, "t": (dt.time(9), dt.time(17, 30)), "m": (decimal.Decimal("0.10"), 0.5)}),
    )
    assert frame["d"].is_between(FIRST.date(), LAST.date()).all()
    assert frame["t"].is_between(dt.time(9), dt.time(17, 30)).all()
    assert frame["m"].is_between(decimal.Decimal("0.10"), decimal.Decimal("0.50")).all()
    huge = pa.array([decimal.Decimal(0)], pa.decimal128(38, 0))
    drawn: Any = make(huge, Mock(bounds=(10**30, 10**31), rows=20))
    assert all(10**30 <= item.as_py() <= 10**31 for item in drawn)
    assert 0.5 <= make(7.0, Mock(bounds=(0.5, 0.6))) <= 0.6
    assert make(dt.datetime(1950, 1, 1), Mock(bounds=("2020", "2020"))) == dt.datetime(2020, 1, 1)
    exact: Any = make(
        [decimal.Decimal(1)] * 9, Mock(bounds=(decimal.Decimal("0.005"), decimal.Decimal("0.02")))
    )
    assert set(exact) == {decimal.Decimal("0.01"), decimal.Decimal("0.02")}


def test_bounds_of_times_round_inwards() -> None:
    made: Any = make(np.zeros(9, "M8[D]"), Mock(bounds=("2020-01-01T12:00", "2020-01-03T12:00")))
    assert set(made.astype(str).tolist()) == {"2020-01-02", "2020-01-03"}
    made = make(np.zeros(9, "M8[M]"), Mock(bounds=("2020-01-02", "2020-03-31")))
    assert set(made.astype(str).tolist()) == {"2020-02", "2020-03"}
    moment: Any = np.datetime64("2020-01-01T00:00:00.123456789", "ns")
    assert (make(np.zeros(3, "M8[ns]"), Mock(bounds=(moment, moment))) == moment).all()
    zoned = dt.datetime(2020, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1)))
    assert make(dt.datetime(1950, 1, 1), Mock(bounds=(zoned, zoned))) == dt.datetime(2020, 1, 1)


def test_a_bound_that_float64_does_not_have_is_not_passed() -> None:
    tenth = Fraction(1, 10)
    made: Any = make(np.zeros(200), Mock(bounds=(float(tenth), decimal.Decimal("0.1000000000000001"))))
    assert all(tenth <= Fraction(x) <= Fraction("0.1000000000000001") for x in made.tolist())


def test_categories_all_occur_in_every_library() -> None:
    towns = ["Bonn", "Lyon"]
    given = Mock(categories={"town": towns})
    for obj in (
        pd.DataFrame({"town": ["a"] * 5}),
        pd.DataFrame({"town": pd.Categorical(["a"] * 5)}),
        pd.DataFrame({"town": pd.Series(["a"] * 5, dtype=object)}),
        pd.DataFrame({"town": pd.array(["a"] * 5, dtype="string[pyarrow]")}),
        pl.DataFrame({"town": ["a"] * 5}),
        pl.DataFrame({"town": pl.Series(["a"] * 5, dtype=pl.Categorical)}),
        pl.DataFrame({"town": pl.Series(["a"] * 5, dtype=pl.Enum(["a"]))}),
        pa.table({"town": ["a"] * 5}),
        pa.table({"town": pa.array(["a"] * 5).dictionary_encode()}),
        {"town": ["a"] * 5},
        np.zeros(5, [("town", "U7")]),
    ):
        made: Any = make(obj, given)
        column = made["town"]
        values = column.to_pylist() if isinstance(column, pa.ChunkedArray) else list(column)
        assert set(values) == set(towns)
        encode(made)
    assert set(make(torch.zeros(5), Mock(categories=[0.5, 2])).tolist()) == {0.5, 2.0}
    assert set(make(np.zeros(5, "i1"), Mock(categories=[-3, 3])).tolist()) == {-3, 3}
    assert make("x", Mock(categories=["Bonn"])) == "Bonn"


@pytest.mark.parametrize(
    ("obj", "given", "words"),
    [
        (np.zeros(3, "i1"), {"bounds": (0, 200)}, "outside the range of int8"),
        (np.zeros(3, "f2"), {"bounds": (0, 1e6)}, "outside the range of float16"),
        (np.zeros(3, "f2"), {"bounds": (1.0001, 1.0002)}, "no float16 between"),
        (np.zeros(3, "i8"), {"bounds": (0.2, 0.8)}, "no int64 between"),
        (np.zeros(3), {"bounds": ("2020", "2021")}, "no number"),
        (np.zeros(3, "M8[ns]"), {"bounds": (0, 1)}, "two dates"),
        (np.zeros(3, "M8[ns]"), {"bounds": ("1500", "1600")}, "1677 to 2262"),
        (np.zeros(3, "M8[ns]"), {"bounds": ("2021", "2020")}, "earlier one first"),
        (np.zeros(3, "M8[as]"), {"bounds": ("2021", "2022")}, "no bounds can be given"),
        (np.zeros(3, "m8[s]"), {"bounds": ("2021", "2022")}, "timedelta"),
        (["a"], {"bounds": (0, 1)}, "which has no bounds"),
        (["a"], {"bounds": (0, 1), "categories": ["b"]}, "both bounds and categories"),
        (np.zeros(3, "i8"), {"categories": [1.5]}, "changes them"),
        (np.zeros(3, "U3"), {"categories": ["long text"]}, "changes them"),
        (torch.zeros(3, dtype=torch.int8), {"categories": [300]}, "do not fit"),
        (pd.Series(pd.Categorical(["a"])), {"categories": ["b", "b"]}, "twice"),
        (pd.Series([1], dtype="Int8"), {"categories": ["b"]}, "do not fit"),
        (pa.array([1]), {"categories": ["b"]}, "do not fit"),
        (pd.DataFrame({"age": [1]}), {"bounds": {"agee": (0, 1)}}, "for 'agee', but its columns are 'age'"),
        (pd.DataFrame({"age": [1]}), {"categories": {"agee": [1]}}, "for 'agee'"),
        (pd.DataFrame({"age": [1]}), {"bounds": (0, 1)}, "give them by column, such as {'age': …}"),
        (pd.DataFrame({"age": [1]}), {"from_data": ("bounds:agee",)}, "its columns are 'age'"),
        (np.zeros(3), {"bounds": {"x": (0, 1)}}, "for the whole"),
    ],
)
def test_what_does_not_fit_is_refused_with_what_to_do(obj: object, given: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make(obj, Mock(**given))
