"""A size that is told here is the same for any data; any other raises PrivateValue, with a way to ask."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink import errors
from tests.remote.conftest import Bench

ROWS = 60


def real_frame() -> pd.DataFrame:
    rng = np.random.default_rng(7)
    return pd.DataFrame(
        {
            "age": rng.integers(18, 90, ROWS),
            "pay": np.where(rng.random(ROWS) < 0.3, np.nan, rng.random(ROWS)),
            "town": rng.choice(["Bonn", "Jena", "Ulm"], ROWS),
        },
        index=rng.permutation(ROWS),
    )


def mock_frame() -> pd.DataFrame:
    """As unlike the real one as a mock may be: labels that are counted, nothing missing, all of it sorted."""
    values = {"age": np.arange(ROWS) + 1, "pay": np.arange(ROWS) / 7, "town": ["Rome"] * ROWS}
    return pd.DataFrame(values, index=pd.Index(range(ROWS)))


@pytest.fixture(scope="module")
def reals() -> dict[str, Any]:
    torch.manual_seed(0)
    frame = real_frame()
    return {
        "f": frame,
        "s": frame.pay,
        "x": np.random.default_rng(1).standard_normal((20, 3)),
        "t": torch.randn(20, 3),
        "p": pl.from_pandas(frame.reset_index(drop=True)),
        "other": pd.Series(np.arange(ROWS) + 0.5, index=np.arange(ROWS) * 3),
    }


@pytest.fixture(scope="module")
def pointers(shared_bench: Bench, reals: dict[str, Any]) -> dict[str, Any]:
    mocks = {
        "f": mock_frame(),
        "s": mock_frame().pay,
        "x": np.zeros((20, 3)),
        "t": torch.zeros(20, 3),
        "p": pl.from_pandas(mock_frame()),
        "other": pd.Series(np.arange(ROWS) / 3),
    }
    return {name: shared_bench.share(reals[name], f"size {name}", mocks[name]) for name in reals}


# What depends on the data; where the shape is told in part, that is what follows the arrow.
PRIVATE = """
f[f.age > 50] -> (?, 3)
f[f.age > 50].age
f[["age"]][f.age > 50] -> (?, 1)
f.loc[f.age > 50, ["age", "pay"]] -> (?, 2)
f.loc[0:10] -> (?, 3)
f.loc[[1, 2]] -> (?, 3)
f.sort_values("pay").loc[0:5] -> (?, 3)
f[f.age > 50].head(40) -> (?, 3)
f[f.age > 50][["age", "pay"]] * 2 -> (?, 2)
f.dropna() -> (?, 3)
f.drop_duplicates("town") -> (?, 3)
f.drop(1) -> (?, 3)
f.filter(items=[1, 2], axis=0) -> (?, 3)
f.filter(like="1", axis="index") -> (?, 3)
s.filter(items=[1, 2])
f.explode("town") -> (?, 3)
f.merge(f, on="town") -> (?, 5)
f.nlargest(5, "age") -> (?, 3)
f.groupby("town").age.mean()
f.groupby("town").mean(numeric_only=True) -> (?, 2)
f.groupby("town")[["age"]].sum() -> (?, 1)
f.groupby("town").size()
f.groupby("town").head(2) -> (?, 3)
f.town.unique()
f.town.value_counts()
f.town.value_counts().index
f.town[f.age > 50].index
f.pivot_table(index="town", values="age", aggfunc="mean")
s.dropna()
s[s > 0.5]
s[s > 0.5].to_numpy()
s + other
f.age + other
f.age.to_numpy()[f.age > 50]
x[x[:, 0] > 0] -> (?, 3)
x[x[:, 0] > 0] * 2 -> (?, 3)
x[x[:, 0] > 0][:, 1:] -> (?, 2)
x[x[:, 0] > 0].T -> (3, ?)
x[x > 0]
x[:, x[0] > 0]
x[x[:, 0] > 0, 1]
np.unique(x.round())
np.nonzero(x > 0)[0]
np.argwhere(x > 0)
np.concatenate([x[x > 0], x[x < 0]])
np.compress(x[:, 0] > 0, x, axis=0)
np.repeat(x[:, 0], (x[:, 0] > 0).astype(int))
np.bincount((x[:, 0] > 0).astype(int))
t[t > 0]
t[t[:, 0] > 0] -> (?, 3)
t[[t[:, 0] > 0]]
t[[t > 0]]
t[[None, t[:, 0] > 0]]
t[[..., t[0] > 0]]
torch.cat([t[:, 0][[t[:, 0] > 0]], t[:, 0]])
t[t[:, 0] > 0].relu() @ torch.ones(3, 2)
torch.nn.functional.linear(t[t[:, 0] > 0], torch.ones(2, 3)) -> (?, 2)
torch.nn.functional.one_hot((t[:, 0] > 0).long())
torch.masked_select(t, t > 0)
torch.nonzero(t > 0)
t.round().unique()
p.filter(p["age"] > 50) -> (?, 3)
p.drop_nulls() -> (?, 3)
p["town"].unique()
p.filter(p["age"] > 50)["age"]
p.join(p, on="town") -> (?, 5)
p.lazy().filter(pl.col("age") > 50).collect() -> (?, 3)
p.select(pl.col("age").unique()) -> (?, 1)
p.group_by("town").agg(pl.col("age").mean()) -> (?, 2)
""".strip().splitlines()

# What does not.
PUBLIC = """
f
f.age
f.age * 2 + 1
f.age > 50
f[["age", "pay"]]
f[["age", "pay"]].mean()
f.mean(numeric_only=True)
f[["age", "pay"]].corr()
f.describe()
f.iloc[0:10]
f.iloc[:, 0]
f.iloc[-3:, :2]
f[5:10]
f.head(7)
f.tail(70)
f.sort_values("pay")
f.assign(twice=f.age * 2)
f.T
f.to_numpy()
f.age.values
f.index
f.fillna(0)
f.rank(numeric_only=True)
f.rolling(3).age.mean()
f.pay.rolling(3).mean()
f.town.str.upper()
f.town.str[0]
f.town.str.split("n").str[0]
f.age + f.pay
f[["age", "pay"]] - f[["age", "pay"]].mean()
f.reset_index(drop=True).loc[3:9]
f.groupby("town").age.transform("mean")
f.groupby("town").cumcount()
s.shift(1)
s.isna()
x
x + 1
x @ x.T
x.T
x[:7]
x[:, 0]
x[None, 2:, 1]
x[[1, 2, 2]]
x.mean(axis=0)
x.reshape(-1, 2)
x[x[:, 0] > 0].mean(axis=0)
x[x[:, 0] > 0].sum()
np.where(x > 0, x, 0)
np.concatenate([x, x])
np.linalg.svd(x)[0]
np.percentile(x, [10, 90], axis=0)
np.histogram(x, bins=5)[0]
np.sort(x, axis=0)
x[np.argsort(x[:, 0])]
x - x.mean(axis=0)
x[x[:, 0] > 0].mean(axis=0, keepdims=True)
t
t.relu()
t @ t.T
t[3:5, 0]
t.reshape(2, -1)
t.max(dim=1).values
t.topk(2).indices
t.split(6)[3]
torch.cat([t, t])
torch.stack([t, t], dim=1)
torch.nn.functional.linear(t, torch.ones(2, 3))
torch.nn.functional.one_hot((t[:, 0] > 0).long(), num_classes=2)
t[t[:, 0] > 0].mean(dim=0)
p
p["age"] * 2
p.sort("age")
p.head(5)
p.with_columns(p["age"].alias("again"))
p.select("age", "town")
p.lazy().with_columns(pl.col("age") * 2).collect()
""".strip().splitlines()


def evaluate(code: str, names: dict[str, Any]) -> Any:
    return eval(code, {"np": np, "torch": torch, "pd": pd, "pl": pl, **names})


@pytest.mark.parametrize("line", PRIVATE)
def test_a_size_that_depends_on_the_data_is_not_told(
    pointers: dict[str, Any], reals: dict[str, Any], line: str
) -> None:
    code, _, partly = line.partition(" -> ")
    with warnings.catch_warnings():
        warnings.simplefilter("error", pl.exceptions.PerformanceWarning)  # a lazy frame is asked for nothing
        result = evaluate(code, pointers)
    real = evaluate(code, reals)
    told = r"depends on the data.*\.get\(reason=…\)"
    if not partly.startswith("(3"):
        with pytest.raises(errors.PrivateValue, match=told):
            len(result)
    with pytest.raises(errors.PrivateValue, match=told):
        tuple(result.shape)
    if partly:
        lengths = re.findall(r"[?\d]+", repr(result.shape))
        assert repr(result.shape) == partly
        assert [
            one if one == "?" else str(size) for one, size in zip(lengths, real.shape, strict=True)
        ] == lengths


@pytest.mark.parametrize("code", PUBLIC)
def test_a_size_that_is_told_is_that_of_the_real_data(
    pointers: dict[str, Any], reals: dict[str, Any], code: str
) -> None:
    told = evaluate(code, pointers).shape
    assert isinstance(told, tuple)
    assert told == evaluate(code, reals).shape


def far_size(x: Any) -> Any:
    return np.size(x)


def far_shape(x: Any) -> Any:
    return np.shape(x)


REMEDIES: dict[str, tuple[str, Callable[[Any, Any], Any], Any]] = {
    "rows of a frame": ("f[f.age > 50]", lambda duet, x: duet.remote(len)(x).get(reason="n"), 39),
    "items of a frame": ("f[f.age > 50]", lambda duet, x: far_size(x).get(reason="n"), 117),
    "rows of an array": ("x[x[:, 0] > 0]", lambda duet, x: far_shape(x)[0].get(reason="n"), 9),
    "turned rows": ("x[x[:, 0] > 0].T", lambda duet, x: far_shape(x)[1].get(reason="n"), 9),
    "rows of a tensor": ("t[t[:, 0] > 0]", lambda duet, x: duet.remote(len)(x).get(reason="n"), 11),
    "items of a tensor": ("t[t > 0]", lambda duet, x: duet.remote(len)(x.ravel()).get(reason="n"), 33),
    "groups": ('f.groupby("town")', lambda duet, x: duet.remote(len)(x.size()).get(reason="n"), 3),
    "rows of polars": ('p.filter(p["age"] > 50)', lambda duet, x: duet.remote(len)(x).get(reason="n"), 39),
    "columns": (
        "duet.remote(pd).get_dummies(f.town)",
        lambda duet, x: list(x.head(0).get(reason="n").columns),
        ["Bonn", "Jena", "Ulm"],
    ),
}


@pytest.mark.parametrize("name", REMEDIES)
def test_the_way_to_ask_for_a_size_works(
    bench: Bench, pointers: dict[str, Any], reals: dict[str, Any], name: str
) -> None:
    code, ask, expected = REMEDIES[name]
    assert ask(bench.scientist, evaluate(code, {**pointers, "duet": bench.scientist})) == expected


def test_the_names_of_columns_that_are_made_from_data_are_not_told(
    bench: Bench, pointers: dict[str, Any]
) -> None:
    dummies = bench.scientist.remote(pd).get_dummies(pointers["f"].town)
    for ask in (list, lambda made: made.columns, lambda made: made.dtypes, lambda made: "Bonn" in made):
        with pytest.raises(errors.PrivateValue, match=r"x\.head\(0\)\.get\(reason=…\)"):
            ask(dummies)
    with pytest.raises(errors.PrivateValue, match="'columns'"):
        pointers["f"].T.columns  # noqa: B018 - the row labels, which are data
    with pytest.raises(errors.PrivateValue, match=r"x\.head\(0\)\.get\(reason=…\)"):
        pointers["p"].to_dummies("town").columns  # noqa: B018
    assert list(pointers["f"][pointers["f"].age > 50].columns) == ["age", "pay", "town"]
    assert pointers["p"].filter(pointers["p"]["age"] > 50).width == 3


@pytest.mark.parametrize("name", ["numel", "nelement", "stride"])
def test_torchs_own_names_of_sizes_are_private_too(pointers: dict[str, Any], name: str) -> None:
    with pytest.raises(errors.PrivateValue, match=r"'(numel|stride)' of .* depends on the data"):
        getattr(pointers["t"][pointers["t"] > 0], name)()


def test_one_length_of_a_tensor_is_told_where_it_is_known(pointers: dict[str, Any]) -> None:
    rows = pointers["t"][pointers["t"][:, 0] > 0]
    assert (rows.size(1), rows.size(-1), rows.shape[1], rows.dim()) == (3, 3, 3, 2)
    for axis in (0, -2):
        with pytest.raises(errors.PrivateValue, match=r"this length of .* depends on the data"):
            rows.size(axis)


def test_all_lengths_of_a_tensor_are_private_where_an_axis_was_added_by_the_data(
    pointers: dict[str, Any],
) -> None:
    known, unknown = pointers["t"].clone(), pointers["t"].clone()
    known.unsqueeze_(1)
    assert tuple(known.shape) == (20, 1, 3)
    unknown.unsqueeze_((pointers["t"][0, 0] > 0).long())
    with pytest.raises(errors.PrivateValue, match=r"the shape of .* depends on the data"):
        unknown.shape  # noqa: B018


def test_a_list_whose_length_is_private_is_one_pointer(
    bench: Bench, pointers: dict[str, Any], reals: dict[str, Any]
) -> None:
    s, real = pointers["s"], reals["s"]
    known, unknown = s.tolist(), s[s > 0.5].tolist()
    assert len(known) == ROWS
    assert type(unknown.mock) is list
    assert unknown.get(reason="the list") == real[real > 0.5].tolist()
    parts = pointers["t"][pointers["t"] > 0].split(7)
    assert parts[0].get(reason="the first part").tolist() == reals["t"][reals["t"] > 0][:7].tolist()
    with pytest.raises(errors.PrivateValue, match="the length"):
        len(parts)


def test_a_frame_grows_by_a_label_that_may_be_there_already(bench: Bench, pointers: dict[str, Any]) -> None:
    copy = pointers["f"].copy()
    copy["twice"] = copy.age * 2
    assert copy.shape == (ROWS, 4)
    copy.loc[ROWS + 5, "age"] = 7
    assert repr(copy.shape) == "(?, 4)"
    assert len(copy.get(reason="enlarged")) == ROWS + 1
    counted = bench.scientist.remote(pd.DataFrame({"a": [1, 2]}))
    counted.loc[5, "a"] = 7
    assert counted.shape == (3, 1)


def test_what_one_has_placed_has_no_private_size(bench: Bench) -> None:
    mine = bench.scientist.remote(pd.DataFrame({"a": [3, 1, 2]}))
    assert mine.loc[0:1].shape == (2, 1)
    assert bench.scientist.remote(pd).get_dummies(pd.Series(["u", "v", "u"])).shape == (3, 2)
    with pytest.raises(errors.PrivateValue):
        len(mine[mine.a > 1])


def test_a_mock_of_fewer_rows_does_not_tell_the_length_of_its_asset(bench: Bench) -> None:
    short = bench.share(np.arange(30.0).reshape(10, 3), "short mock", np.zeros((4, 3)))
    assert repr(short.shape) == "(?, 3)"
    assert short.detail == "float64 (10, 3)"
    with pytest.raises(errors.PrivateValue, match="depends on the data"):
        len(short)
    assert repr((short * 2).shape) == "(?, 3)"
    frame = bench.share(pd.DataFrame({"a": [1, 2, 3]}), "short frame", pd.DataFrame({"a": [5]}))
    assert repr(frame.shape) == "(?, 1)"
    assert list(frame.columns) == ["a"]


def test_a_pointer_shows_that_the_size_is_the_mocks(pointers: dict[str, Any]) -> None:
    f = pointers["f"]
    assert "its mock, made up, whose size is its own:" in repr(f[f.age > 50])
    assert "its mock, made up, whose size is its own:" in f[f.age > 50]._repr_html_()
    assert "; its mock, made up:\n" in repr(f.age * 2)


def test_the_number_of_axes_of_what_is_squeezed_is_told_where_its_lengths_are(
    pointers: dict[str, Any],
) -> None:
    f, s = pointers["f"], pointers["s"]
    for few in (s[s > 0.5].squeeze(), f[f.age == 30].squeeze("index")):  # of one row, it is a number or a row
        with pytest.raises(errors.PrivateValue, match="number of dimensions"):
            few.ndim  # noqa: B018
    assert (s.squeeze().ndim, f[["age"]].squeeze("columns").ndim) == (1, 1)
    assert f.filter(like="a").shape == (ROWS, 2)
