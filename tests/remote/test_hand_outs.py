"""No library, container or transform takes a mock for the data without a word, and no mock comes back."""

from __future__ import annotations

import copy
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import matplotlib as mpl
import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.stats
import sklearn.linear_model
import sklearn.metrics
import statsmodels.api
import torch
import torch.utils.checkpoint

from duetlink import errors
from duetlink.duet.asking.recording.mock_used import MockUsed
from tests.remote.conftest import Bench


@pytest.fixture(scope="module")
def frame() -> pd.DataFrame:
    rng = np.random.default_rng(3)
    return pd.DataFrame(
        {"age": rng.integers(20, 60, 30), "pay": rng.random(30), "town": ["a", "b", "c"] * 10}
    )


@pytest.fixture(scope="module")
def people(shared_bench: Bench, frame: pd.DataFrame) -> Any:
    return shared_bench.share(frame, "people handed out")


@pytest.fixture(scope="module")
def numbers(shared_bench: Bench) -> Any:
    return shared_bench.share(np.array([1.0, 2.0, 3.0]), "numbers handed out")


@pytest.fixture(scope="module")
def tensor(shared_bench: Bench) -> Any:
    torch.manual_seed(1)
    return shared_bench.share(torch.randn(20, 3), "tensor handed out") * 1


# -- libraries that want plain values --------------------------------------------------------------------

FAR = r"call it by way of duet\.remote"
LIBRARIES: dict[str, tuple[str, str, Callable[[Any, Any], Any]]] = {
    "asarray": ("numpy", r"duet\.remote\(numpy\)\.asarray\(x\)", lambda p, n: np.asarray(n)),
    "ascontiguousarray": (
        "numpy",
        r"call those that make an array .*duet\.remote\(numpy\)\.ascontiguousarray\(x\)",
        lambda p, n: np.ascontiguousarray(n),
    ),
    "full": ("numpy", rf"{FAR}\(numpy\)\.full\(…\)", lambda p, n: np.full(3, n[0])),
    "an item": ("numpy", r"duet\.remote\(numpy\)\.asarray\(x\)", lambda p, n: np.float64(n[0])),
    "vectorize": ("numpy", r"write what it does with NumPy's functions", lambda p, n: np.vectorize(abs)(n)),
    "permutation": ("numpy", r"\.default_rng\(0\)", lambda p, n: np.random.default_rng(0).permutation(n)),
    "r_": ("numpy", r"take numpy\.concatenate\(\[x, y\]\) in place of numpy\.r_", lambda p, n: np.r_[n, n]),
    "c_": ("numpy", r"take numpy\.column_stack\(\[x, y\]\) in place of numpy\.c_", lambda p, n: np.c_[n, n]),
    "masked": ("numpy", r"numpy\.ma\.core\.array is in no list.*@duet\.remote", lambda p, n: np.ma.array(n)),
    "cut": ("pandas", rf"{FAR}\(pandas\)\.cut\(…\)", lambda p, n: pd.cut(p.age, [0, 40, 100])),
    "isna": ("pandas", rf"{FAR}\(pandas\)\.isna\(…\)", lambda p, n: pd.isna(p)),
    "a new frame": ("pandas", rf"{FAR}\(pandas\)\.DataFrame\(…\)", lambda p, n: pd.DataFrame({"a": p.age})),
    "to_datetime": ("pandas", rf"{FAR}\(pandas\)\.to_datetime\(…\)", lambda p, n: pd.to_datetime(p.age)),
    "of a frame": ("pandas", rf"{FAR}\(pandas\)\.to_datetime\(…\)", lambda p, n: pd.to_datetime(p)),
    "crosstab": ("pandas", rf"{FAR}\(pandas\)\.crosstab\(…\)", lambda p, n: pd.crosstab(p.town, p.age)),
    "isin": (
        "pandas",
        r"place the Series .* duet\.remote\(obj\)",
        lambda p, n: pd.Series([1.0, 2.0]).isin(n),
    ),
    "ttest": ("scipy", rf"{FAR}\(scipy\.stats\)\.ttest_ind\(…\)", lambda p, n: scipy.stats.ttest_ind(n, n)),
    "fit": (
        "sklearn",
        r"duet\.remote\(LinearRegression\(…\)\)\.fit\(…\)",
        lambda p, n: sklearn.linear_model.LinearRegression().fit(p[["age"]], p.pay),
    ),
    "a fitted one": (
        "sklearn",
        r"what it has learnt: duet\.remote\(model\)\.predict\(…\), model being this LinearRegression",
        lambda p, n: (
            sklearn.linear_model.LinearRegression().fit([[1.0], [2.0]], [2.0, 3.0]).predict(p[["age"]])
        ),
    ),
    "results": (
        "statsmodels",
        r"this OLSResults has learnt here .* x @ results\.params .* duet\.remote\(statsmodels\.api\)",
        lambda p, n: statsmodels.api.OLS([1.0, 2.0], [[1.0], [2.0]]).fit().predict(p[["age"]]),
    ),
    "a score": (
        "sklearn",
        rf"{FAR}\(sklearn\.metrics\)\.accuracy_score\(…\)",
        lambda p, n: sklearn.metrics.accuracy_score(p.age, p.age),
    ),
    "concat": ("polars", rf"{FAR}\(polars\)\.concat\(…\)", lambda p, n: pl.concat([p])),
    "an expression": ("polars", r"make it with pl = duet\.remote\(polars\)", lambda p, n: pl.col("a") > n[0]),
}


@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_does_not_compute_on_a_mock(people: Any, numbers: Any, name: str) -> None:
    library, words, ask = LIBRARIES[name]
    with pytest.raises(errors.PrivateValue, match=rf"{library} wants the values of .*{words}"):
        ask(people, numbers)


def test_what_the_refusal_says_works(bench: Bench, people: Any, frame: pd.DataFrame, numbers: Any) -> None:
    far = bench.scientist.remote(pd)
    own = people.copy()
    own["group"] = far.cut(own.age, [0, 40, 100], labels=False)
    assert own["group"].get(reason="bins").tolist() == pd.cut(frame.age, [0, 40, 100], labels=False).tolist()
    mine = bench.scientist.remote(pd.Series([1.0, 5.0]))
    assert mine.isin(numbers).get(reason="which").tolist() == [True, False]
    made = bench.scientist.remote(torch).tensor(numbers)
    assert made.get(reason="a tensor").tolist() == [1.0, 2.0, 3.0]
    pairs: Any = np.column_stack([numbers, numbers])
    assert pairs.get(reason="in place of c_").tolist() == [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]
    joined: Any = np.concatenate([numbers, numbers])
    assert joined.get(reason="in place of r_").tolist() == [1.0, 2.0, 3.0, 1.0, 2.0, 3.0]
    model = sklearn.linear_model.LinearRegression().fit([[1.0], [2.0]], [3.0, 5.0])
    predicted = bench.scientist.remote(model).predict(numbers.reshape(-1, 1))
    assert predicted.get(reason="by what was learnt here").tolist() == pytest.approx([3.0, 5.0, 7.0])
    far_pl = bench.scientist.remote(pl)
    table = bench.share(pl.DataFrame({"b": [1.0, 2.0, 6.0]}), "table handed out")
    assert far_pl.concat([table, table]).get(reason="twice")["b"].to_list() == [1.0, 2.0, 6.0] * 2
    above = table.filter(far_pl.col("b") > table["b"].mean())
    assert above.get(reason="above")["b"].to_list() == [6.0]


def test_a_drawing_is_of_the_mock_and_says_so(people: Any) -> None:
    mpl.use("agg")
    from matplotlib import pyplot

    with pytest.warns(MockUsed, match=r"matplotlib was given the mock of .*; draw what .get") as warned:
        pyplot.scatter(people.age, people.pay)
    pyplot.close("all")
    assert "\n" not in str(warned[0].message)
    assert warned[0].filename == __file__


@pytest.mark.parametrize("make", [torch.tensor, torch.as_tensor, torch.asarray])
def test_torch_says_how_to_make_a_tensor_of_an_array(numbers: Any, make: Callable[[Any], Any]) -> None:
    with pytest.raises(TypeError, match=r"duet\.remote\(torch\)\.tensor\(x\)"):
        make(numbers)


# -- by identity -----------------------------------------------------------------------------------------

LOOK_UPS: dict[str, Callable[[Any], Any]] = {
    "hash": hash,
    "set": set,
    "Counter": Counter,
    "a key": lambda n: {n: 1},
    "get": lambda n: {1.0: "a"}.get(n[0]),
    "in a set": lambda n: n[0] in {1.0, 2.0},
    "map": lambda n: pd.Series([1, 2]).map({n[0]: 1}),
}


@pytest.mark.parametrize("name", LOOK_UPS)
def test_a_pointer_is_no_key(numbers: Any, name: str) -> None:
    with pytest.raises(
        errors.PrivateValue, match=r"the hash of .* \.get\(reason=…\), or look for it at the owner"
    ):
        LOOK_UPS[name](numbers)


def test_a_pointer_is_in_no_list(numbers: Any) -> None:
    with pytest.raises(errors.PrivateValue, match=r"^bool of"):
        numbers[0] in [1.0, 2.0]  # noqa: B015


def test_a_pointer_without_a_mock_is_a_handle_like_any_other(bench: Bench) -> None:
    plain = bench.share(np.arange(3), "no mock, for a set", mock=None)
    assert len({plain, plain}) == 1


def test_a_search_that_drops_exceptions_leaves_a_warning(numbers: Any) -> None:
    with pytest.warns(MockUsed, match=r"pandas has looked for result .* and not found it") as warned:
        pd.Series([1.0, 2.0]).isin([numbers[0]])
    assert warned[0].filename == __file__


# -- transforms of torch ---------------------------------------------------------------------------------


def square(x: torch.Tensor) -> torch.Tensor:
    return (x * x).sum()


TRANSFORMS: dict[str, Callable[[Any], Any]] = {
    "vmap": lambda t: torch.vmap(square)(t),
    "grad": lambda t: torch.func.grad(square)(t),
    "grad_and_value": lambda t: torch.func.grad_and_value(square)(t),
    "jacrev": lambda t: torch.func.jacrev(square)(t),
    "jacfwd": lambda t: torch.func.jacfwd(square)(t),
    "hessian": lambda t: torch.func.hessian(square)(t),
    "jvp": lambda t: torch.func.jvp(square, (t,), (t,)),
    "vjp": lambda t: torch.func.vjp(square, t),
    "linearize": lambda t: torch.func.linearize(square, t),
    "functionalize": lambda t: torch.func.functionalize(square)(t),
    "in a list": lambda t: torch.func.grad(lambda parts: square(parts[0]))([t]),
    "of its own": lambda t: torch.func.grad(lambda w: (t @ w).sum())(torch.ones(3)),
    "vmap of its own": lambda t: torch.vmap(lambda w: t @ w)(torch.ones(2, 3)),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_a_transform_of_torch_is_refused(tensor: Any, name: str) -> None:
    with pytest.raises(errors.OperationRefused, match=r"torch\.func and torch\.vmap would compute"):
        TRANSFORMS[name](tensor)


def test_what_the_refusal_of_a_transform_says_works(bench: Bench, tensor: Any) -> None:
    real = tensor.get(reason="to compare")
    jacobian = torch.autograd.functional.jacobian(square, tensor)
    torch.testing.assert_close(jacobian.get(reason="2x"), 2 * real)
    again = torch.utils.checkpoint.checkpoint(square, tensor, use_reentrant=False)
    torch.testing.assert_close(again.get(reason="checkpoint"), square(real))
    layer = torch.nn.Linear(3, 1, bias=False)
    called = torch.func.functional_call(layer, {"weight": tensor[:1]}, (torch.ones(2, 3),))
    torch.testing.assert_close(called.get(reason="call"), torch.ones(2, 3) @ real[:1].T)


# -- mocks that come back --------------------------------------------------------------------------------

ECHOES: dict[str, Callable[[Any, Any, Any], Any]] = {
    "a column": lambda p, n, t: p.copy().__setitem__("new", p.age.mock),
    "of a frame": lambda p, n, t: p.copy().__setitem__("new", p.mock["age"]),
    "a copy": lambda p, n, t: p.pay + p.mock.pay.to_numpy().copy(),
    "a part": lambda p, n, t: p.pay[:5] + p.pay.mock[:5],
    "an argument": lambda p, n, t: p.assign(new=p.pay.mock),
    "placed": lambda p, n, t: np.add(p.pay, p.mock["pay"].values),
    "a tensor": lambda p, n, t: t + t.mock,
}


@pytest.mark.parametrize("name", ECHOES)
def test_a_mock_does_not_come_back(people: Any, numbers: Any, tensor: Any, name: str) -> None:
    with pytest.raises(errors.OperationRefused, match=r"has the values of a mock.* give the pointer"):
        ECHOES[name](people, numbers, tensor)


@pytest.mark.parametrize("make", [torch.tensor, torch.Tensor])
def test_torch_makes_no_plain_tensor_of_a_pointer(tensor: Any, make: Callable[[Any], Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # torch advises against torch.tensor of a tensor
        with pytest.raises(errors.OperationRefused, match=r"with the mock of a tensor"):
            make(tensor)


def test_ones_own_values_come_again_and_again(bench: Bench, numbers: Any, tensor: Any) -> None:
    mine = np.random.default_rng(5).random(3 * 20).reshape(20, 3)
    placed = bench.scientist.remote(mine)
    assert (placed.mock == mine).all()
    assert (placed + mine).shape == (20, 3)
    assert (tensor + torch.zeros(20, 3)).shape == (20, 3)
    weights = torch.randn(20, 3)
    again = bench.scientist.remote(weights)
    assert (again + copy.deepcopy(weights)).shape == (20, 3)
    zeros = bench.share(np.ones(30), "a mock of zeros", np.zeros(30))
    assert (zeros.mock + 1).sum() == 30
    assert (zeros + np.zeros(30)).shape == (30,)
