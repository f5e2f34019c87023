"""Private data that is hidden in something harmless: it does not get there, or the lineage names its source.

Each program is done with two versions of the owner's data. What the steps of a result do not show must be the
same in both.
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from tests.remote.attempts import REFUSED, SHOWN, each
from tests.remote.hostile import NAME, OPEN, HostileDesk, Step, X, secrets

TARGET = 10  # what is asked for
T = [TARGET]
ZEROS: Step = [TARGET, "numpy.zeros", [4]]
ALL = ["s", None, None, None]
COPY: Step = [0, "numpy.copyto", [T, X]]
TENSOR: Step = [20, "torch.from_numpy", [X]]
TOTAL: list[Step] = [[30, ".sum", [X]], [31, ".item", [[30]]], [32, "builtins.int", [[31]]]]
LINEAR: Step = [TARGET, "torch.nn.Linear", [1, 1]]
WEIGHT: list[Step] = [[0, ".requires_grad_", [[12], False]], [0, ".fill_", [[12], [32]]]]
MODEL: Step = [TARGET, "sklearn.linear_model.LinearRegression", []]
FIT: list[Step] = [[40, ".reshape", [X, 4, 1]], [0, ".fit", [[11], [40], X]]]
LEARNS: list[Step] = [
    [11, "torch.zeros", [4], {"requires_grad": True, "dtype": ["c", "torch.float64"]}],
    TENSOR,
]
LEARNT: list[Step] = [[21, "operator.mul", [[11], [20]]], [22, ".sum", [[21]]], [0, ".backward", [[22]]]]
PRELUS: list[Step] = [[50 + i, "torch.nn.PReLU", [1, float(60 + i)]] for i in range(16)]
SEQUENTIAL: Step = [11, "torch.nn.Sequential", [[50 + i] for i in range(16)]]

# the array, frame or model 10 is the peer's; private data is written into something that shares its memory
HIDDEN: dict[str, list[Step]] = {
    "a list joined with itself": [
        ZEROS,
        [11, "builtins.list", [["l", T]]],
        [12, "operator.add", [[11], [11]]],
        [13, "operator.getitem", [[12], 0]],
        [0, "numpy.copyto", [[13], X]],
    ],
    "modules joined": [
        *TOTAL,
        LINEAR,
        [11, "torch.nn.ModuleList", [["l", T]]],
        [14, "operator.add", [[11], [11]]],
        [15, "operator.getitem", [[14], 0]],
        [12, "@weight", [[15]]],
        *WEIGHT,
    ],
    "a model as an item of an array": [
        MODEL,
        [12, "numpy.array", [["l", T]]],
        [13, "numpy.copy", [[12]]],
        [11, "operator.getitem", [[13], 0]],
        *FIT,
    ],
    "a sum of one model": [MODEL, [11, "numpy.sum", [T]], *FIT],
    "a sum of one dict": [
        ZEROS,
        [11, "numpy.sum", [["d", "a", T]]],
        [12, ".get", [[11], "a"]],
        [0, "numpy.copyto", [[12], X]],
    ],
    "a function that is handed where to write": [
        ZEROS,
        [11, "numpy.piecewise", [X, ["l", True], ["l", ["f", "numpy.add"]], 0, T]],
    ],
    "a metric that writes": [
        [TARGET, "numpy.zeros", [["t", 4, 1]]],
        [40, ".reshape", [X, 4, 1]],
        [11, "sklearn.metrics.pairwise_distances", [[40], T], {"metric": ["f", "numpy.negative"]}],
    ],
    "a series over an array": [
        [11, "numpy.zeros", [4]],
        [12, "pandas.Series", [[11]], {"copy": False}],
        [TARGET, ".astype", [[12], "float64"]],
        [0, "numpy.copyto", [[11], X]],
    ],
    "an index over an array": [
        [11, "numpy.zeros", [4]],
        [12, "pandas.Series", [["l", 1, 2, 3, 4]], {"index": [11]}],
        [TARGET, "operator.add", [[12], 1]],
        [0, "numpy.copyto", [[11], X]],
    ],
    "Polars over an array": [
        [11, "numpy.zeros", [4]],
        [12, "polars.Series", ["a", [11]]],
        [TARGET, ".clone", [[12]]],
        [0, "numpy.copyto", [[11], X]],
    ],
    "a lazy expression over an array": [
        [11, "numpy.zeros", [4]],
        [12, "polars.Series", ["a", [11]]],
        [13, "polars.lit", [[12]]],
        [14, "operator.add", [[13], 0]],
        [0, "numpy.copyto", [[11], X]],
        [15, "polars.DataFrame", [["d", "b", ["l", 1, 2, 3, 4]]]],
        [TARGET, ".select", [[15], [14]]],
    ],
    "Polars over a frame": [
        [11, "pandas.Series", [["l", 1.0, 2.0, 3.0, 4.0]]],
        [12, "polars.from_pandas", [[11]]],
        [TARGET, ".clone", [[12]]],
        [0, "operator.setitem", [[11], ALL, X]],
    ],
    "an array of a frame that gave way": [
        [11, "pandas.Series", [["l", 1.0, 2.0, 3.0, 4.0]]],
        [TARGET, "numpy.atleast_2d", [[11]]],
        [12, ".astype", [[11], "float64"]],
        [0, "operator.setitem", [[11], ALL, 0.0]],
        [0, "operator.setitem", [[12], ALL, X]],
    ],
    "clip to no bounds": [
        [TARGET, "pandas.Series", [["l", 1.0, 2.0, 3.0, 4.0]]],
        [11, ".clip", [T]],
        [0, "operator.setitem", [[11], ALL, X]],
    ],
    "the memory of an index": [
        [TARGET, "pandas.Index", [["l", 1.0, 2.0, 3.0, 4.0]]],
        [11, ".copy", [T]],
        [12, "numpy.ravel", [[11]]],
        [0, "numpy.copyto", [[12], X]],
    ],
    "the name of an index that frames share": [
        [TARGET, "pandas.DataFrame", [["d", "a", ["l", 1, 2]]]],
        [11, "operator.add", [T, 1]],
        [12, "@index", [[11]]],
        [0, "@=name", [[12], NAME]],
    ],
    "a column of its own kind": [
        [TARGET, "pandas.Series", [["l", 0, 0, 0, 0]], {"dtype": "Int64"}],
        [11, ".astype", [T, "Int64"]],
        [12, "@values", [[11]]],
        [13, "numpy.astype", [X, ["c", "numpy.int64"]]],
        [0, "numpy.put_along_axis", [[12], ["l", 0, 1, 2, 3], [13], 0]],
    ],
    "how far a generator was used up": [
        *TOTAL,
        *PRELUS,
        SEQUENTIAL,
        [12, ".parameters", [[11]]],
        [33, "operator.sub", [[32], 7]],
        [14, "operator.contains", [[12], [33]]],
        [15, "builtins.list", [[12]]],
        [TARGET, "builtins.len", [[15]]],
    ],
    "how many random numbers were drawn": [
        *TOTAL,
        [0, "torch.manual_seed", [0]],
        [12, "torch.rand", [[32]]],
        [TARGET, "torch.rand", [3]],
    ],
    "a gradient given to backward, to which the next is added": [
        [TARGET, "torch.zeros", [["t", 2, 2]], {"dtype": ["c", "torch.float64"]}],
        *LEARNS,
        [12, ".view", [[11], ["t", 2, 2]]],
        [13, ".view", [T, ["t", 2, 2]]],
        [0, ".backward", [[12], [13]]],
        *LEARNT,
    ],
    "how many weights were drawn": [
        *TOTAL,
        [0, "torch.manual_seed", [0]],
        [12, "torch.nn.Linear", [1, [32]]],
        [TARGET, "torch.rand", [3]],
    ],
}
# the same, where it is what the lists say that it is
SEEN: dict[str, list[Step]] = {
    "copyto": [ZEROS, COPY],
    "a view": [
        ZEROS,
        [11, ".reshape", [T, 2, 2]],
        [12, "@T", [[11]]],
        [13, "operator.getitem", [X, ["s", 0, 2, None]]],
        [0, "operator.setitem", [[12], 0, [13]]],
    ],
    "a ufunc at places": [ZEROS, [0, "numpy.add.at", [T, ["l", 0, 1, 2, 3], X]]],
    "putmask": [ZEROS, [11, "operator.eq", [T, 0]], [0, "numpy.putmask", [T, [11], X]]],
    "in place by an operator": [ZEROS, [12, "operator.iadd", [T, X]]],
    "memory set": [[TARGET, "torch.zeros", [4]], TENSOR, [0, "@=data", [T, [20]]]],
    "a tensor of an array": [ZEROS, TENSOR, [11, "torch.from_numpy", [T]], [0, ".copy_", [[11], [20]]]],
    "a frame in a frame": [
        [TARGET, "pandas.DataFrame", [["d", "a", ["l", 1.0, 2.0, 3.0, 4.0]]]],
        [11, "@loc", [T]],
        [0, "operator.setitem", [[11], ["t", ALL, "a"], X]],
    ],
    "a generator of one's own": [
        [11, "numpy.random.default_rng", [0]],
        *TOTAL,
        [12, ".normal", [[11]], {"size": [32]}],
        [TARGET, ".normal", [[11]]],
    ],
    "running statistics": [
        [11, "torch.zeros", [1], {"dtype": ["c", "torch.float64"]}],
        [12, "torch.ones", [1], {"dtype": ["c", "torch.float64"]}],
        TENSOR,
        [13, ".reshape", [[20], 4, 1]],
        [14, "torch.nn.functional.batch_norm", [[13], [11], [12]], {"training": True}],
        [TARGET, ".clone", [[11]]],
    ],
    "a gradient set, to which the next is added": [
        [TARGET, "torch.zeros", [4], {"dtype": ["c", "torch.float64"]}],
        *LEARNS,
        [0, "@=grad", [[11], T]],
        *LEARNT,
    ],
    "memory of a gradient set, to which the next is added": [
        [TARGET, "torch.zeros", [4], {"dtype": ["c", "torch.float64"]}],
        *LEARNS,
        [12, ".sum", [[11]]],
        [0, ".backward", [[12]]],
        [13, "@grad", [[11]]],
        [0, "@=data", [[13], T]],
        *LEARNT,
    ],
    "training": [
        [11, "torch.zeros", [1], {"requires_grad": True, "dtype": ["c", "torch.float64"]}],
        TENSOR,
        [12, "operator.mul", [[20], [11]]],
        [13, ".sum", [[12]]],
        [0, ".backward", [[13]]],
        [14, "torch.optim.SGD", [["l", [11]]], {"lr": 0.1}],
        [0, ".step", [[14]]],
        [TARGET, ".detach", [[11]]],
    ],
    "an id given again": [ZEROS, [0, "drop", [TARGET]], [TARGET, ".copy", [X]]],
    "an asset opened once more": [[11, "asset", ["x", 1]], [TARGET, ".copy", [[11]]]],
}


def outcome(steps: list[Step], number: int) -> tuple[HostileDesk, bytes]:
    torch.manual_seed(1)
    desk = HostileDesk(secrets(number))
    desk.run(*OPEN, *steps)
    return desk, desk.state(TARGET)


@each("private data hidden in what seems to be the peer's", REFUSED, HIDDEN)
def test_nothing_gets_where_its_lineage_does_not_show_it(name: str) -> None:
    desk, one = outcome(HIDDEN[name], 0)
    _, other = outcome(HIDDEN[name], 1)
    assert desk.lineage(TARGET).assets == ()
    assert one == other


@each("private data written into what is the peer's", SHOWN, SEEN)
def test_what_gets_there_is_in_the_lineage(name: str) -> None:
    desk, one = outcome(SEEN[name], 0)
    assert desk.lineage(TARGET).assets == (("x", 1),)
    assert one != outcome(SEEN[name], 1)[1]
    assert desk.group(TARGET) in (1, 4)


@pytest.fixture(autouse=True)
def gradients_are_recorded() -> Iterator[None]:
    yield
    torch.set_grad_enabled(True)
