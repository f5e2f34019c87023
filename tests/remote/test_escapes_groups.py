"""One person's value dressed as an aggregate of many: what `min_group` counts, and what it cannot see."""

from __future__ import annotations

import datetime
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink.compute.operations.allow_lists.allowed import read_list
from duetlink.duet.answering.policies.decision import decide
from duetlink.duet.answering.policies.facts import Facts
from duetlink.duet.answering.policies.policy import Policy
from tests.remote.attempts import OPEN as NOT_PREVENTED
from tests.remote.attempts import SHOWN, attempts, each
from tests.remote.hostile import HostileDesk, Step, X

ROWS = 20
FRAME, SERIES = [2], [3]
PEOPLE: list[Step] = [[number, "asset", [name, 1]] for number, name in enumerate(("x", "frame", "series"), 1)]
RESULT = 10
R, ROW = [RESULT], ["s", 3, 4, None]
WEIGHTS: list[Step] = [[11, "numpy.zeros", [ROWS]], [0, "operator.setitem", [[11], 3, 1.0]]]

CONDITIONS: list[Step] = [
    [11, "numpy.zeros", [["t", ROWS, ROWS], ["c", "builtins.bool"]]],
    [0, "operator.setitem", [[11], 3, True]],
]
# labels with two levels, the first of which is always that of row 3, and a column with that one alone
LEVELS: list[Step] = [
    [
        11,
        "pandas.MultiIndex.from_arrays",
        [["l", ["l", *[3] * ROWS], ["l", *range(ROWS)]]],
        {"names": ["l", "a", "b"]},
    ],
    [12, "operator.getitem", [FRAME, "age"]],
    [13, "pandas.Series", [0.0, [11]]],
    [14, ".rename_axis", [[12], "a"]],
]

# 10 is the value of the person in row 3, or of every single one
ALONE: dict[str, list[Step]] = {
    "one row five times, by a list": [
        [11, "operator.getitem", [X, ["l", 3, 3, 3, 3, 3]]],
        [RESULT, ".mean", [[11]]],
    ],
    "one row five times, by an array": [
        [11, "numpy.array", [["l", 3, 3, 3, 3, 3]]],
        [12, "operator.getitem", [X, [11]]],
        [RESULT, ".mean", [[12]]],
    ],
    "one row repeated": [
        [11, "operator.getitem", [X, ROW]],
        [12, "numpy.repeat", [[11], 9]],
        [RESULT, ".mean", [[12]]],
    ],
    "one row broadcast": [
        [11, "operator.getitem", [X, ROW]],
        [12, "numpy.zeros", [9]],
        [13, "operator.add", [[11], [12]]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row of a frame, by its label": [
        [11, "@loc", [FRAME]],
        [12, "operator.getitem", [[11], ["l", 3, 3, 3, 3, 3]]],
        [13, "operator.getitem", [[12], "age"]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row's columns": [
        [11, "@iloc", [FRAME]],
        [12, "operator.getitem", [[11], 3]],
        [13, "operator.getitem", [[12], ["l", "age", "age", "age", "age", "age"]]],
        [RESULT, ".mean", [[13]]],
    ],
    "rows as columns": [
        [11, "numpy.column_stack", [["l", X, X, X, X, X]]],
        [12, "@T", [[11]]],
        [RESULT, ".mean", [[12]], {"axis": 0}],
    ],
    "rows as columns, by broadcasting": [
        [11, "numpy.zeros", [["t", ROWS, ROWS]]],
        [12, "operator.add", [[11], X]],
        [13, "operator.getitem", [[12], ["t", ["s", None, None, None], ["s", 0, 6, None]]]],
        [RESULT, ".mean", [[13]], {"axis": 0}],
    ],
    "a frame joined with itself": [
        [11, "pandas.concat", [["l", FRAME, FRAME, FRAME, FRAME, FRAME]]],
        [12, ".groupby", [[11], "id"]],
        [13, "operator.getitem", [[12], "age"]],
        [RESULT, ".mean", [[13]]],
    ],
    "groups in which all but one are missing": [
        [11, "operator.getitem", [FRAME, "age"]],
        [12, "operator.eq", [[11], 3.5]],
        [13, ".where", [[11], [12]]],
        [14, "operator.getitem", [FRAME, "half"]],
        [15, ".groupby", [[13], [14]]],
        [RESULT, ".mean", [[15]]],
    ],
    "a column in which all but one are missing": [
        [11, "operator.eq", [X, 3.5]],
        [12, "numpy.where", [[11], X, float("nan")]],
        [RESULT, "numpy.nanmean", [[12]]],
    ],
    "the largest": [[RESULT, ".max", [X]]],
    "the middle": [[RESULT, "numpy.median", [X]]],
    "all of them, by quantiles": [[11, "numpy.linspace", [0, 1, 19]], [RESULT, "numpy.quantile", [X, [11]]]],
    "a description, with the largest": [[RESULT, ".describe", [FRAME]]],
    "an aggregate of the peer's own, with one row in it": [
        [11, "torch.from_numpy", [X]],
        [12, "operator.getitem", [[11], ROW]],
        [13, "torch.zeros", [100]],
        [RESULT, "torch.nn.functional.mse_loss", [[13], [12]]],
    ],
    "a window of one": [[11, ".rolling", [FRAME, 1]], [RESULT, ".mean", [[11]], {"numeric_only": True}]],
    "one row written over all others": [
        [11, ".copy", [X]],
        [12, "operator.getitem", [X, ROW]],
        [0, "operator.setitem", [[11], ["e"], [12]]],
        [RESULT, ".mean", [[11]]],
    ],
    "one row written into what had none": [
        [11, "numpy.zeros", [ROWS]],
        [12, "operator.getitem", [[11], ["s", None, None, None]]],
        [0, "operator.setitem", [[12], ["e"], X]],
        [RESULT, "numpy.asarray", [[11]]],
    ],
    "categories that a model in a pipeline has learnt": [
        [11, "sklearn.preprocessing.OneHotEncoder", []],
        [12, "sklearn.pipeline.make_pipeline", [[11]]],
        [13, "operator.getitem", [FRAME, ["l", "id", "age"]]],
        [14, ".fit", [[12], [13]]],
        [RESULT, "@categories_", [[11]]],
    ],
    # -- what looks as if it kept rows apart --
    "one row as the bounds of all, by an expression": [
        [11, "polars.col", ["x"]],
        [12, ".get", [[11], 3]],
        [13, ".clip", [SERIES, [12], [12]]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row as all choices, by an index": [
        [11, "numpy.full", [ROWS - 1, 3]],
        [12, "operator.getitem", [X, ["s", None, ROWS - 1, None]]],
        [13, "numpy.choose", [[11], [12]]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row as all choices, where it is the index as well": [
        [11, ".astype", [X, ["c", "numpy.int64"]]],
        [12, "numpy.choose", [[11], ["l", *[[11]] * ROWS]]],
        [RESULT, ".mean", [[12]]],
    ],
    "one row where one of many conditions holds": [
        *CONDITIONS,
        [12, "numpy.select", [[11], X]],
        [RESULT, ".mean", [[12]]],
    ],
    "whether a day is among those of all rows": [
        [11, ".astype", [X, ["c", "numpy.int64"]]],
        [12, ".astype", [[11], "datetime64[D]"]],
        [13, "numpy.full", [ROWS, 3]],
        [14, ".astype", [[13], "datetime64[D]"]],
        [15, "numpy.is_busday", [[14]], {"weekmask": "1111111", "holidays": [12]}],
        [RESULT, "numpy.mean", [[15]]],
    ],
    "whether a day is among those of all rows, which are asked for too": [
        [11, ".astype", [X, ["c", "numpy.int64"]]],
        [12, ".astype", [[11], "datetime64[D]"]],
        [13, "numpy.is_busday", [[12], "1111111", [12]]],
        [RESULT, "numpy.mean", [[13]]],
    ],
    "one row by its label many times, beside the label ngroups": [
        [11, "operator.getitem", [FRAME, "age"]],
        [12, ".rename", [[11], ["d", 3, "a", 4, "ngroups"]]],
        [13, "operator.getitem", [[12], ["l", *["a"] * ROWS]]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row by its label many times, beside the label columns": [
        [11, "operator.getitem", [FRAME, "age"]],
        [12, ".rename", [[11], ["d", 3, "a", 4, "columns"]]],
        [13, "operator.getitem", [[12], ["l", *["a"] * ROWS]]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row's group, where others are called columns and size": [
        [11, "pandas.Series", [["l", "size", "size", "size", "a", "columns", *["size"] * (ROWS - 5)]]],
        [12, "operator.getitem", [FRAME, "age"]],
        [13, ".groupby", [[12], [11]]],
        [RESULT, ".mean", [[13]]],
    ],
    "one row by its label, in place of all that a condition leaves out": [
        [11, "pandas.Series", [["l", *[0.0] * ROWS], ["l", *[3] * ROWS]]],
        [12, "operator.ne", [[11], 0.0]],
        [13, "operator.getitem", [FRAME, "age"]],
        [14, ".where", [[11], [12], [13]]],
        [RESULT, ".mean", [[14]]],
    ],
    "one row by a level of labels": [*LEVELS, [15, "operator.add", [[13], [14]]], [RESULT, ".mean", [[15]]]],
    "one row by a level of labels, by a method": [
        *LEVELS,
        [15, ".add", [[13], [14]], {"level": "a"}],
        [RESULT, ".mean", [[15]]],
    ],
    "all rows as one text in each": [
        [11, "operator.getitem", [FRAME, "age"]],
        [12, "operator.lt", [[11], 0.0]],
        [13, ".where", [[11], [12], ["c", "builtins.str"]]],
        [14, "operator.eq", [[13], "a text"]],
        [RESULT, ".sum", [[14]]],
    ],
    # -- what looks like an average --
    "the largest, by a ufunc": [[RESULT, "numpy.maximum.reduce", [X]]],
    "the smallest, by a ufunc": [[RESULT, "numpy.fmin.reduce", [X]]],
    "the largest, by a norm": [[RESULT, "numpy.linalg.norm", [X, float("inf")]]],
    "the largest, by a norm, by name": [[RESULT, "numpy.linalg.vector_norm", [X], {"ord": float("inf")}]],
    "the largest, by torch's norm": [
        [11, "torch.from_numpy", [X]],
        [RESULT, "torch.linalg.vector_norm", [[11], float("inf")]],
    ],
    "the largest, by a metric": [
        [11, "numpy.zeros", [ROWS]],
        [RESULT, "sklearn.metrics.max_error", [X, [11]]],
    ],
    "the middle, by a metric": [
        [11, "numpy.zeros", [ROWS]],
        [RESULT, "sklearn.metrics.median_absolute_error", [X, [11]]],
    ],
    "all rows, in the tuple of a test": [
        [11, "numpy.full", [ROWS, 100.0]],
        [12, "statsmodels.stats.api.proportions_chisquare", [X, [11]]],
        [13, "operator.getitem", [[12], 2]],
        [RESULT, "operator.getitem", [[13], 0]],
    ],
    "an average with weights": [*WEIGHTS, [RESULT, "numpy.average", [X], {"weights": [11]}]],
    "an average with weights, by place": [*WEIGHTS, [RESULT, "numpy.average", [X, None, [11]]]],
    "a product with weights": [*WEIGHTS, [RESULT, "numpy.dot", [X, [11]]]],
    "a correlation with one row": [
        *WEIGHTS,
        [12, "operator.getitem", [FRAME, "age"]],
        [13, "pandas.Series", [[11]]],
        [RESULT, ".corr", [[12], [13]]],
    ],
    "a covariance with one row": [*WEIGHTS, [RESULT, "numpy.cov", [X, [11]]]],
    "a covariance with weights": [
        [11, "numpy.ones", [ROWS], {"dtype": ["c", "builtins.int"]}],
        [RESULT, "numpy.cov", [X], {"fweights": [11]}],
    ],
    "a mean where a condition holds": [[RESULT, "numpy.mean", [X], {"where": True}]],
    "a loss": [
        *WEIGHTS,
        [12, "torch.from_numpy", [X]],
        [13, "torch.from_numpy", [[11]]],
        [RESULT, "torch.nn.functional.mse_loss", [[12], [13]]],
    ],
    "whether any is true, as a sum": [[RESULT, "numpy.sum", [X], {"dtype": ["c", "builtins.bool"]}]],
    "whether all are true": [[RESULT, ".all", [X]]],
    "a product": [[RESULT, ".prod", [X]]],
    "every row's mean, in a tuple": [
        [11, "operator.getitem", [FRAME, ["l", "age", "id"]]],
        [12, ".to_numpy", [[11]]],
        [13, "torch.from_numpy", [[12]]],
        [RESULT, "torch.var_mean", [[13]], {"dim": 1}],
    ],
    "all texts, one behind the other": [[RESULT, ".sum", [FRAME]]],
    "all texts of a group": [
        [11, "operator.gt", [X, 10]],
        [12, ".groupby", [FRAME, [11]]],
        [RESULT, ".sum", [[12]]],
    ],
    "one row added to all": [
        [11, "operator.getitem", [FRAME, ["l", "age", "id"]]],
        [12, ".to_numpy", [[11]]],
        [13, "operator.getitem", [X, ["s", 3, 5, None]]],
        [14, "operator.add", [[12], [13]]],
        [RESULT, ".mean", [[14]], {"axis": 0}],
    ],
    "a complex column in which all but one are missing": [
        [11, "operator.eq", [X, 3.5]],
        [12, "numpy.where", [[11], X, float("nan")]],
        [13, "operator.mul", [[12], ["z", 1, 1]]],
        [RESULT, "numpy.nanmean", [[13]]],
    ],
    "columns that share one row": [
        [11, "operator.getitem", [FRAME, ["l", "age", "id"]]],
        [12, "operator.sub", [[11], 10.25]],
        [13, ".mul", [[12], ["l", 1, -1]]],
        [14, "operator.lt", [[13], 0.75]],
        [15, ".where", [[11], [14]]],
        [RESULT, ".cov", [[15]]],
    ],
    "the first of a group": [[11, ".groupby", [FRAME, "half"]], [RESULT, ".first", [[11]]]],
    "a group's own aggregates": [
        [11, ".groupby", [FRAME, "half"]],
        [12, "operator.getitem", [[11], "age"]],
        [RESULT, ".agg", [[12], ["l", "mean", "max"]]],
    ],
    "counts of values that one row has": [[RESULT, ".value_counts", [FRAME]]],
    "counts in bins": [[11, "numpy.histogram", [X, 20]], [RESULT, "operator.getitem", [[11], 0]]],
    "statistics of a module that failed half-way": [
        [11, "torch.nn.BatchNorm1d", [1], {"dtype": ["c", "torch.float64"]}],
        [12, "torch.nn.Linear", [7, 7]],
        [13, "torch.nn.Sequential", [[11], [12]]],
        [14, "torch.from_numpy", [X]],
        [15, ".reshape", [[14], ROWS, 1]],
        [16, "operator.getitem", [[15], ["s", 3, 5, None]]],
        [17, ".__call__", [[13], [16]]],
        [18, "@running_mean", [[11]]],
        [RESULT, ".clone", [[18]]],
    ],
}
# "a mean where a condition holds": as far as the lists let it through at all
FAILING = frozenset({"statistics of a module that failed half-way"})
# the same, by what is no accident
UNSEEN: dict[str, list[Step]] = {
    "a sum with weights that are 0 but for one": [
        *WEIGHTS,
        [12, "operator.mul", [X, [11]]],
        [RESULT, ".sum", [[12]]],
    ],
    "a mean over all but one, to be compared with that over all": [
        [11, "operator.getitem", [X, ["s", 1, None, None]]],
        [RESULT, ".mean", [[11]]],
    ],
}


def desk() -> HostileDesk:
    x = np.arange(ROWS) + 0.5
    frame = pd.DataFrame({"id": np.arange(ROWS), "age": x, "half": ["a", "b"] * (ROWS // 2)})
    return HostileDesk({"x": x, "frame": frame, "series": pl.Series("x", x)})


def facts(group: int | None) -> Facts:
    """Of a mean, made of so many rows."""
    return Facts("x.mean()", "numpy.float64", (), "Sven", 8, 1, ("mean",), ("x",), "", "x.mean()", group)


@each("one person dressed as a group", SHOWN, ALONE)
def test_what_is_of_one_row_has_a_group_of_one(name: str) -> None:
    attacked = desk()
    failed = attacked.run(*PEOPLE, *ALONE[name])
    if name in FAILING:  # what a step was to change, and failed to, is not there any more
        assert not attacked.is_there(RESULT)
        return
    assert failed == {}
    assert attacked.group(RESULT) == 1


@each("one person dressed as a group", NOT_PREVENTED, UNSEEN)
def test_what_is_done_to_rows_before_is_not_seen(name: str) -> None:
    attacked = desk()
    attacked.run(*PEOPLE, *UNSEEN[name])
    assert attacked.group(RESULT) in (ROWS, ROWS - 1)


def test_honest_aggregates_have_their_groups() -> None:
    honest = desk()
    steps: list[Step] = [
        [10, ".mean", [X]],
        [11, "operator.gt", [X, 10]],
        [12, "operator.getitem", [X, [11]]],
        [13, ".mean", [[12]]],
        [14, ".groupby", [FRAME, "half"]],
        [15, "operator.getitem", [[14], "age"]],
        [16, ".mean", [[15]]],
        [17, "operator.getitem", [FRAME, "age"]],
        [18, "operator.sub", [[17], [10]]],
        [19, "operator.mul", [[18], [18]]],
        [20, ".sum", [[19]]],
        [21, ".groupby", [FRAME, "half"], {"as_index": False}],
        [22, ".mean", [[21]]],
        [23, "torch.from_numpy", [X]],
        [24, ".mean", [[23]]],
    ]
    assert honest.run(*PEOPLE, *steps) == {}
    assert [honest.group(result) for result in (10, 13, 16, 20, 22, 24)] == [20, 10, 10, 20, 10, 20]


AGES: Step = [11]
BY_ITEM: dict[str, list[Step]] = {
    "each less the mean": [[12, ".mean", [X]], [13, "operator.sub", [X, [12]]]],
    "columns less their means": [
        [14, "operator.getitem", [FRAME, ["l", "age", "id"]]],
        [12, ".mean", [[14]]],
        [13, "operator.sub", [[14], [12]]],
    ],
    "one column by another": [[12, "operator.getitem", [FRAME, "id"]], [13, ".mul", [AGES, [12]]]],
    "a choice by a condition": [[12, "operator.gt", [X, 10]], [13, "numpy.where", [[12], X, 0.0]]],
    "rows where a condition holds": [[12, "operator.gt", [AGES, 10]], [13, ".where", [AGES, [12], 0.0]]],
    "bounds": [[13, ".clip", [X, 2, 9]]],
    "bounds by name": [[13, ".clip", [AGES], {"lower": 2, "upper": 9}]],
    "bounds in Polars": [[13, ".clip", [SERIES, 2, 9]]],
    "another type": [[13, ".astype", [AGES, ["c", "numpy.float32"]]]],
    "another type in Polars": [[13, ".cast", [SERIES, ["c", "polars.Float32"]]]],
    "a logarithm in torch": [[12, "torch.from_numpy", [X]], [13, "torch.log1p", [[12]]]],
    "what is not missing": [[13, ".notna", [AGES]]],
    "a choice of what is public": [
        [12, "numpy.greater", [X, 10]],
        [13, "numpy.choose", [[12], ["l", 1, 2]]],
    ],
}


@pytest.mark.parametrize("name", BY_ITEM)
def test_what_is_done_item_by_item_keeps_the_rows(name: str) -> None:
    honest = desk()
    steps: list[Step] = [[11, "operator.getitem", [FRAME, "age"]], *BY_ITEM[name], [RESULT, ".mean", [[13]]]]
    assert honest.run(*PEOPLE, *steps) == {}
    assert honest.group(RESULT) == ROWS


NUMBERS: Step = [11]
TENSOR: Step = [12]
GROUPS: Step = [14]
HONEST: list[tuple[int, Step]] = [
    *(
        (20, [name, [X]])
        for name in (".mean", ".sum", ".std", ".var", "numpy.mean", "numpy.sum", "numpy.std")
    ),
    *((20, [name, [X]]) for name in ("numpy.var", "numpy.nanmean", "numpy.average", "numpy.count_nonzero")),
    *((20, [name, [X]]) for name in ("numpy.add.reduce", "numpy.linalg.norm", "builtins.len")),
    (20, [".std", [X], {"ddof": 1}]),
    (20, [".mean", [X, 0]]),
    *((20, [f".{name}", [NUMBERS]]) for name in ("mean", "sum", "std", "var", "count", "corr", "cov", "sem")),
    (20, [".mean", [NUMBERS], {"axis": 0, "skipna": True}]),
    (20, [".mean", [FRAME], {"numeric_only": True}]),
    *((20, [name, [TENSOR]]) for name in (".mean", ".sum", ".std", ".var", "torch.mean", "torch.sum")),
    (20, [".mean", [TENSOR], {"dim": 0, "keepdim": True}]),
    *((10, [f".{name}", [GROUPS]]) for name in ("mean", "sum", "std", "var", "count", "size", "corr")),
    (10, [".value_counts", [[15]]]),
]


@pytest.mark.parametrize(("group", "step"), HONEST)
def test_the_usual_statistics_have_their_groups(group: int, step: Step) -> None:
    honest = desk()
    steps: list[Step] = [
        [11, "operator.getitem", [FRAME, ["l", "id", "age"]]],
        [12, "torch.from_numpy", [X]],
        [13, ".groupby", [FRAME, "half"]],
        [14, "operator.getitem", [[13], ["l", "id", "age"]]],
        [15, "operator.getitem", [FRAME, "half"]],
    ]
    assert honest.run(*PEOPLE, *steps, [RESULT, *step]) == {}
    assert honest.group(RESULT) == group


COUNTS = frozenset({".count", ".count_nonzero", "numpy.count_nonzero", "torch.count_nonzero", "builtins.len"})


@pytest.mark.parametrize("kind", ["ndarray", "frame", "column", "tensor"])
def test_in_an_average_each_row_has_its_share_whichever_it_is(kind: str) -> None:
    x = np.random.default_rng(3).uniform(1, 2, (7, 2))
    others = {f"with another row {row}": x + (np.arange(7) == row)[:, None] * [0.5, 0.25] for row in range(7)}
    make: Any = {
        "ndarray": lambda rows: rows[:, 0].copy(),
        "frame": lambda rows: pd.DataFrame(rows, columns=["a", "b"]),
        "column": lambda rows: pd.Series(rows[:, 0]),
        "tensor": lambda rows: torch.from_numpy(rows),
    }[kind]
    tables = {"as it is": x, "in another order": x[[3, 1, 6, 0, 5, 2, 4]], **others}
    honest = HostileDesk({name: make(rows) for name, rows in tables.items()})
    honest.run(*([number, "asset", [name, 1]] for number, name in enumerate(tables, 1)))
    operations = [name for table in read_list("averages")["averages"] for name in table["operations"]]
    operations.remove(".size")  # of groups; of a tensor it is its shape
    tried = 0
    for place, operation in enumerate(operations, 1):
        ids = [1000 * place + number for number in range(len(tables))]
        if honest.run(*([id_, operation, [[number]]] for number, id_ in enumerate(ids, 1))):
            continue  # it is none of this kind
        if any(honest.group(id_) != 7 for id_ in ids):
            continue
        tried += 1
        same, order, *changed = [np.asarray(honest.value(id_), float) for id_ in ids]
        np.testing.assert_allclose(order, same, rtol=1e-9, err_msg=operation)
        differ = [not np.allclose(other, same, rtol=1e-9) for other in changed]
        of_itself = operation == "numpy.corrcoef" and same.ndim == 0  # which is 1
        assert differ == [operation not in COUNTS and not of_itself] * 7, operation
    assert tried >= 10


@attempts("one person dressed as a group", SHOWN, "a group of one, before a policy that wants five")
def test_a_policy_leaves_a_group_of_one_to_the_person() -> None:
    policy = Policy("approve", name="five", min_group=5)
    now = datetime.datetime(2024, 1, 1, tzinfo=datetime.UTC)
    assert decide([policy], facts(20), {}, now).action == "approve"
    assert decide([policy], facts(1), {}, now).action == "wait"
