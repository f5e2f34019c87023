"""What is in the lists, with arguments by which it would do harm: the last of some steps is refused."""

from __future__ import annotations

from typing import Any

import pytest

from duetlink.compute.worker.protocol import faults
from duetlink.data import values
from duetlink.testing.faults import mapped_assets
from tests.remote.attempts import REFUSED, each
from tests.remote.hostile import FRAME, NAME, OPEN, TENSOR, HostileDesk, Room, Step, X

OWN = [10]  # an array of the peer's
ZEROS: Step = [10, "numpy.zeros", [4]]
COPY: Step = [10, "operator.getitem", [X, ["s", None, None, None]]]
GROUPS: Step = [10, ".groupby", [FRAME, "group"]]
TREE: Step = [10, "sklearn.tree.DecisionTreeClassifier", []]
FOREST = "sklearn.ensemble.RandomForestClassifier"
PIPELINE: Step = [11, "sklearn.pipeline.make_pipeline", [[10]]]
TRIPLET = "torch.nn.functional.triplet_margin_with_distance_loss"
AXIS = "numpy.apply_along_axis"
ONES: Step = [10, "torch.ones", [["t", 1, 2]]]

# functions, and names that would be looked up
CALLBACKS: dict[str, list[Step]] = {
    "agg by a name": [[11, ".agg", [FRAME, "save"]]],
    "agg by a method's name": [[11, ".agg", [FRAME, "to_pickle"]]],
    "agg by names in lists in a dict": [[11, ".agg", [FRAME, ["d", "age", ["l", "mean", "to_csv"]]]]],
    "agg by a keyword": [[11, ".agg", [FRAME], {"x": ["t", "age", "to_csv"]}]],
    "agg of groups": [GROUPS, [11, ".agg", [[10], "pipe"]]],
    "agg of groups by a dict": [GROUPS, [11, ".agg", [[10], ["d", "age", ["l", "__class__"]]]]],
    "apply by a name": [[11, ".apply", [FRAME, "eval"]]],
    "apply that hands on a path": [[11, ".apply", [FRAME, "mean"], {"path": "/tmp/x"}]],
    "apply that hands on arguments": [[11, ".apply", [FRAME, "mean"], {"args": ["t", "/tmp/x"]}]],
    "transform by a name": [[11, ".transform", [FRAME, "to_csv"]]],
    "a hook": [[11, ".register_hook", [TENSOR, ["f", "numpy.sum"]]]],
    "a function for each item": [[11, ".apply_", [TENSOR, ["f", "numpy.sum"]]]],
    "padding by a function": [[11, "numpy.pad", [X, 1, ["f", "numpy.sum"]]]],
    "pivot_table by a name": [[11, ".pivot_table", [FRAME], {"aggfunc": "to_csv"}]],
    "a function that writes": [[11, AXIS, [["f", "numpy.put"], 0, X]]],
    "a function that is handed where to write": [ZEROS, [11, AXIS, [["f", "numpy.add"], 0, X, 0, OWN]]],
    "a function where none is taken": [[11, "numpy.sum", [X], {"initial": ["f", "builtins.len"]}]],
    "a metric that writes to its second argument": [
        [10, "numpy.zeros", [["t", 4, 1]]],
        [11, "sklearn.metrics.pairwise_distances", [OWN, OWN], {"metric": ["f", "numpy.negative"]}],
    ],
    "a kernel that writes": [[11, "sklearn.svm.SVC", [], {"kernel": ["f", "numpy.negative"]}]],
    "a distance that writes": [
        ONES,
        [11, TRIPLET, [OWN, OWN, OWN], {"distance_function": ["f", "torch.nn.functional.relu"]}],
    ],
    "combine with a function that writes": [[11, ".combine", [FRAME, FRAME, ["f", "numpy.negative"]]]],
    "a getter of any attribute": [
        TREE,
        [11, "sklearn.feature_selection.RFE", [[10]], {"importance_getter": "__class__.__init__"}],
    ],
    "a format text": [
        [11, "sklearn.compose.ColumnTransformer", [["l"]], {"verbose_feature_names_out": "{0.__class__}"}]
    ],
    "a text that is run as a program": [
        TREE,
        [11, "sklearn.model_selection.GridSearchCV", [[10], ["d"]], {"pre_dispatch": "print(1)"}],
    ],
    "a hypothesis that is run as a program": [
        [10, "statsmodels.api.OLS", [X, X]],
        [11, ".fit", [[10]]],
        [12, ".t_test", [[11], "__import__('os')"]],
    ],
    "a compiler as engine": [[11, ".apply", [FRAME, "mean"], {"engine": "numba"}]],
}
# processes, files and parameters of models
PARAMETERS: dict[str, list[Step]] = {
    "a process for each job": [[11, FOREST, [], {"n_jobs": -1}]],
    "jobs set later": [[10, FOREST, []], [11, ".set_params", [[10]], {"n_jobs": 64}]],
    "jobs set by a dict": [
        TREE,
        [11, "sklearn.model_selection.GridSearchCV", [[10], ["d", "n_jobs", ["l", 1, 8]]]],
    ],
    "a cache set later": [TREE, PIPELINE, [12, ".set_params", [[11]], {"memory": "/tmp/x"}]],
    "a parameter within a pipeline": [
        [10, "sklearn.feature_extraction.text.CountVectorizer", []],
        PIPELINE,
        [12, ".set_params", [[11]], {"countvectorizer__input": "filename"}],
    ],
    "input that is not checked": [TREE, [11, ".fit", [[10], X, X], {"check_input": False}]],
    "weights changed while they are looked up": [
        ONES,
        [11, "torch.nn.functional.embedding", [OWN, OWN], {"max_norm": 1.0}],
    ],
    "a loss of each row": [ONES, [11, "torch.nn.functional.mse_loss", [OWN, OWN], {"reduction": "none"}]],
    "frames of Polars over an array": [
        [10, "sklearn.preprocessing.StandardScaler", []],
        [11, ".set_output", [[10]], {"transform": "polars"}],
    ],
    "threads of the process": [[11, "torch.set_num_threads", [64]]],
    "options of the process": [[11, "pandas.set_option", ["mode.copy_on_write", False]]],
    "another device": [[11, ".to", [TENSOR, "cuda"]]],
    "a seed that is a result": [[11, "torch.manual_seed", [[3]]]],
}
# writing to what is the owner's, or to what never changes
WRITES: dict[str, list[Step]] = {
    "an item of what is shared": [[11, "operator.setitem", [X, 0, 1.0]]],
    "a column of what is shared": [[11, "operator.setitem", [FRAME, "age", 0]]],
    "copyto": [[11, "numpy.copyto", [X, 0.0]]],
    "copyto, by name": [[11, "numpy.copyto", [], {"dst": X, "src": 0.0}]],
    "fill": [[11, ".fill", [X, 0.0]]],
    "in place, of a tensor": [[11, ".add_", [TENSOR, 1]]],
    "in place, of a frame": [[11, ".dropna", [FRAME], {"inplace": True}]],
    "the memory of a tensor": [[11, "@=data", [TENSOR, TENSOR]]],
    "fill by out=": [COPY, [11, "numpy.add", [X, 1], {"out": OWN}]],
    "out by its place": [COPY, [11, "numpy.add", [X, 1, OWN]]],
    "out of a method by its place": [COPY, [11, ".mean", [X, None, None, OWN]]],
    "running statistics": [
        [10, "torch.ones", [["t", 4, 4]]],
        [11, "torch.nn.functional.batch_norm", [OWN, X, X], {"training": True}],
    ],
    "columns set": [[11, "@=columns", [FRAME, ["l", "a", "b", "c"]]]],
    "the name of an index, which frames share": [
        [10, "@index", [FRAME]],
        [11, "@=name", [[10], NAME]],
    ],
    "append to a list": [[10, "builtins.list", [["l", X]]], [11, ".append", [[10], X]]],
    "extend a list": [[10, "builtins.list", [["l", X]]], [11, "operator.iadd", [[10], [10]]]],
    "an item of a list": [[10, "builtins.list", [["l", X]]], [11, "operator.setitem", [[10], 0, X]]],
    "an item of a dict": [[10, "builtins.dict", [], {"a": X}], [11, "operator.setitem", [[10], "a", 1]]],
    "update a dict": [[10, "builtins.dict", [], {"a": X}], [11, ".update", [[10], ["d", "b", 1]]]],
    "lists joined": [[10, "builtins.list", [["l", X]]], [11, "operator.add", [[10], [10]]]],
    "a tuple repeated": [[10, "builtins.tuple", [["l", X]]], [11, "operator.mul", [[10], 1]]],
    "modules joined": [
        [10, "torch.nn.Linear", [1, 1]],
        [11, "torch.nn.Sequential", [[10]]],
        [12, "operator.mul", [[11], 2]],
    ],
    "a bare column": [
        [10, "pandas.array", [["l", 1, 2]]],
        [11, "numpy.put_along_axis", [[10], ["l", 0], X, 0]],
    ],
}


@pytest.fixture
def desk() -> HostileDesk:
    desk = HostileDesk()
    desk.run(*OPEN)
    return desk


def last_is_refused(desk: HostileDesk, steps: list[Step]) -> None:
    told = desk.run(*steps)
    assert list(told) == [len(steps) - 1]
    assert told[len(steps) - 1].code != faults.RAISED


@each("functions, and names of functions, as arguments", REFUSED, CALLBACKS)
def test_nothing_is_called_that_was_given(desk: HostileDesk, name: str) -> None:
    last_is_refused(desk, CALLBACKS[name])


@each("parameters that do more than compute", REFUSED, PARAMETERS)
def test_parameters_do_no_more_than_compute(desk: HostileDesk, name: str) -> None:
    last_is_refused(desk, PARAMETERS[name])


@each("writes to what is shared, or to what never changes", REFUSED, WRITES)
def test_what_is_shared_does_not_change(desk: HostileDesk, name: str) -> None:
    last_is_refused(desk, WRITES[name])
    room = Room(desk.assets, desk.whole(1))
    room.run()
    found: Any = values.decode(mapped_assets(room.desk)["x", 1])
    assert found[0] == 7.25
