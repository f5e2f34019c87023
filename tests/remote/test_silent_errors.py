"""What once gave a wrong value without a word: it is right now, or it raises at that line."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.linalg
import sklearn
import torch
from sklearn.linear_model import LogisticRegression
from sklearn.neighbors import KNeighborsClassifier
from sklearn.preprocessing import StandardScaler
from torch import nn

from duetlink import errors
from tests.remote.conftest import Bench


@pytest.fixture(scope="module")
def p(shared_bench: Bench) -> dict[str, Any]:
    """Pointers, whose mocks differ from the data wherever a wrong value could come from."""
    share = shared_bench.share
    return {
        "array": share(np.arange(6.0).reshape(2, 3), "s array", np.full((2, 3), 9.0)),
        "places": share(np.array([0, 1, 1]), "s places", np.array([0, 0, 2])),
        "tensor": share(torch.arange(6.0).reshape(2, 3), "s tensor", torch.full((2, 3), 9.0)),
        "frame": share(
            pd.DataFrame({"age": [91.0, 20.0], "name": ["Bob", "Eve"]}),
            "s frame",
            pd.DataFrame({"age": [1.0, 2.0], "name": ["a", "b"]}),
        ),
        "polars": share(
            pl.DataFrame({"age": [91.0, 20.0], "words": [["a"], ["b", "c"]]}),
            "s polars",
            pl.DataFrame({"age": [1.0, 2.0], "words": [["x", "y"], ["z"]]}),
        ),
        "twice": share(
            pd.Series(["a b", "c d e"], index=[0, 0]), "s twice", pd.Series(["x y z", "v w"], index=[0, 1])
        ),
        "table": share(
            pd.DataFrame({"a": [1.0, 2.0]}, index=["x", "x"]),
            "s table",
            pd.DataFrame({"a": [7.0, 8.0]}, index=["x", "y"]),
        ),
        "classes": share(np.array([0, 1, 2, 0]), "s classes", np.array([1, 0, 1, 1])),
        "points": share(np.array([[1.0, 1], [2, 2], [3, 3], [4, 4]]), "s points", np.eye(4)[:, :2]),
    }


VIEWS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "to_numpy of a column": lambda p: (p["frame"][["age"]] * 1).age.to_numpy(),
    "values of a column": lambda p: (p["frame"][["age"]] * 1).age.values,
    "to_numpy of a frame": lambda p: (p["frame"][["age"]] * 1).to_numpy(),
    "to_numpy of Polars": lambda p: (p["polars"]["age"] * 1).to_numpy(),
}


@pytest.mark.parametrize("name", VIEWS)
def test_an_array_that_looks_at_a_frame_is_not_written_to(p: dict[str, Any], name: str) -> None:
    view = VIEWS[name](p)
    with pytest.raises(ValueError, match="read-only"):
        view[0] = 7.0


def test_an_array_that_is_a_copy_of_a_column_is_written_to(p: dict[str, Any]) -> None:
    column = p["frame"].age * 1
    array = column.to_numpy(copy=True)
    array[0] = 7.0
    assert array.get(reason="written").tolist() == [7.0, 20.0]
    assert column.get(reason="as it was").tolist() == [91.0, 20.0]


# -- nothing of a mock gets into an object of this side ----------------------------------------------------


def _set_item(p: dict[str, Any]) -> None:
    torch.zeros(2, 3)[0] = p["tensor"][0] * 2


def _set_item_of_an_array(p: dict[str, Any]) -> None:
    np.zeros(3)[:] = p["array"][0]


def _batch_norm(p: dict[str, Any]) -> None:
    nn.functional.batch_norm(p["tensor"] * 1, torch.zeros(3), torch.ones(3), training=True)


WRITES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "an item of a tensor": _set_item,
    "add_": lambda p: torch.zeros(()).add_(p["tensor"].sum()),
    "copy_": lambda p: torch.zeros(2, 3).copy_(p["tensor"] * 1),
    "index_put_": lambda p: torch.zeros(3).index_put_((torch.tensor([0]),), p["tensor"].sum()),
    "a sum that runs": lambda p: torch.zeros(()).__iadd__(p["tensor"].sum()),
    "a running mean of this side": _batch_norm,
    "copyto": lambda p: np.copyto(np.zeros((2, 3)), p["array"]),
    "putmask": lambda p: np.putmask(np.zeros((2, 3)), p["array"] > 1, 5),
    "place": lambda p: np.place(np.zeros((2, 3)), p["array"] > 1, [5.0]),
    "add.at": lambda p: np.add.at(np.zeros(3), p["places"], 1),
    "maximum.at": lambda p: np.maximum.at(np.zeros(3), p["places"], 1),
    "gradients of this side": lambda p: torch.ones(2, 3, requires_grad=True).mul(2).backward(p["tensor"] * 1),
}


@pytest.mark.parametrize("name", WRITES)
def test_no_object_of_this_side_is_written_with_what_mocks_make(p: dict[str, Any], name: str) -> None:
    with pytest.raises((errors.OperationRefused, errors.PrivateValue)):
        WRITES[name](p)


def _through_loc(p: dict[str, Any]) -> None:
    p["frame"].loc[0, "age"] = 0


def _through_iloc(p: dict[str, Any]) -> None:
    p["frame"].age.iloc[:1].sum()  # looking is no writing
    p["frame"].iloc[0, 0] = 0


def _through_a_view(p: dict[str, Any]) -> None:
    view = p["array"][1:]
    view[:] = 0


ASSETS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "copyto": lambda p: np.copyto(p["array"], 0),
    "fill_diagonal": lambda p: np.fill_diagonal(p["array"], 0),
    "an operator in place": lambda p: p["array"].__iadd__(1),
    "a view of an array": _through_a_view,
    "an item of a frame by its label": _through_loc,
    "an item of a frame by its place": _through_iloc,
    "a row": lambda p: p["array"][0].__imul__(2),
    "a view of a tensor": lambda p: p["tensor"].view(6).zero_(),
    "a row of a tensor": lambda p: p["tensor"][1:].mul_(2),
    "an array of a tensor": lambda p: p["array"].T.fill(0),
}


@pytest.mark.parametrize("name", ASSETS)
def test_an_asset_is_not_changed_through_anything_that_looks_at_it(p: dict[str, Any], name: str) -> None:
    before = p["array"].mock.tolist(), p["tensor"].mock.tolist(), p["frame"].mock.age.tolist()
    with pytest.raises(errors.OperationRefused, match=r"cannot be changed.*copy"):
        ASSETS[name](p)
    assert (p["array"].mock.tolist(), p["tensor"].mock.tolist(), p["frame"].mock.age.tolist()) == before


def test_what_is_drawn_here_shuffles_no_rows_that_are_elsewhere(p: dict[str, Any]) -> None:
    rows, column = p["array"].copy(), p["array"][0].copy()
    for shuffle in (np.random.default_rng(0).shuffle, np.random.shuffle):
        with pytest.warns(UserWarning, match="shuffl"), pytest.raises(errors.OperationRefused, match="permu"):
            shuffle(rows)
    assert rows.get().tolist() == [[0, 1, 2], [3, 4, 5]]
    with pytest.warns(UserWarning, match="shuffl"):
        np.random.default_rng(0).shuffle(column)
    assert sorted(column.get()) == [0, 1, 2]


# -- Python's meaning is kept ------------------------------------------------------------------------------


def test_an_operator_in_place_changes_the_object_and_all_that_look_at_it(p: dict[str, Any]) -> None:
    array = p["array"].copy()
    other = array
    other += 1
    assert array.get().tolist() == [[1, 2, 3], [4, 5, 6]]
    for row in array:
        row -= row.mean()
    assert array.get().tolist() == [[-1, 0, 1], [-1, 0, 1]]
    frame = p["frame"][["age"]].copy()
    same = frame
    same *= 2
    assert frame.get().age.tolist() == [182, 40]
    column = p["frame"].age
    column += 1  # a copy of pandas': the asset stays
    assert column.get().tolist() == [92, 21]
    total = p["array"].sum()
    before = total
    total += 1  # a number never changes
    assert (before.get(), total.get()) == (15, 16)


def test_a_copy_is_another_object(p: dict[str, Any]) -> None:
    array = p["array"] * 1
    copied = copy.copy(array)
    copied[0] = 7
    assert array.get().tolist() == [[0, 1, 2], [3, 4, 5]]
    assert copied.get().tolist() == [[7, 7, 7], [3, 4, 5]]
    assert copy.copy(p["polars"]).get().shape == (2, 2)
    with pytest.raises(errors.OperationRefused, match="not copied"):
        copy.copy(p["frame"].groupby("name"))
    with pytest.raises(errors.OperationRefused, match="same memory"):
        copy.copy(p["tensor"])  # torch's would write into the tensor itself


def test_what_is_asked_for_is_what_there_was_at_that_line(p: dict[str, Any]) -> None:
    array = p["array"].copy()
    asked = array.request()
    array[0] = 50
    assert asked.result(10).tolist() == [[0, 1, 2], [3, 4, 5]]


def test_none_of_the_mock_is_no_plain_none(p: dict[str, Any]) -> None:
    highest = p["polars"].filter(pl.col("age") > 90)["age"].max()
    assert highest is not None
    assert highest.get() == 91
    assert p["frame"].age[p["frame"].age > 90].first_valid_index().get() == 0
    with pytest.raises(errors.PrivateValue):
        bool(highest)


def test_a_gradient_that_there_is_not_yet_is_none() -> None:
    assert torch.nn.Linear(1, 1).weight.grad is None


def test_a_private_value_is_not_taken_for_a_wrong_type(p: dict[str, Any]) -> None:
    total = p["array"].sum()
    with pytest.raises(errors.PrivateValue):
        try:
            float(total)
        except (TypeError, ValueError):
            pytest.fail("swallowed")
    with pytest.raises(errors.PrivateValue):
        assert pd.Series({"a": total, "b": total}) == 6
    for local in (pd.Series([91.0, 20.0]), pd.DataFrame({"age": [91.0, 20.0]}), pd.Index([91.0, 20.0])):
        with pytest.raises(errors.PrivateValue, match="pandas wants"):
            local.equals(p["frame"].age)
    assert list(p["frame"]) == ["age", "name"]


def test_each_thread_has_its_own_mode_in_its_own_steps(shared_bench: Bench) -> None:
    weights = shared_bench.scientist.remote(torch.ones(3, requires_grad=True))
    begun, stop = threading.Event(), threading.Event()

    def without_gradients() -> None:
        with torch.no_grad():
            while not stop.is_set():
                (weights * 2).sum()
                begun.set()

    other = threading.Thread(target=without_gradients)
    other.start()
    begun.wait(10)
    for _ in range(60):
        (weights * 2).sum().backward()
    stop.set()
    other.join(10)
    assert weights.grad.get().tolist() == [120, 120, 120]


# -- what is placed brings what it has, or is refused ------------------------------------------------------


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(3, 3)
        self.act = nn.ReLU(inplace=True)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        hidden = self.linear(x)
        out = self.linear(self.act(hidden))
        total: torch.Tensor = (out + hidden).sum()
        return total


def test_a_layer_in_place_changes_what_it_is_given(shared_bench: Bench, p: dict[str, Any]) -> None:
    torch.manual_seed(0)
    block = Block()
    expected = block(torch.arange(6.0).reshape(2, 3)).detach()
    torch.testing.assert_close(shared_bench.scientist.remote(block)(p["tensor"] * 1).detach().get(), expected)


@pytest.mark.parametrize("layer", [nn.SiLU, nn.LeakyReLU, nn.Hardswish, nn.ELU, nn.Hardtanh, nn.Mish])
def test_gradients_through_a_layer_in_place(shared_bench: Bench, layer: type[nn.Module]) -> None:
    act = layer(inplace=True)
    here = torch.linspace(-2, 2, 6).requires_grad_(True)
    there = shared_bench.scientist.remote(torch.linspace(-2, 2, 6).requires_grad_(True))
    for weights in (here, there):
        hidden = weights * 1
        act(hidden)
        hidden.sum().backward()
    assert here.grad is not None
    torch.testing.assert_close(there.grad.get(), here.grad)


def test_an_optimiser_made_before_its_model_was_placed_says_so(
    shared_bench: Bench, p: dict[str, Any]
) -> None:
    model = nn.Linear(3, 1)
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    model = shared_bench.scientist.remote(model)
    model(p["tensor"] * 1).sum().backward()
    with pytest.raises(errors.OperationRefused, match="make the optimiser afterwards"):
        optimiser.step()


def test_a_parameter_of_two_modules_that_are_placed_one_by_one_stays_one(shared_bench: Bench) -> None:
    embedding, head = nn.Embedding(5, 3), nn.Linear(3, 5, bias=False)
    head.weight = embedding.weight
    shared_bench.scientist.remote(embedding)
    shared_bench.scientist.remote(head)
    assert head.weight is embedding.weight


def test_an_estimator_that_holds_what_does_not_travel_is_refused(shared_bench: Bench) -> None:
    near = KNeighborsClassifier(1).fit([[1.0], [2.0]], [0, 1])
    with pytest.raises(
        errors.OperationRefused, match=r"does not travel \(.*effective_metric_.*KNeighborsClassifier\(…"
    ):
        shared_bench.scientist.remote(near)


def test_autocast_is_recorded_with_each_step(shared_bench: Bench, p: dict[str, Any]) -> None:
    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    real = torch.arange(6.0).reshape(2, 3)
    with torch.autocast("cpu"):
        expected = model(real)
    model = shared_bench.scientist.remote(model)
    with torch.autocast("cpu"):
        inside = model(p["tensor"] * 1.5)
        product = p["tensor"] @ p["tensor"].T
    outside = p["tensor"] @ p["tensor"].T
    fetched = shared_bench.scientist.fetch([inside, product, outside], reason="all")
    assert [each.dtype for each in fetched] == [torch.bfloat16, torch.bfloat16, torch.float32]
    assert inside.dtype == expected.dtype == torch.bfloat16
    assert fetched[1].tolist() == (real.bfloat16() @ real.bfloat16().T).tolist()


def test_a_training_under_autocast_is_the_one_at_home(shared_bench: Bench, p: dict[str, Any]) -> None:
    def trained(model: Any, x: Any) -> Any:
        optimiser = torch.optim.SGD(model.parameters(), lr=0.01)
        for _ in range(3):
            optimiser.zero_grad()
            with torch.autocast("cpu", dtype=torch.bfloat16):
                loss = model(x).square().mean()
            loss.backward()
            optimiser.step()
        return model.weight

    torch.manual_seed(0)
    model = nn.Linear(3, 2)
    far = shared_bench.scientist.remote(copy.deepcopy(model))
    expected = trained(model, torch.arange(6.0).reshape(2, 3)).detach()
    found = trained(far, p["tensor"]).get(reason="weights")
    torch.testing.assert_close(found.detach(), expected, rtol=0, atol=0)


def test_the_default_dtype_is_recorded_with_each_step(shared_bench: Bench, p: dict[str, Any]) -> None:
    remote = shared_bench.scientist.remote
    whole = shared_bench.share(torch.arange(3), "s whole", torch.tensor([7, 8, 9]))
    torch.set_default_dtype(torch.float64)
    try:
        made = [remote(torch).zeros(3), whole * 0.1, (whole + 1) / 3, p["tensor"] * 2]
    finally:
        torch.set_default_dtype(torch.float32)
    found = shared_bench.scientist.fetch([*made, whole * 0.1], reason="all")
    float64, float32 = torch.float64, torch.float32
    assert [each.dtype for each in found] == [float64, float64, float64, float32, float32]
    assert found[1].tolist() == [0.0, 0.1, 0.2]


def test_transformers_do_not_return_frames_of_polars(shared_bench: Bench) -> None:
    with (
        sklearn.config_context(transform_output="polars"),
        pytest.raises(errors.OperationRefused, match="set 'default' or 'pandas'"),
    ):
        shared_bench.scientist.remote(StandardScaler())


def test_what_transformers_return_is_recorded_with_each_step(shared_bench: Bench, p: dict[str, Any]) -> None:
    shown: list[str] = []

    def answer(request: Any) -> None:
        shown.append(str(request.code))
        request.approve()

    shared_bench.answer = answer
    try:
        scaler = shared_bench.scientist.remote(StandardScaler())
        with sklearn.config_context(transform_output="pandas"):
            frame = scaler.fit_transform(p["frame"][["age"]])
        found = frame.get(reason="a frame")
        array = scaler.transform(p["frame"][["age"]]).get(reason="an array")
    finally:
        shared_bench.answer = None
    assert isinstance(found, pd.DataFrame)
    assert found.columns.tolist() == ["age"]
    assert array.tolist() == found.to_numpy().tolist() == [[1.0], [-1.0]]
    assert 'within sklearn.config_context(transform_output="pandas")' in shown[0]
    lines = shown[1].splitlines()
    assert [line for line in lines if "within" in line] == [line for line in lines if "fit_transform" in line]


def test_a_seed_of_this_side_is_a_seed_of_the_program(p: dict[str, Any]) -> None:
    drawn: list[list[float]] = []
    for _ in range(2):
        np.random.seed(3)
        drawn.append([p["frame"].age.sample(1).mock.iloc[0], *p["frame"].age.sample(2).get()])
        torch.manual_seed(3)
        dropped: Any = nn.functional.dropout(p["tensor"] * 1, 0.5)
        drawn[-1] += dropped.get().ravel().tolist()
    assert drawn[0] == drawn[1]


def test_a_name_that_is_set_on_labels_of_a_mock_is_refused(p: dict[str, Any]) -> None:
    frame = p["frame"][["age"]] * 1
    frame.columns.name = "c"
    with pytest.raises(errors.OperationRefused, match="rename_axis"):
        frame.get()
    assert frame.get().columns.name is None
    p["frame"].columns.name = "c"
    with pytest.raises(errors.OperationRefused, match="rename_axis"):
        p["frame"].get()
    assert p["frame"].get().columns.name is None


def test_a_column_is_not_hidden_by_what_a_pointer_has_of_its_own(p: dict[str, Any]) -> None:
    assert (p["frame"].name == "Bob").get().tolist() == [True, False]
    assert (p["frame"].duet.name, p["frame"].kind, p["array"].name) == (
        "s frame",
        "pandas.DataFrame",
        "s array",
    )


# -- sizes that depend on the data -------------------------------------------------------------------------


SIZES: dict[str, Callable[[dict[str, Any], Bench], Any]] = {
    "words of a text": lambda p, b: len(p["twice"].iloc[0].split()),
    "words of each text": lambda p, b: [word for row in p["twice"].str.split().tolist() for word in row],
    "what was found": lambda p, b: len(p["twice"].str.findall("[a-z]").tolist()[0]),
    "a list in a row": lambda p, b: len(p["polars"].row(0)[1]),
    "rows as a list": lambda p, b: len(p["frame"][p["frame"].age > 1].to_dict("list")["age"]),
    "a label that may be there twice": lambda p, b: p["table"].a.loc["x"].shape,
    "its axes": lambda p, b: p["table"].a.loc["x"].ndim,
    "its items": lambda p, b: p["table"].a["x"].size,
    "a column named by a label": lambda p, b: p["table"].T["x"].ndim,
    "the type of a row": lambda p, b: p["table"].loc["x"].dtype,
    "the name of a row": lambda p, b: p["table"].loc["x"].name,
    "a column for each class": lambda p, b: (
        b.scientist.remote(LogisticRegression())
        .fit(p["points"], p["classes"])
        .decision_function(p["points"])
        .shape
    ),
    "what is left where columns depend": lambda p, b: (
        b.scientist.remote(scipy.linalg).lstsq(p["points"], np.ones(4))[1].shape
    ),
}


@pytest.mark.parametrize("name", SIZES)
def test_a_size_of_the_mock_alone_is_not_told(p: dict[str, Any], shared_bench: Bench, name: str) -> None:
    with pytest.raises(errors.PrivateValue, match=r"\.get\(reason=…\)"):
        SIZES[name](p, shared_bench)


def test_sizes_that_are_the_same_for_any_data_are_told_still(p: dict[str, Any]) -> None:
    assert [len(row) for row in p["array"].tolist()] == [3, 3]
    assert (p["twice"].iloc[0].title().get(), p["frame"].age.max().shape) == ("A B", ())
    assert len(p["frame"]["age"]) == 2
    assert (p["table"].a.loc["x"] * 2).get().tolist() == [2, 4]
