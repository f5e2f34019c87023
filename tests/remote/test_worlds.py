"""The worlds that the corpus is compared with differ in what depends on the data, and in nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from tests.remote.statements import SHARED, read, run
from tests.remote.told import NOTHING, SAW, Done, Recorder, Told, Watched, differs
from tests.remote.worlds import WORLDS, Comparison, World, compare, other

SHARES = """
import numpy as np
import pandas as pd
import polars as pl
import torch

f = pd.DataFrame({"a": [1.0, None, 3.0, 0.5], "n": [2, -1, 7, 7], "town": list("UBUJ")})  # shared
d = pd.Series([1.0, 2.0, 3.0], index=pd.date_range("2020-01-01", periods=3))  # shared
x = np.array([[1.0, 2.0, -1.0], [0.0, -3.0, 5.0]])  # shared
t = torch.tensor([1.0, -2.0, 3.0])  # shared
p = pl.DataFrame({"n": [1, 2, 2], "town": ["Ulm", "Bonn", None]})  # shared
"""
OF_THE_DATA = (
    "len(f[f.n > 2])",
    "f.dropna().shape",
    "f.dropna(axis=1).columns",
    "f.town.unique().shape",
    "f.town.nunique()",
    "f.drop_duplicates('town').shape",
    "len(f.groupby('town'))",
    "f.groupby('town').size().shape[0]",
    "list(pd.get_dummies(f.town).columns)",
    "pd.get_dummies(f).shape[1]",
    "f.pivot_table(index='n', columns='town', values='a', aggfunc='size').columns",
    "f.town.str.split(' ', expand=True).shape",
    "len(f.merge(f, on='town'))",
    "f.a.isna().any()",
    "f.n.is_monotonic_increasing",
    "f.town.mode().shape",
    "f.n.map({2: 1, -1: 2, 7: 3}).dtype",
    "[town for town in f.town]",
    "len(d['2020-01-01':'2020-01-02'])",
    "d.index.is_unique",
    "x[x > 0].shape",
    "np.unique(x).size",
    "np.nonzero(x)[0].shape",
    "int(x.argmax())",
    "t[t > 0].shape",
    "torch.unique(t).numel()",
    "t.nonzero().shape",
    "bool(t.isnan().any())",
    "p.filter(pl.col('n') > 1).height",
    "p.group_by('town').len().height",
    "p.to_dummies('town').columns",
    "p['town'].has_nulls()",
    "p.drop_nulls().shape",
    "p.unique().height",
)
OF_THE_SCHEMA = (
    "len(f)",
    "f.shape",
    "f.dtypes",
    "list(f.columns)",
    "f[f.n > 2].shape[1]",
    "f.isna().sum().shape",
    "d.shape",
    "x.shape",
    "x.T @ x",
    "np.split(x, 3, axis=1)",
    "t.dtype",
    "p.schema",
    "p.group_by('town').len().columns",
)


def found(tmp_path: Path, statement: str) -> Comparison:
    """The worlds against the local values of one statement, as if pointers had told all of them."""
    path = tmp_path / "one.py"
    path.write_text(f'"""."""\n{SHARES}\n{statement}\n', "utf-8")
    statements, done = read(path), []
    names: dict[str, Any] = {SAW: Recorder()}
    for one in statements:
        watched = Watched(one.node)
        seen = names[SAW].during(lambda watched=watched: run(watched.node, names))[1]
        told = [
            Told(key[0], key[1], watched.texts[key[0]], value)
            for key, value in seen.items()
            if value is not NOTHING
        ]
        is_shared = one.mark == SHARED
        done.append(Done([] if is_shared else told[-1:], [one.text.partition(" ")[0]] if is_shared else []))
    return compare(statements, done)


@pytest.mark.parametrize("statement", OF_THE_DATA)
def test_what_depends_on_the_data_differs_in_some_world(tmp_path: Path, statement: str) -> None:
    comparison = found(tmp_path, statement)
    assert (comparison.told, comparison.compared, comparison.differences != []) == (1, 1, True)


@pytest.mark.parametrize("statement", OF_THE_SCHEMA)
def test_what_is_the_same_for_any_data_differs_in_none(tmp_path: Path, statement: str) -> None:
    assert found(tmp_path, statement).differences == []


def test_another_exception_differs(tmp_path: Path) -> None:
    tried = "try:\n    {}\nexcept (KeyError, ValueError):\n    pass"
    assert found(tmp_path, tried.format("f['wage']")).differences == []
    assert len(found(tmp_path, tried.format("d.loc['2020-01-02']")).differences) >= 1
    line = found(tmp_path, tried.format("f.set_index('town', verify_integrity=True)")).differences[0]
    assert line.startswith(
        "line 14: error of f.set_index('town', verify_integrity=True) was told as '(KeyError"
    )
    assert line.endswith("'all different' has 'none'")


OBJECTS = {
    "frame": pd.DataFrame(
        {
            "n": [1, 2, 3],
            "small": np.array([1, 2, 3], np.int8),
            "x": [0.5, None, 2.0],
            "flag": [True, False, True],
            "town": ["Ulm", "Bonn", None],
            "kind": pd.Categorical(["a", "b", "a"], categories=["a", "b", "c"]),
            "day": pd.to_datetime(["2020-01-01", "2020-01-02", None]),
            "there": pd.date_range("2020-01-01", periods=3, tz="UTC"),
            "whole": pd.array([1, None, 3], "Int64"),
            "thing": pd.Series([(1,), "b", None], dtype=object),
        },
        index=["a", "b", "c"],
    ),
    "labelled": pd.DataFrame(
        np.ones((2, 2)),
        columns=pd.MultiIndex.from_tuples([("A", 1), ("A", 2)], names=["x", "y"]),
        index=pd.MultiIndex.from_tuples([("u", 1), ("v", 2)]),
    ),
    "empty": pd.DataFrame({"a": pd.Series([], dtype=float), "b": pd.Series([], dtype="str")}),
    "series": pd.Series([1.5, 2.5], name="pay", index=pd.date_range("2020-01-01", periods=2)),
    "words": np.array(["a", "bcd"]),
    "times": np.array(["2020-01-01", "2020-01-03"], "M8[D]"),
    "bytes": np.array([[1, 2], [3, 255]], np.uint8),
    "complex": np.array([1 + 1j, 2]),
    "tensor": torch.ones(2, 3, dtype=torch.float64, requires_grad=True),
    "classes": torch.tensor([0, 1, 2]),
    "table": pl.DataFrame(
        {"n": [1, None], "x": [0.5, 1.5], "town": ["Ulm", None], "flag": [True, None], "many": [[1], [2, 3]]}
    ),
    "column": pl.Series("day", ["2020-01-01", "2020-02-01"]).str.to_date(),
}


def schema(obj: Any) -> Any:
    if isinstance(obj, pd.DataFrame):
        labels = type(obj.index), obj.index.dtype, list(obj.columns), obj.columns.names
        return (*labels, obj.shape, list(obj.dtypes))
    if isinstance(obj, pd.Series):
        return type(obj.index), obj.name, obj.dtype, obj.shape
    if isinstance(obj, pl.DataFrame):
        return obj.schema, obj.shape
    if isinstance(obj, pl.Series):
        return obj.name, obj.dtype, obj.shape
    return type(obj), obj.dtype, obj.shape, getattr(obj, "requires_grad", None)


@pytest.mark.parametrize("world", WORLDS, ids=lambda world: world.name)
@pytest.mark.parametrize("name", OBJECTS)
def test_each_world_keeps_types_lengths_and_names(name: str, world: World) -> None:
    made = other(OBJECTS[name], world, name)
    assert schema(made) == schema(OBJECTS[name])
    assert schema(other(OBJECTS[name], world, name)) == schema(made)


def test_a_value_that_is_not_told_is_compared_with_nothing() -> None:
    assert not differs((NOTHING, 3), (60, 3))
    assert differs((NOTHING, 3), (60, 4))
    assert differs((NOTHING,), (60, 3))
    assert differs(True, 1)
    assert not differs(float("nan"), np.nan)
    assert differs({"a": 1}, {"b": 1})
    assert differs(3, pd.Series([3]))
