"""What a refusal says, and that what it says to do gives the right result when it is done."""

from __future__ import annotations

import builtins
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.cluster.hierarchy
import scipy.cluster.vq
import scipy.fft
import scipy.interpolate
import scipy.linalg
import scipy.ndimage
import scipy.optimize
import scipy.signal
import scipy.spatial
import scipy.stats
import sklearn.base
import sklearn.datasets
import sklearn.exceptions
import sklearn.metrics
import torch
from sklearn.compose import ColumnTransformer
from sklearn.linear_model import LinearRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, StandardScaler

from duetlink import Mock
from duetlink.errors import OperationRefused, PrivateValue, UnsupportedValue
from tests.remote.conftest import Bench

REAL: dict[str, Any] = {
    "frame": pd.DataFrame({"age": [61.0, 18.0, 33.0, 47.0], "sex": ["male", "female", "male", "female"]}),
    "x": np.array([1.0, -2.0, 3.0, -4.0]),
    "t": torch.tensor([1.0, -2.0, 3.0]),
}
MOCKS: dict[str, Any] = {
    "frame": pd.DataFrame({"age": [20.0, 31.0, 42.0, 53.0], "sex": ["text 0", "text 1", "text 2", "text 3"]}),
    "x": np.array([2.0, 5.0, -3.0, 1.0]),
    "t": torch.tensor([4.0, -5.0, 6.0]),
}


@pytest.fixture(scope="module")
def p(shared_bench: Bench) -> dict[str, Any]:
    return {name: shared_bench.share(obj, name, MOCKS[name]) for name, obj in REAL.items()}


def test_a_number_of_torch_is_formatted_and_decided_by_after_it_was_asked_for(p: dict[str, Any]) -> None:
    loss = (p["t"] * 2).sum()
    with pytest.raises(
        PrivateValue, match=r"the text in the format '\.3f' of result \d+, a tensor at the"
    ) as e:
        f"{loss:.3f}"
    assert str(e.value).endswith("ask for it with .get(reason=…), or decide by its mock: .mock")
    with pytest.raises(
        PrivateValue, match=r"bool of a tensor at the owner is not known here: ask for it with"
    ):
        bool(loss > 3)
    assert f"{loss.get(reason='log'):.3f}" == "4.000"
    assert f"{loss.mock:.3f}" == "10.000"
    assert f"{loss}".startswith("<result ")
    assert bool((loss > 3).get())


def test_labels_of_a_mapping_are_asked_for_as_a_list(bench: Bench, p: dict[str, Any]) -> None:
    groups = p["frame"].groupby("sex").groups
    with pytest.raises(PrivateValue, match=r"which items .* depends on the data.*list\(x\)\.get\(reason=…\)"):
        list(groups)
    keys = bench.scientist.remote(builtins).list(groups)
    assert keys.get(reason="the groups") == ["female", "male"]


def test_an_estimator_at_the_owner_is_in_no_local_one(bench: Bench, p: dict[str, Any]) -> None:
    far = bench.scientist.remote(LinearRegression())
    with pytest.raises(OperationRefused, match=r"local estimator cannot hold.*duet\.remote\(make_pipeline"):
        GridSearchCV(far, {"fit_intercept": [True]}).fit([[1.0], [2.0]], [1.0, 2.0])
    x = p["x"].reshape(-1, 1)
    fitted = bench.scientist.remote(make_pipeline(StandardScaler(), LinearRegression())).fit(x, p["x"])
    assert fitted.predict(x).get(reason="fit").tolist() == pytest.approx([1.0, -2.0, 3.0, -4.0])


def test_estimators_at_the_owner_are_put_together_in_one_that_is_placed(
    bench: Bench, p: dict[str, Any]
) -> None:
    remote = bench.scientist.remote
    scaler, x = remote(StandardScaler()), [[1.0], [2.0]]
    mixed = make_pipeline(scaler, LinearRegression())
    with pytest.raises(PrivateValue, match=r"sklearn wants .*duet\.remote\(Pipeline\(…\)\)\.fit\(…\)"):
        mixed.fit(x, [1.0, 2.0])
    with pytest.raises(OperationRefused, match=r"local estimator cannot hold .* place the whole"):
        sklearn.base.clone(scaler)
    column = p["x"].reshape(-1, 1)
    fitted = remote(mixed).fit(column, p["x"])
    assert fitted.predict(column).get(reason="fit").tolist() == pytest.approx([1.0, -2.0, 3.0, -4.0])
    with pytest.raises(OperationRefused, match=r"FunctionTransformer .*do to the pointer what it does"):
        remote(FunctionTransformer(np.log1p))


INNER: dict[str, tuple[Any, str]] = {
    "columns, each in its way": (
        lambda p: ColumnTransformer([("age", StandardScaler(), ["age"])]).fit_transform(p["frame"]),
        r"duet\.remote\(ColumnTransformer\(…\)\)\.fit_transform\(…\)",
    ),
    "melt": (lambda p: pd.melt(p["frame"]), r"duet\.remote\(pandas\)\.melt\(…\)"),
    "map": (
        lambda p: pd.Series([0]).map(p["frame"].age),
        r"place the Series whose method map this is: duet\.remote\(obj\)",
    ),
    "when": (
        lambda p: pl.when(pl.col("a") > 1).then(p["x"][0]),
        r"make it with pl = duet\.remote\(polars\)",
    ),
}


@pytest.mark.parametrize("name", INNER)
def test_what_a_library_does_within_is_answered_for_the_call_of_it(p: dict[str, Any], name: str) -> None:
    ask, words = INNER[name]
    with pytest.raises(PrivateValue, match=words):
        ask(p)


def test_what_those_answers_say_works(bench: Bench, p: dict[str, Any]) -> None:
    melted = bench.scientist.remote(pd).melt(p["frame"][["age"]])
    assert melted.value.get(reason="melted").tolist() == [61.0, 18.0, 33.0, 47.0]
    placed = bench.scientist.remote(pd.Series([0, 2]))
    assert placed.map(p["frame"].age).get(reason="mapped").tolist() == [61.0, 33.0]


CALLED: dict[str, Any] = {
    "assign": lambda f: f.assign(half=lambda d: d.age / 2, both=lambda d: d.half + d.age),
    "assign, with a value": lambda f: f.assign(one=1.0, two=lambda d: d.one + d.age),
    "pipe": lambda f: f.pipe(lambda d, factor, add: d.age * factor + add, 2, add=1),
    "pipe, by name": lambda f: f.pipe((lambda factor, frame: frame.age * factor, "frame"), 3),
    "pipe of a column": lambda f: f.age.pipe(np.sqrt),
    "pipe of groups": lambda f: f.groupby("sex").pipe(lambda g: g.age.max() - g.age.min()),
    "loc": lambda f: f.loc[lambda d: d.age > 30, "age"],
    "brackets": lambda f: f[lambda d: d.age > 30],
    "iloc": lambda f: f.iloc[lambda d: [0, 2], 0],
    "iloc of a column": lambda f: f.age.iloc[lambda s: slice(1, 3)],
    "iloc that is set": lambda f: set_by_iloc(f.copy()),
    "where": lambda f: f.age.where(lambda s: s > 30, lambda s: -s),
    "a column set in it": lambda f: f.pipe(set_in_it).assign(old=f.age),
    "loc that is set": lambda f: set_by_loc(f.copy()),
}


def set_in_it(frame: Any) -> Any:
    frame["age"] = frame["age"] * 0
    return frame


def set_by_iloc(frame: Any) -> Any:
    frame.iloc[lambda d: [1], 0] = 0.0
    return frame


def set_by_loc(frame: Any) -> Any:
    frame.loc[lambda d: d.age > 40, "age"] = 0.0
    return frame


@pytest.mark.parametrize("name", CALLED)
def test_a_function_that_gets_the_frame_is_called_here_with_its_pointer(p: dict[str, Any], name: str) -> None:
    made = CALLED[name](p["frame"]).get(reason=name)
    expected = CALLED[name](REAL["frame"])
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(made, expected)
    else:
        pd.testing.assert_series_equal(made, expected)


MISSING: dict[str, Any] = {
    "a group": lambda f: f.groupby("sex").get_group("male"),
    "a count": lambda f: f.sex.value_counts()["male"],
    "a label": lambda f: f.set_index("sex").age.loc["male"],
    "a row": lambda f: f.set_index("sex").loc["male", "age"],
}


@pytest.mark.parametrize("name", MISSING)
def test_a_label_that_the_mock_lacks_says_that_it_is_the_mock_s(p: dict[str, Any], name: str) -> None:
    words = r"'male' is not in the mock of .* may be in the data: take .*\.get\(reason=…\).*Mock\(categories="
    with pytest.raises(PrivateValue, match=words):
        MISSING[name](p["frame"])


@pytest.mark.parametrize(
    "ask", [lambda f: f["no column"], lambda f: f.loc[:, "none"], lambda f: f.groupby("no")]
)
def test_a_column_that_is_not_there_is_a_key_error(p: dict[str, Any], ask: Any) -> None:
    with pytest.raises(KeyError):
        ask(p["frame"])


def test_a_label_that_the_mock_lacks_is_found_as_its_refusal_says(bench: Bench, p: dict[str, Any]) -> None:
    frame = p["frame"]
    assert frame[frame["sex"] == "male"].age.sum().get(reason="of a group") == 94.0
    assert frame.sex.value_counts().reindex(["male"]).get(reason="a count").tolist() == [2]
    mock = Mock(categories={"sex": ["male", "female"]})
    named = bench.share(REAL["frame"], "people with categories", mock)
    assert named.groupby("sex").get_group("male").age.sum().get(reason="of a group") == 94.0


def test_what_holds_no_data_is_imported_and_the_rest_raises_when_it_is_called(bench: Bench) -> None:
    remote = bench.scientist.remote
    assert remote(sklearn.exceptions).ConvergenceWarning is sklearn.exceptions.ConvergenceWarning
    load = remote(sklearn.datasets).load_iris
    words = r"sklearn\.datasets\.load_iris is in no list.*duet\.remote\(obj\)"
    with pytest.raises(OperationRefused, match=words):
        load()
    with pytest.raises(OperationRefused, match=r"ConfusionMatrixDisplay is in no list.*@duet\.remote"):
        remote(sklearn.metrics).ConfusionMatrixDisplay.from_predictions([1], [1])
    placed = remote(sklearn.datasets.load_iris().data)
    assert placed[0].get(reason="placed").tolist() == [5.1, 3.5, 1.4, 0.2]


def test_a_result_that_cannot_travel_names_parts_that_can(bench: Bench, p: dict[str, Any]) -> None:
    fit = bench.scientist.remote(scipy.stats).gaussian_kde(p["x"])
    with pytest.raises(UnsupportedValue, match=r"ask for its parts, such as x\.\w+, .*x\.factor") as raised:
        fit.get(reason="all of it")
    assert fit.factor.get(reason="a part") == pytest.approx(scipy.stats.gaussian_kde(REAL["x"]).factor)
    assert "x being this" in str(raised.value)


def test_the_parameters_of_a_placed_model_are_initialised(bench: Bench, p: dict[str, Any]) -> None:
    def init(part: torch.nn.Module) -> None:
        if isinstance(part, torch.nn.Linear):
            torch.nn.init.constant_(part.weight, 0.5)
            torch.nn.init.zeros_(part.bias)
            torch.nn.init.xavier_uniform_(part.weight)
            torch.nn.init.kaiming_uniform_(part.weight, nonlinearity="relu")
            torch.nn.init.constant_(part.weight, 2.0)

    model = bench.scientist.remote(torch.nn.Sequential(torch.nn.Linear(3, 1)))
    model.apply(init)
    loss = model(p["t"]).sum()
    loss.backward()
    assert loss.get(reason="a loss") == 4.0
    assert model[0].weight.grad.get(reason="its gradient").tolist() == [[1.0, -2.0, 3.0]]


class Doubled(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


def test_code_of_this_side_in_a_backward_is_refused_at_once(bench: Bench, p: dict[str, Any]) -> None:
    words = r"an autograd\.Function or a hook runs code of this side on gradients.*\.grad; or submit"
    weight = bench.scientist.remote(torch.ones(3)).requires_grad_()
    with pytest.raises(OperationRefused, match=words):
        Doubled.apply(weight * p["t"])  # type: ignore[no-untyped-call]
    with pytest.raises(OperationRefused, match=words):
        weight.register_hook(lambda gradient: gradient * 2)
    model = bench.scientist.remote(torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.Linear(2, 1)))
    model[1].register_full_backward_hook(lambda part, given, made: None)
    with pytest.raises(OperationRefused, match=words):
        model(p["t"])
    (weight * p["t"] * 2).sum().backward()
    assert weight.grad.get(reason="written out").tolist() == [2.0, -4.0, 6.0]


def _solved(far: Any, x: Any) -> Any:
    return far.linprog(c=x * x, A_ub=-np.ones((1, 4)), b_ub=[-1.0], bounds=(0, 3)).x


def _hull(far: Any, x: Any) -> Any:
    return far.ConvexHull(np.stack([x, x * x], axis=1)).volume


def _spectrogram(far: Any, x: Any) -> Any:
    return far.ShortTimeFFT(np.ones(2), hop=1, fs=1.0).spectrogram(x)


SCIPY: dict[str, tuple[Any, Any]] = {
    "a linear program": (scipy.optimize, _solved),
    "least squares within bounds": (
        scipy.optimize,
        lambda far, x: far.lsq_linear(x.reshape(2, 2), x[:2], bounds=(0, 1)).x,
    ),
    "isotonic": (scipy.optimize, lambda far, x: far.isotonic_regression(x).x),
    "a function to try": (scipy.optimize, lambda far, x: far.rosen(x)),
    "a smoothed image": (scipy.ndimage, lambda far, x: far.gaussian_filter(x.reshape(2, 2), 1.0)),
    "its labels": (scipy.ndimage, lambda far, x: far.label(x > 0)[1]),
    "a turned image": (scipy.ndimage, lambda far, x: far.rotate(x.reshape(2, 2), 90)),
    "a response": (scipy.signal, lambda far, x: far.lsim(([1.0], [1.0, 1.0]), x, np.arange(4.0))[1]),
    "a spline of a signal": (scipy.signal, lambda far, x: far.cspline1d_eval(far.cspline1d(x), x / 10)),
    "a spectrogram": (scipy.signal, _spectrogram),
    "a matrix of bands": (scipy.linalg, lambda far, x: far.solve_banded((0, 0), np.abs(x)[None], x)),
    "a hyperbolic sine": (scipy.linalg, lambda far, x: far.sinhm(x.reshape(2, 2))),
    "an area": (scipy.spatial, _hull),
    "clusters": (scipy.cluster.hierarchy, lambda far, x: far.ward(x.reshape(2, 2))),
    "codes": (scipy.cluster.vq, lambda far, x: far.vq(x, np.array([-2.0, 2.0]))[0]),
    "a curve": (scipy.interpolate, lambda far, x: far.make_splrep(np.arange(4.0), x, s=0)(1.5)),
    "a Hankel transform": (scipy.fft, lambda far, x: far.fht(x, 0.1, 0.5)),
}


@pytest.mark.parametrize("name", SCIPY)
def test_what_scipy_makes_of_arrays_is_made_at_the_owner(bench: Bench, p: dict[str, Any], name: str) -> None:
    module, do = SCIPY[name]
    made = do(bench.scientist.remote(module), p["x"]).get(reason=name)
    np.testing.assert_allclose(made, do(module, REAL["x"]), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(
    "ask",
    [
        lambda remote, x: remote(scipy.spatial).ConvexHull(x.reshape(2, 2), qhull_options="TO /tmp/a"),
        lambda remote, x: remote(scipy.ndimage).distance_transform_edt(x, distances=x),
        lambda remote, x: remote(scipy.ndimage).gaussian_filter(x, 1.0, output=x),
        lambda remote, x: remote(scipy.linalg).eig_banded(x.reshape(2, 2), overwrite_a_band=True),
        lambda remote, x: remote(scipy.optimize).linprog(x, callback=print),
    ],
)
def test_what_scipy_would_write_or_call_is_refused(bench: Bench, p: dict[str, Any], ask: Any) -> None:
    with pytest.raises(OperationRefused):
        ask(bench.scientist.remote, p["x"])


def test_scipy_s_transforms_and_assignments_run_at_the_owner(bench: Bench, p: dict[str, Any]) -> None:
    far, x = bench.scientist.remote(scipy.fft), REAL["x"]
    spectrum = far.rfft(p["x"], n=8)
    assert spectrum.shape == (5,)
    np.testing.assert_allclose(spectrum.get(reason="rfft"), scipy.fft.rfft(x, n=8))
    np.testing.assert_allclose(far.idct(far.dct(p["x"])).get(reason="there and back"), x)
    with pytest.raises(OperationRefused, match=r"workers=2: a room is one process"):
        far.fft(p["x"], workers=2)
    costs = p["x"].reshape(2, 2)
    rows, columns = bench.scientist.remote(scipy.optimize).linear_sum_assignment(costs)
    assert (rows.get(reason="rows").tolist(), columns.get(reason="columns").tolist()) == ([0, 1], [0, 1])
    solved, residual = bench.scientist.remote(scipy.optimize).nnls(costs, costs[:, 0])
    assert solved.get(reason="nnls").tolist() == pytest.approx([1.0, 0.0])
    assert residual.get(reason="residual") == pytest.approx(0.0, abs=1e-12)
    with pytest.raises(OperationRefused, match=r"scipy\.optimize\.minimize is in no list.*@duet\.remote"):
        bench.scientist.remote(scipy.optimize).minimize(lambda y: y, 0.0)
