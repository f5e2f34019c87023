"""Private statistics that would hide less than one row: refused, or made of the data as it was shared."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Budget
from duetlink.compute.privacy.table import table_of
from duetlink.duet.answering.private import planned
from duetlink.duet.objects.budget import BudgetedAsset
from duetlink.errors import DuetError, LimitExceeded, OperationRefused, RemoteProtocolError
from tests.remote.attempts import OPEN as NOT_PREVENTED
from tests.remote.attempts import REFUSED, attempts, each, elsewhere
from tests.remote.hostile import HostileDesk, Step, asked_for

ROWS = 100
X, FRAME, OTHER = [1], [2], [3]
OPENED: list[Step] = [[1, "asset", ["x", 1]], [2, "asset", ["frame", 1]], [3, "asset", ["other", 1]]]
S, ALL = [20], ["s", None, None, None]  # the statistic; an index for everything
AGE: Step = [10, "operator.getitem", [FRAME, "age"]]


def of(*steps: Step) -> list[Step]:
    """A mean of what these steps make as 11."""
    return [*steps, [20, ".mean", [[11]]]]


# 20 is the statistic
UNSTABLE: dict[str, list[Step]] = {
    "sorted": of([11, "numpy.sort", [X]]),
    "added up": of([11, "numpy.cumsum", [X]]),
    "shifted": of(AGE, [11, ".shift", [[10], 1]]),
    "repeated": of([11, "numpy.repeat", [X, 100]]),
    "joined with itself": of([11, "numpy.concatenate", [["l", X, X]]]),
    "one row": of([11, "operator.getitem", [X, ["s", 3, 4, None]]]),
    "one row, by a list": of([11, "operator.getitem", [X, ["l", 3]]]),
    "a row by its label": of([12, "@loc", [FRAME]], [11, "operator.getitem", [[12], ["t", 3, "age"]]]),
    "a mean inside": of([12, ".mean", [X]], [11, "operator.sub", [X, [12]]]),
    "the largest": [[20, ".max", [X]]],
    "two assets": of([11, "operator.add", [X, OTHER]]),
    "a condition of another asset": of([12, "operator.gt", [OTHER, 0]], [11, "operator.getitem", [X, [12]]]),
    "a condition of the peer's": of(
        [12, "numpy.zeros", [ROWS]], [13, "operator.eq", [[12], 0]], [11, "operator.getitem", [X, [13]]]
    ),
    "a column of the peer's": of([12, "numpy.arange", [ROWS]], [11, "operator.mul", [X, [12]]]),
    "what is not exact": of([11, "numpy.log", [X]]),
    "a division that fails for some data": of(
        AGE, [12, ".astype", [[10], "int64"]], [11, "operator.floordiv", [1, [12]]]
    ),
    "a conversion that fails for some data": of(
        [12, ".astype", [X, "int64"]], [11, "operator.rshift", [[12], 1]]
    ),
    "a function": of(AGE, [11, ".apply", [[10], ["f", "numpy.abs"]]]),
    "a text that is a program": of([11, ".eval", [FRAME, "age"]]),
    "a group": [[11, ".groupby", [FRAME, "half"]], [20, ".mean", [[11]]]],
    "a whole frame": [[20, ".mean", [FRAME]]],
    "a number given to two results": of([11, ".copy", [X]], [0, "drop", [11]], [11, "numpy.sort", [X]]),
    "the asset's number given anew": of([0, "drop", [1]], [1, "numpy.sort", [OTHER]], [11, ".copy", [X]]),
    "a statistic of a statistic": [[12, ".mean", [X]], [20, ".mean", [[12]]]],
    "an asset without a budget": [[4, "asset", ["bare", 1]], [20, ".mean", [[4]]]],
    "another revision": [[4, "asset", ["x", 2]], [20, ".mean", [[4]]]],
    "a huge constant": of([11, "operator.mul", [X, 10**30]]),
    "infinity": of([11, "operator.mul", [X, float("inf")]]),
}
# written into the asset, or what it was made from, in the program's own copy
POISONED: dict[str, list[Step]] = {
    "a view": [[10, "operator.getitem", [X, ALL]], [0, "operator.setitem", [[10], ["e"], 77.0]]],
    "a view of a view": [
        [10, ".reshape", [X, 10, 10]],
        [11, "@T", [[10]]],
        [0, "numpy.copyto", [[11], 77.0]],
    ],
    "a tensor over its memory": [[10, "torch.from_numpy", [X]], [0, ".fill_", [[10], 77.0]]],
    "the asset opened again": [
        [10, "asset", ["x", 1]],
        [11, ".ravel", [[10]]],
        [0, "operator.iadd", [[11], 1000]],
    ],
}


def desk() -> HostileDesk:
    frame = pd.DataFrame({"age": np.arange(ROWS) / 2, "half": ["a", "b"] * (ROWS // 2)})
    return HostileDesk({"x": np.arange(ROWS) / 2, "frame": frame, "other": np.ones(ROWS), "bare": np.ones(3)})


def asked(attacked: HostileDesk, **fields: Any) -> Any:
    """The plan for result 20. Raises OperationRefused, before anything is charged."""
    budget = Budget(100, bounds=(0, 100))
    objects = {"x": np.ones(1), "frame": pd.DataFrame({"age": [1.0], "half": ["a"]}), "other": np.ones(1)}
    opened = {(name, 1): BudgetedAsset(budget, table_of(object_), ROWS) for name, object_ in objects.items()}
    program = asked_for(attacked.steps, 20)
    return planned(program.steps, program.target, json.dumps({"epsilon": 10, **fields}).encode(), opened)


@each("private statistics of more than single rows", REFUSED, UNSTABLE)
def test_what_one_person_may_change_more_than_once_is_refused(name: str) -> None:
    attacked = desk()
    attacked.run(*OPENED, *UNSTABLE[name])
    with pytest.raises(OperationRefused):
        asked(attacked)


@each("private statistics of data that was tampered with", REFUSED, POISONED)
def test_a_statistic_is_of_the_asset_as_it_was_shared(name: str) -> None:
    attacked = desk()
    assert attacked.run(*OPENED, *POISONED[name], [20, ".mean", [X]]) == {}
    assert attacked.value(1)[0] > 70
    released = attacked.released(asked(attacked))
    assert released["value"] == pytest.approx(24.75, abs=5)


FIELDS: dict[str, dict[str, Any]] = {
    "no noise": {"epsilon": 1e9},
    "epsilon below zero": {"epsilon": -1},
    "epsilon that is no number": {"epsilon": float("nan")},
    "epsilon that is a text": {"epsilon": "1"},
    "epsilon that is true": {"epsilon": True},
    "bounds that leave no room": {"bounds": [1, 1]},
    "bounds of the data": {"bounds": [[1], [2]]},
    "bounds beyond all": {"bounds": [-1e300, 1e300]},
    "a field that there is not": {"seed": 1},
    "candidates for a mean": {"candidates": [1, 2]},
    "a text that is too long": {"categories": ["x" * 600_000]},
}


@each("private statistics of more than single rows", REFUSED, FIELDS)
def test_what_is_asked_for_is_looked_at(name: str) -> None:
    attacked = desk()
    attacked.run(*OPENED, [20, ".mean", [X]])
    with pytest.raises((RemoteProtocolError, OperationRefused, LimitExceeded)):
        asked(attacked, **FIELDS[name])


@attempts("what private statistics do not hide", NOT_PREVENTED, "the number of rows, which is shown")
def test_shape_and_size_of_an_asset_are_public() -> None:
    with pytest.raises(DuetError):  # by a statistic it cannot be had without noise
        attacked = desk()
        attacked.run(*OPENED, [20, "builtins.len", [X]])
        asked(attacked, epsilon=0)


for test, names in {
    "test_many_at_once_spend_what_there_is": ("twenty at once, of a budget for ten",),
    "test_a_budget_is_charged_and_never_overspent": ("more than is left",),
    "test_sharing_again_gives_nothing_back": ("a budget made new by sharing again",),
}.items():
    elsewhere("budgets overspent", REFUSED, f"tests/remote/test_private.py::{test}", *names)
