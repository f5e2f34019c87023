"""Objects of libraries that are given to operations as they are, and what has to be said in other words.

Each statement is done twice: on plain objects, and on pointers to them.
"""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.cluster.hierarchy
import scipy.integrate
import scipy.interpolate
import scipy.linalg
import scipy.signal
import scipy.spatial.distance
import scipy.special
import scipy.stats
import sklearn.compose
import sklearn.ensemble
import sklearn.linear_model
import sklearn.model_selection
import sklearn.pipeline
import sklearn.preprocessing
import sklearn.tree
import statsmodels.api as sm
import torch

from duetlink.errors import OperationRefused, PrivateValue
from tests.remote.conftest import Bench

COLUMNS = ["age", "income"]
REAL: dict[str, Any] = {
    "people": pd.DataFrame(
        {
            "age": [61.0, 18.0, 33.0, 47.0, 52.0, 29.0],
            "income": [3.5, 1.25, 2.75, 4.0, 3.25, 2.0],
            "town": ["Ulm_a", "Bonn_b", "Ulm_c", "Jena_d", "Bonn_e", "Jena_f"],
            "day": pd.to_datetime(
                ["2024-01-31", "2024-02-01", "2024-03-15", "2024-03-31", "2024-05-01", "2024-05-02"]
            ),
        }
    ),
    "x": np.array([1.0, -2.0, 3.0, -4.0]),
    "t": torch.tensor([1.0, -2.0, 3.0]),
}


MOCKS: dict[str, Any] = {
    "people": pd.DataFrame(
        {
            "age": [20.0, 31.0, 42.0, 53.0, 64.0, 75.0],
            "income": [1.0, 2.5, 2.0, 3.0, 4.5, 3.5],
            "town": ["Ulm_x", "Ulm_y", "Bonn_x", "Bonn_y", "Jena_x", "Jena_y"],
            "day": pd.to_datetime(
                ["2023-01-01", "2023-02-02", "2023-03-03", "2023-04-04", "2023-05-05", "NaT"]
            ),
        }
    ),
    "x": np.array([2.0, 5.0, -3.0, 1.0]),
    "t": torch.tensor([4.0, -5.0, 6.0]),
}


@pytest.fixture(scope="module")
def pointers(shared_bench: Bench) -> dict[str, Any]:
    return {name: shared_bench.share(obj, name, MOCKS[name]) for name, obj in REAL.items()}


class Here:
    """Stands for a duet where all is here."""

    def remote(self, obj: Any) -> Any:
        return obj

    def fetch(self, obj: Any) -> Any:
        return obj


def fetched(bench: Bench, made: Any) -> Any:
    if isinstance(made, (tuple, list)):
        return type(made)(fetched(bench, part) for part in made)
    return made.get() if hasattr(made, "request") else made


def assert_equal(made: Any, expected: Any) -> None:
    assert type(made) is type(expected)
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(made, expected)
    elif isinstance(expected, pd.Series):
        pd.testing.assert_series_equal(made, expected)
    elif isinstance(expected, np.ndarray):
        if expected.dtype.kind == "f":
            np.testing.assert_allclose(made, expected, atol=1e-12)  # sums in another order, as below
        else:
            np.testing.assert_array_equal(made, expected)
    elif isinstance(expected, pl.DataFrame):
        assert made.equals(expected)
    elif isinstance(expected, torch.Tensor):
        torch.testing.assert_close(made, expected)
    elif isinstance(expected, (tuple, list)):
        for one, other in zip(made, expected, strict=True):
            assert_equal(one, other)
    elif isinstance(expected, float):
        assert made == pytest.approx(
            expected, rel=1e-12
        )  # sums in another order, where memory lies otherwise
    else:
        assert made == expected


def wide(f: pd.DataFrame) -> Any:
    return sklearn.compose.make_column_selector(dtype_include="number")


def model(**more: Any) -> Any:
    scaled = sklearn.compose.ColumnTransformer(
        [("scaled", sklearn.preprocessing.StandardScaler(), COLUMNS)], remainder="drop"
    )
    return sklearn.pipeline.Pipeline([("columns", scaled), ("ridge", sklearn.linear_model.Ridge(**more))])


def tree(d: Any, f: Any) -> Any:
    regression = sklearn.tree.DecisionTreeRegressor(max_depth=2, random_state=0)
    return d.remote(regression).fit(f[["age"]], f.income)


def family(d: Any, f: Any, **more: Any) -> Any:
    binomial = sm.families.Gamma(link=sm.families.links.Log())
    return (
        d.remote(sm)
        .GLM(f.income, d.remote(sm).add_constant(f[["age"]]), family=binomial, **more)
        .fit()
        .params
    )


STATEMENTS: dict[str, Callable[[Any, Any, Any, Any], Any]] = {
    # dtypes
    "Int64Dtype": lambda d, f, x, t: f.age.round().astype(pd.Int64Dtype()),
    "Float32Dtype": lambda d, f, x, t: f.age.astype(pd.Float32Dtype()),
    "StringDtype": lambda d, f, x, t: f.town.astype(pd.StringDtype("python")),
    "BooleanDtype": lambda d, f, x, t: (f.age > 40).astype(pd.BooleanDtype()),
    "CategoricalDtype": lambda d, f, x, t: f.town.str.partition("_")[0].astype(
        pd.CategoricalDtype(["Ulm", "Jena", "Bonn"], ordered=True)
    ),
    "DatetimeTZDtype": lambda d, f, x, t: f.day.dt.tz_localize("UTC").astype(
        pd.DatetimeTZDtype("us", "Europe/Berlin")
    ),
    "SparseDtype": lambda d, f, x, t: f.age.astype(pd.SparseDtype("float64", 0.0)).astype(float),
    "dtypes by column": lambda d, f, x, t: f.astype(
        {"age": pd.Float64Dtype(), "income": np.dtype("float32")}
    ),
    "dtype of dates": lambda d, f, x, t: f.day.astype(np.dtype("M8[s]")),
    "dtype of bytes": lambda d, f, x, t: x.astype(np.dtype("S5")),
    # times
    "Timestamp": lambda d, f, x, t: f[f.day > pd.Timestamp("2024-03-01")].age,
    "Timedelta": lambda d, f, x, t: f.day + pd.Timedelta(hours=1),
    "timedelta": lambda d, f, x, t: f.day - datetime.timedelta(days=1),
    "datetime": lambda d, f, x, t: f.day >= datetime.datetime(2024, 3, 15),
    "Period": lambda d, f, x, t: f.day.dt.to_period("M") == pd.Period("2024-03", "M"),
    "Interval": lambda d, f, x, t: d.remote(pd).cut(f.age, [0, 40, 99]) == pd.Interval(0, 40),
    "MonthEnd": lambda d, f, x, t: f.day + pd.offsets.MonthEnd(),
    "two months": lambda d, f, x, t: f.day + pd.DateOffset(months=2, days=1),
    "Week": lambda d, f, x, t: f.day + pd.offsets.Week(2, weekday=3),
    "BusinessHour": lambda d, f, x, t: f.day + pd.offsets.BusinessHour(),
    "CustomBusinessDay": lambda d, f, x, t: (
        f.day + pd.offsets.CustomBusinessDay(weekmask="Mon Tue", holidays=["2024-02-05"])
    ),
    "FY5253": lambda d, f, x, t: f.day + pd.offsets.FY5253(startingMonth=3),
    "SemiMonthEnd": lambda d, f, x, t: f.day + pd.offsets.SemiMonthEnd(),
    "QuarterBegin": lambda d, f, x, t: f.day - pd.offsets.QuarterBegin(startingMonth=2),
    "Grouper by month": lambda d, f, x, t: f.groupby(pd.Grouper(key="day", freq="MS")).age.sum(),
    "Grouper by a column": lambda d, f, x, t: f.groupby(pd.Grouper(key="town", sort=True)).age.sum(),
    # aggregates, patterns
    "NamedAgg": lambda d, f, x, t: f.groupby("town").agg(
        oldest=pd.NamedAgg("age", "max"), mean=pd.NamedAgg("income", np.mean)
    ),
    "a pattern": lambda d, f, x, t: f.town.str.contains(re.compile("^ulm", re.IGNORECASE)),
    "a pattern that replaces": lambda d, f, x, t: f.town.str.replace(re.compile("_[a-c]$"), "", regex=True),
    # models
    "cross_val_score": lambda d, f, x, t: d.remote(sklearn.model_selection).cross_val_score(
        sklearn.linear_model.Ridge(alpha=2.0), f[COLUMNS], f.income, cv=3, n_jobs=-1
    ),
    "folds": lambda d, f, x, t: d.remote(sklearn.model_selection).cross_val_score(
        sklearn.linear_model.Ridge(),
        f[COLUMNS],
        f.income,
        cv=sklearn.model_selection.KFold(3, shuffle=True, random_state=1),
        scoring="neg_mean_squared_error",
    ),
    "repeated folds": lambda d, f, x, t: d.remote(sklearn.model_selection).cross_val_score(
        model(alpha=3.0),
        f,
        f.income,
        cv=sklearn.model_selection.RepeatedKFold(n_splits=2, n_repeats=2, random_state=1),
        scoring="neg_mean_squared_error",
    ),
    "a pipeline of its parts": lambda d, f, x, t: d.remote(model(alpha=5.0)).fit(f, f.income).predict(f),
    "make_pipeline": lambda d, f, x, t: (
        d.remote(sklearn.pipeline)
        .make_pipeline(sklearn.preprocessing.StandardScaler(), sklearn.linear_model.Ridge())
        .fit(f[COLUMNS], f.income)
        .predict(f[COLUMNS])
    ),
    "a selector of columns": lambda d, f, x, t: d.remote(
        sklearn.compose.ColumnTransformer([("n", sklearn.preprocessing.StandardScaler(), wide(f))])
    ).fit_transform(f),
    "n_jobs of a forest": lambda d, f, x, t: (
        d.remote(sklearn.ensemble.RandomForestRegressor(5, random_state=0, n_jobs=-1, verbose=0))
        .fit(f[COLUMNS], f.income)
        .predict(f[COLUMNS])
    ),
    "n_jobs in a grid": lambda d, f, x, t: (
        d.remote(
            sklearn.model_selection.GridSearchCV(
                model(), {"ridge__alpha": [1.0, 9.0]}, cv=2, n_jobs=2, verbose=0
            )
        )
        .fit(f, f.income)
        .predict(f)
    ),
    "a family": lambda d, f, x, t: family(d, f),
    "a robust norm": lambda d, f, x, t: (
        d.remote(sm)
        .RLM(f.income, d.remote(sm).add_constant(f[["age"]]), M=sm.robust.norms.TukeyBiweight(c=4.0))
        .fit()
        .params
    ),
    # in other words
    "get of texts": lambda d, f, x, t: f.town.str.split("_").str.get(1),
    "get of a frame": lambda d, f, x, t: f.get("age"),
    "get of a series": lambda d, f, x, t: f.age.get(2),
    "divmod": lambda d, f, x, t: divmod(f.age, 7),
    "divmod by it": lambda d, f, x, t: divmod(100, x),
    "where of a condition": lambda d, f, x, t: np.where(x > 0),
    "where of a tensor": lambda d, f, x, t: torch.where(t > 0),
    "type of items": lambda d, f, x, t: t.type(torch.float64),
    "type of a result's items": lambda d, f, x, t: (t * 2).type(torch.int32),
    "name of a type": lambda d, f, x, t: (t * 2).type(),
    "a list of results": lambda d, f, x, t: d.fetch([f.age.mean(), (x * 2, [t])]),
    "columns, one by one": lambda d, f, x, t: [name for name, column in f.items() if name != "day"],
    "names by keys": lambda d, f, x, t: list(f.keys()),
    "items by place": lambda d, f, x, t: list(f.sort_values("age").town),
    "torch.from_numpy": lambda d, f, x, t: d.remote(torch).from_numpy(x),
    "torch.tensor": lambda d, f, x, t: d.remote(torch).tensor(x),
    "torch.as_tensor": lambda d, f, x, t: d.remote(torch).as_tensor(x),
    "objects of rows": lambda d, f, x, t: f[["age", "town"]].values,
    "objects of one row": lambda d, f, x, t: f.iloc[0].to_numpy(),
    "groups by their labels": lambda d, f, x, t: {
        key: list(rows) for key, rows in d.fetch(f.groupby("town").groups).items()
    },
    "folds in a loop": lambda d, f, x, t: [
        x[test].sum() for _, test in d.remote(sklearn.model_selection.KFold(2)).split(x)
    ],
    "a tree's thresholds": lambda d, f, x, t: tree(d, f).tree_.threshold,
    "how a tree is pruned": lambda d, f, x, t: (
        tree(d, f).cost_complexity_pruning_path(f[COLUMNS], f.income).ccp_alphas
    ),
    "stages of boosting": lambda d, f, x, t: list(
        d.remote(sklearn.ensemble.GradientBoostingRegressor(n_estimators=2, random_state=0))
        .fit(f[COLUMNS], f.income)
        .staged_predict(f[COLUMNS])
    ),
    "levels of a smoothed series": lambda d, f, x, t: (
        d.remote(sm)
        .tsa.SimpleExpSmoothing(x, initialization_method="known", initial_level=1.0)
        .fit(smoothing_level=0.5, optimized=False)
        .level
    ),
    "a test's result": lambda d, f, x, t: (
        d.remote(sm).tsa.stattools.adfuller(f.age, maxlag=1, autolag=None, result_object=True).statistic
    ),
    "a distribution of SciPy": lambda d, f, x, t: d.remote(scipy.stats).norm.cdf(x),
    "a distribution without a list of its own": lambda d, f, x, t: d.remote(scipy.stats).gumbel_r.sf(
        x, 1.0, scale=2
    ),
    "a discrete distribution": lambda d, f, x, t: d.remote(scipy.stats).nbinom.pmf(f.age, 5, 0.1),
    "parameters of a distribution": lambda d, f, x, t: d.remote(scipy.stats).norm.fit(x),
    "several dimensions": lambda d, f, x, t: d.remote(scipy.stats).multivariate_normal.logpdf(x, 0.5, 2.0),
    "kstest": lambda d, f, x, t: d.remote(scipy.stats).kstest(x, "norm").pvalue,
    "a density": lambda d, f, x, t: d.remote(scipy.stats).gaussian_kde(x)(np.array([0.0, 1.0])),
    "an empirical distribution": lambda d, f, x, t: d.remote(scipy.stats).ecdf(x).cdf.probabilities,
    "energy_distance": lambda d, f, x, t: d.remote(scipy.stats).energy_distance(x, f.age),
    "erfcx": lambda d, f, x, t: d.remote(scipy.special).erfcx(x),
    "ellipk": lambda d, f, x, t: scipy.special.ellipk(x / 9),
    "detrend": lambda d, f, x, t: d.remote(scipy.signal).detrend(x),
    "a filter": lambda d, f, x, t: d.remote(scipy.signal).lfilter([0.5, 0.5], [1.0], f.age.to_numpy()),
    "a spectrum": lambda d, f, x, t: d.remote(scipy.signal).welch(f.age.to_numpy(), nperseg=4)[1],
    "interp1d": lambda d, f, x, t: d.remote(scipy.interpolate).interp1d(np.arange(4.0), x)(
        np.array([0.5, 2.25])
    ),
    "a cubic spline": lambda d, f, x, t: (
        d.remote(scipy.interpolate).CubicSpline(np.arange(4.0), x).derivative()(np.array([0.5, 2.25]))
    ),
    "a smoothing spline": lambda d, f, x, t: (
        d.remote(scipy.interpolate).UnivariateSpline(np.arange(4.0), x).integral(0.0, 2.0)
    ),
    "distances": lambda d, f, x, t: d.remote(scipy.spatial.distance).pdist(f[COLUMNS], "cityblock"),
    "a distance": lambda d, f, x, t: d.remote(scipy.spatial.distance).cosine(x, x + 1),
    "singular values": lambda d, f, x, t: d.remote(scipy.linalg).svdvals(f[COLUMNS].to_numpy()),
    "an area": lambda d, f, x, t: d.remote(scipy.integrate).simpson(x),
    "a linkage": lambda d, f, x, t: d.remote(scipy.cluster.hierarchy).linkage(f[COLUMNS].to_numpy()),
    "a survival function": lambda d, f, x, t: d.remote(sm).SurvfuncRight(f.age, f.income > 2).surv_prob,
    "quantiles to plot": lambda d, f, x, t: d.remote(sm).ProbPlot(f.age).theoretical_quantiles,
    "a test of counts": lambda d, f, x, t: d.remote(sm).stats.test_poisson_2indep(10, 100.0, 5, 90.0).pvalue,
    "columns of Polars": lambda d, f, x, t: d.remote(pl).select(
        rank=d.remote(pl).Series("x", x).rolling_rank(2),
        bits=d.remote(pl).Series("i", [1, 2, 3, 7]).bitwise_count_ones(),
    ),
    "an item of Polars": lambda d, f, x, t: d.remote(pl).DataFrame({"x": x}).item(1, "x"),
    "aliases of NumPy": lambda d, f, x, t: (
        np.around(x, 1),
        np.amax(x),
        np.amin(x),
        np.rot90(np.outer(x, x)),
    ),
    "a function of a class": lambda d, f, x, t: (
        d.remote(pd).MultiIndex.from_arrays([f.age, f.town]).to_frame()
    ),
    "a distribution": lambda d, f, x, t: torch.distributions.Normal(t, 1.0, validate_args=False).log_prob(t),
    "a shape": lambda d, f, x, t: t.reshape(torch.Size([3, 1])),
}


@pytest.mark.filterwarnings("ignore:Non-vectorized DateOffset")
@pytest.mark.parametrize("name", STATEMENTS)
def test_a_statement_gives_at_the_owner_what_it_gives_here(
    shared_bench: Bench, pointers: dict[str, Any], name: str
) -> None:
    statement = STATEMENTS[name]
    made = statement(shared_bench.scientist, *pointers.values())
    assert_equal(fetched(shared_bench, made), statement(Here(), *REAL.values()))


def test_a_column_is_deleted(shared_bench: Bench, pointers: dict[str, Any]) -> None:
    frame = pointers["people"].copy()
    del frame["age"]
    assert list(frame.get().columns) == ["income", "town", "day"]
    with pytest.raises(OperationRefused, match=r"work on a copy, such as \.copy\(\)"):
        del pointers["people"]["age"]


def test_an_estimator_that_was_given_is_not_fitted_here(
    shared_bench: Bench, pointers: dict[str, Any]
) -> None:
    ridge = sklearn.linear_model.Ridge()
    pipeline = shared_bench.scientist.remote(sklearn.pipeline).make_pipeline(ridge)
    pipeline.fit(pointers["people"][COLUMNS], pointers["people"].income)
    assert not hasattr(ridge, "coef_")


def test_a_leaf_that_is_placed_is_a_leaf(shared_bench: Bench) -> None:
    w = torch.tensor([1.0, 2.0], requires_grad=True)
    placed = shared_bench.scientist.remote(w)
    assert (placed.is_leaf, placed.requires_grad) == (True, True)
    (placed * placed).sum().backward()
    assert placed.grad.get().tolist() == [2.0, 4.0]
    assert w.grad is None
    with pytest.raises(OperationRefused, match=r"place what it was made from, or tensor\.detach\(\)"):
        shared_bench.scientist.remote(w * 2)


def test_a_placed_model_is_converted_to_what_it_is(shared_bench: Bench, pointers: dict[str, Any]) -> None:
    torch.manual_seed(0)
    local = torch.nn.Linear(3, 1)
    expected = local(REAL["t"]).detach()
    model = shared_bench.scientist.remote(local)
    weight = model.weight
    assert model.to("cpu").to(torch.device("cpu")).float().cpu().weight is weight
    torch.testing.assert_close(model(pointers["t"]).get().detach(), expected)
    with pytest.raises(OperationRefused, match=r"duet\.remote\(model\.double\(\)\)"):
        model.double()
    with pytest.raises(OperationRefused, match=r"\.copy_\(…\)"):
        model.weight.data = pointers["t"]


def test_named_results_are_fetched_together(shared_bench: Bench, pointers: dict[str, Any]) -> None:
    age = REAL["people"].age
    found = shared_bench.scientist.remote(scipy.stats).ttest_1samp(pointers["people"].age, 40.0)
    values = shared_bench.scientist.fetch(found)
    assert values.pvalue == pytest.approx(scipy.stats.ttest_1samp(age, 40.0).pvalue)


@pytest.mark.parametrize(
    ("error", "words", "statement"),
    [
        (PrivateValue, r"\.agg\(…\).*\.get_group\(name\)", lambda d, f, x, t: list(f.groupby("town"))),
        (PrivateValue, r"labels depend on the data.*\.get\(reason=…\)", lambda d, f, x, t: dict(f.age)),
        (PrivateValue, r"labels depend on the data", lambda d, f, x, t: f.age.items()),
        (PrivateValue, r"whole columns", lambda d, f, x, t: f.iterrows()),
        (PrivateValue, "whether .* has 'Ulm'", lambda d, f, x, t: f.set_index("town").age.get("Ulm")),
        (PrivateValue, r"give it the mock, \.mock", lambda d, f, x, t: f.__dataframe__()),
        (PrivateValue, "validate_args=False", lambda d, f, x, t: torch.distributions.Normal(t, 1.0)),
        (TypeError, r"duet\.remote\(torch\)\.tensor\(x\)", lambda d, f, x, t: torch.tensor(x)),
        (TypeError, r"duet\.remote\(torch\)\.tensor\(x\)", lambda d, f, x, t: torch.as_tensor(f.age.values)),
        (
            OperationRefused,
            r"x\.detach\(\)\.clone\(\) in place of torch\.tensor",
            lambda d, f, x, t: torch.tensor(t * 2),
        ),
        (OperationRefused, "has no protocol", lambda d, f, x, t: torch.Tensor(t * 2)),
        (OperationRefused, "has no protocol", lambda d, f, x, t: torch.FloatTensor(t * 2)),
        (OperationRefused, r"frame = frame\.dropna\(\)", lambda d, f, x, t: f.copy().dropna(inplace=True)),
        (OperationRefused, r"frame\['age'\] = …", lambda d, f, x, t: setattr(f.copy(), "age", 1)),
        (OperationRefused, r"rename_axis", lambda d, f, x, t: setattr(f.copy().index, "name", "row")),
        (
            OperationRefused,
            "random_state=0",
            lambda d, f, x, t: f.sample(2, random_state=np.random.RandomState(0)),
        ),
        (
            OperationRefused,
            r"duet\.remote\(pandas\)\.ArrowDtype",
            lambda d, f, x, t: f.age.astype(pd.ArrowDtype(pytest.importorskip("pyarrow").float32())),
        ),
        (
            OperationRefused,
            "FunctionTransformer is in no list",
            lambda d, f, x, t: d.remote(sklearn.preprocessing.FunctionTransformer(np.log)),
        ),
        (
            OperationRefused,
            r"norm\.cdf\(x, loc, scale\)",
            lambda d, f, x, t: d.remote(scipy.stats).norm(0, 1),
        ),
        (
            OperationRefused,
            "usual distribution",
            lambda d, f, x, t: d.remote(scipy.stats).kstest(x, "__class__"),
        ),
        (OperationRefused, "is called", lambda d, f, x, t: d.remote(scipy.stats).norm.fit(x, optimizer="x")),
        (
            OperationRefused,
            "writes into an argument",
            lambda d, f, x, t: d.remote(scipy.signal).detrend(x, overwrite_data=True),
        ),
        (OperationRefused, r"torch\.dtype", lambda d, f, x, t: t.type("torch.FloatTensor")),
    ],
)
def test_a_refusal_says_what_to_do(
    shared_bench: Bench, pointers: dict[str, Any], error: type[Exception], words: str, statement: Any
) -> None:
    with pytest.raises(error, match=words):
        statement(shared_bench.scientist, *pointers.values())


@pytest.mark.filterwarnings("ignore::duetlink.duet.asking.recording.mock_used.MockUsed")
def test_a_plot_says_that_it_is_of_a_mock(pointers: dict[str, Any]) -> None:
    with pytest.warns(UserWarning, match=r"\.plot shows the mock of 'people' at the owner") as told:
        _ = pointers["people"].plot
    assert told[0].filename == __file__  # at the user's line
