"""Arguments by which a harmless function would do harm are refused; those of every day are not."""

from __future__ import annotations

import datetime
import inspect
import re
from types import FunctionType
from typing import Any

import numpy as np
import pytest

from duetlink.compute.operations.allow_lists.allowed import EFFECTS, LIBRARIES, Allowed, read_list
from duetlink.compute.operations.allow_lists.guards import check
from duetlink.compute.operations.steps.items import check_items
from duetlink.errors import OperationRefused
from duetlink.testing.faults import listed_functions

pd = pytest.importorskip("pandas")

X = np.arange(6.0)
FRAME = pd.DataFrame({"a": X, "b": X * 2, "c": list("xyxyxy")})
GROUPS = FRAME.groupby("c")


class Call:
    """An operation with arguments, as it is written in a table."""

    def __init__(self, operation: str, *arguments: Any, **keywords: Any) -> None:
        self.operation, self.arguments, self.keywords = operation, arguments, keywords

    def check(self) -> None:
        check(self.operation, self.arguments, self.keywords)

    def __str__(self) -> str:
        given = [
            *map(_short, self.arguments),
            *(f"{key}={_short(value)}" for key, value in self.keywords.items()),
        ]
        return f"{self.operation}({', '.join(given)})"


def _short(value: Any) -> str:
    if hasattr(value, "shape") or hasattr(value, "ngroups") or hasattr(value, "bit_generator"):
        return type(value).__name__
    # without addresses, which differ between the processes that run the tests
    return re.sub(r" at 0x\w+", "", repr(value))[:40]


PANDAS = [
    # names that pandas looks up as methods, or as functions of NumPy
    Call(".agg", FRAME, "to_csv"),
    Call(".agg", FRAME, "save"),
    Call(".agg", FRAME, func="to_pickle"),
    Call(".aggregate", FRAME["a"], ["mean", "to_sql"]),
    Call(".agg", FRAME, {"a": ["mean", "to_clipboard"]}),
    Call(".agg", FRAME, {"a": {"b": ["to_hdf"]}}),
    Call(".agg", FRAME, ("mean", "eval")),
    Call(".agg", FRAME, np.array(["to_csv"])),
    Call(".agg", FRAME, pd.Series(["to_csv"])),
    Call(".agg", FRAME, {"to_csv"}),
    Call(".agg", GROUPS, x=("a", "to_csv")),
    Call(".agg", GROUPS, x=pd.NamedAgg("a", "to_csv")),
    Call(".agg", GROUPS["a"], x="to_csv"),
    Call(".agg", GROUPS, "__class__"),
    Call(".apply", FRAME, "to_pickle"),
    Call(".apply", FRAME, "mean", path="x"),
    Call(".transform", FRAME, "eval"),
    Call(".pivot_table", FRAME, "a", "b", "c", "to_csv"),
    Call("pandas.pivot_table", FRAME, aggfunc={"a": "to_csv"}),
    Call("pandas.crosstab", X, X, values=X, aggfunc="tofile"),
    Call("pandas.NamedAgg", "a", "to_csv"),
    Call("pandas.NamedAgg", "a", "mean", "more"),
    # what is handed on to a function
    Call(".apply", FRAME, np.sum, args=(X,)),
    Call(".apply", FRAME, np.sum, 0, False, None, (None, X)),
    Call(".apply", FRAME, np.sum, out=X),
    Call(".apply", FRAME, np.sqrt, where=False),
    Call(".map", FRAME, np.sqrt, where=False),
    Call(".agg", GROUPS, np.mean, 0, None, X),
    Call(".agg", FRAME, "mean", numeric_only=True, path_or_buf="x"),
    # functions
    Call(".apply", FRAME, np.copyto),
    Call(".where", FRAME, len),
    Call("operator.getitem", FRAME, len),
    Call("operator.getitem", FRAME.loc, [[[len]]]),
    Call(".str.replace", FRAME, "a", len),
    Call(".merge", FRAME, {"a": {"b": [print]}}),
    # keywords
    Call(".sort_values", FRAME, "a", inplace=True),
    Call(".fillna", FRAME, 0, axis=None, inplace=True),
    Call(".apply", FRAME, np.sum, engine="numba"),
    Call(".agg", GROUPS, "mean", engine="numba"),
    Call(".mean", GROUPS, engine_kwargs={"nopython": False}),
    Call(".rolling", FRAME, 2, win_type="warnings"),
    Call(".to_dict", FRAME, into=dict),
    Call(".month_name", FRAME["a"], locale="C"),
    Call(".copy", FRAME, False),
    Call(".head", FRAME, path="x"),
    Call("pandas.DataFrame", FRAME, _is_copy=True),
    # time zones that are files
    Call(".tz_localize", FRAME, "dateutil//etc/passwd"),
    Call("pandas.to_datetime", "2020-01-01", utc="dateutil//etc/passwd"),
    Call("pandas.date_range", "2020", periods=2, tz="dateutil/:/etc/passwd"),
    Call(".astype", FRAME, {"a": "datetime64[ns, dateutil//etc/passwd]"}),
    # items
    Call(".astype", FRAME, object.__name__),
    Call(".astype", FRAME, {"a": "O"}),
    Call("pandas.Series", [1], dtype="object"),
]

NUMPY = [
    Call("numpy.add", X, X, X),
    Call("numpy.add", X, X, out=X),
    Call("numpy.sum", X, 0, None, X),
    Call(".sum", X, 0, None, X),
    Call(".cumsum", X, out=X),
    Call(".all", X, 0, X),
    Call("numpy.all", X, 0, X),
    Call("numpy.maximum.accumulate", X, 0, None, X),
    Call("numpy.dot", X, X, X),
    Call("numpy.strings.str_len", np.array(["a"]), X),
    Call(".random", np.random.default_rng(1), 3, "f8", X),
    Call(".byteswap", X, True),
    Call(".conj", X, X),
    Call("numpy.concatenate", [X, X], 0, X),
    Call("numpy.add.reduce", X, 0, None, X),
    Call("numpy.sqrt", X, where=X > 0),
    Call("numpy.sqrt", X, where=False),
    Call("numpy.sum", X, where=X > 0),
    Call("numpy.median", X, overwrite_input=True),
    Call("numpy.nan_to_num", X, False),
    Call("numpy.where", X),
    Call("numpy.sum", X, ()),
    Call("numpy.sum", X, axis=[]),
    Call("numpy.array", [1], "O"),
    Call("numpy.array", [1], dtype="object"),
    Call("numpy.array", [1], dtype=np.dtype("O")),
    Call("numpy.zeros", 3, "V8"),
    Call("numpy.zeros", 3, "f4,f4"),
    Call("numpy.zeros", 3, [("a", "f4"), ("b", "O")]),
    Call("numpy.zeros", 3, {"names": ["a"], "formats": ["O"], "offsets": [0]}),
    Call("numpy.zeros", 3, "(2,)O"),
    Call(".view", X, "O"),
    Call(".view", X, type=np.ndarray),
    Call(".astype", X, "f4", copy=False),
    Call("numpy.pad", X, 1, len),
    Call("numpy.apply_along_axis", np.sort, 0, X, None),
    Call("numpy.apply_along_axis", np.copyto, 0, X),
    Call("numpy.apply_along_axis", np.mean, 0, X, out=X),
    Call("numpy.piecewise", X, [X > 1], [np.negative], X),
    Call("numpy.lib.stride_tricks.sliding_window_view", X, 2, None, writeable=True),
    Call("numpy.zeros", 3, device="gpu"),
]

PYTHON = [
    Call("operator.mod", "%999999999d", 1),
    Call("operator.mod", "%s", FRAME),
    Call("operator.add", [X], [X]),
    Call("operator.mul", [X], 2),
    Call("operator.mul", 2, (X,)),
    Call("operator.mul", np.int64(2), [X]),
    Call("operator.or_", {"a": X}, {"b": X}),
    Call("operator.iadd", [1], [X]),
    Call("operator.setitem", {"a": 1}, "a", X),
    Call("operator.setitem", [1], 0, X),
    Call("operator.delitem", {"a": 1}, "a"),
    Call("operator.setitem", pd.Series(["a"], dtype="category").array, 0, "a"),
    Call("operator.setitem", pd.Series([1]).array, 0, 2),
]


def _names(call: Call) -> str:
    return str(call)


@pytest.mark.parametrize("call", [*PANDAS, *NUMPY, *PYTHON], ids=_names)
def test_harm_is_refused(call: Call) -> None:
    with pytest.raises(OperationRefused):
        call.check()


HARMLESS = [
    Call(".agg", FRAME, "mean"),
    Call(".agg", FRAME, ["mean", "sum"]),
    Call(".agg", FRAME, {"a": "mean", "b": ["min", "max"]}),
    Call(".agg", FRAME, np.mean),
    Call(".agg", GROUPS, path=("a", "mean"), out=("b", "max")),
    Call(".agg", GROUPS["a"], low="min", high=np.max),
    Call(".agg", GROUPS, x=pd.NamedAgg("a", "mean")),
    Call(".agg", GROUPS, "quantile", q=0.5),
    Call(".agg", FRAME, "sum", axis=1),
    Call(".apply", FRAME, np.sum, axis=1),
    Call(".apply", FRAME["a"], np.sqrt),
    Call(".assign", FRAME, path=FRAME["a"], file=1),
    Call(".groupby", FRAME, ["c"]),
    Call(".sort_values", FRAME, "a", ascending=False),
    Call(".rolling", FRAME, 2, win_type="hamming"),
    Call(".astype", FRAME, {"a": "int64", "c": "category"}),
    Call(".astype", FRAME["a"], "datetime64[ns, Europe/Berlin]"),
    Call(".astype", FRAME["a"], float),
    Call(".astype", FRAME["a"], "string[pyarrow]"),
    Call(".tz_convert", FRAME, "Europe/Berlin"),
    Call(".fillna", FRAME, {"a": 0}),
    Call(".merge", FRAME, FRAME, on="c", how="left"),
    Call("pandas.DataFrame", {"path": [1], "file": [2]}),
    Call("operator.getitem", FRAME, ["a", "b"]),
    Call("operator.setitem", FRAME, "d", X),
    Call("operator.getitem", FRAME.loc, (slice(None), "a")),
    Call("operator.add", X, [1.0] * 6),
    Call("operator.mul", [1.0] * 6, X),
    Call("operator.eq", FRAME["c"], "x"),
    Call("operator.mod", X, 2),
    Call("numpy.add", X, X),
    Call("numpy.sum", X, 0),
    Call("numpy.sum", X, axis=(0,), keepdims=True),
    Call("numpy.where", X > 0, X, 0),
    Call("numpy.array", [1, 2], dtype="float32"),
    Call("numpy.zeros", (2, 3), np.float32),
    Call("numpy.apply_along_axis", np.sort, 0, X),
    Call("numpy.piecewise", X, [X > 1], [np.negative, 0]),
    Call("numpy.copyto", X, X, where=X > 0),
    Call("numpy.interp", X, xp=X, fp=X),
    Call("numpy.concatenate", [X, X]),
    Call(".astype", X, "M8[ns]"),
    Call("builtins.sorted", [2, 1], key=abs),
    Call("datetime.datetime", 2020, 1, 1),
    Call("operator.lt", FRAME["a"], datetime.datetime(2020, 1, 1)),
]


@pytest.mark.parametrize("call", HARMLESS, ids=_names)
def test_what_a_scientist_does_is_not_refused(call: Call) -> None:
    call.check()


def test_a_refusal_says_why() -> None:
    with pytest.raises(
        OperationRefused, match=r"\.sort_values is refused with inplace=True: .* use the returned result"
    ):
        check(".sort_values", (FRAME, "a"), {"inplace": True})
    with pytest.raises(OperationRefused, match="the function 'to_csv' is in no list"):
        check(".agg", (FRAME, "to_csv"), {})


def test_torch_is_guarded() -> None:
    torch = pytest.importorskip("torch")
    x, module = torch.ones(6), torch.nn.Linear(2, 2)
    read_only = FRAME["a"].copy()
    refused = [
        Call("torch.nn.functional.relu", x, True),
        Call("torch.nn.functional.relu", x, inplace=True),
        Call("torch.nn.functional.dropout", x, 0.5, True, True),
        Call("torch.nn.ReLU", True),
        Call("torch.add", x, x, out=x),
        Call("torch.max", x, x),
        Call(".max", x, other=x),
        Call("torch.where", x),
        Call("torch.nn.functional.mse_loss", x, x, reduction="none"),
        Call("torch.nn.functional.mse_loss", x, x, None, False),
        Call("torch.nn.MSELoss", reduction="none"),
        Call("torch.all", x, ()),
        Call(".sum", x, dim=()),
        Call(".to", x, "cuda"),
        Call(".to", x, "meta"),
        Call(".to", x, torch.device("meta")),
        Call("torch.zeros", 3, device="cuda"),
        Call("torch.zeros", 3, device=torch.device("meta")),
        Call("torch.zeros", 3, pin_memory=True),
        Call("torch.zeros", 3, layout=torch.sparse_coo),
        Call("torch.rand", 3, generator=torch.Generator()),
        Call("torch.nn.functional.embedding", x, x, max_norm=1.0),
        Call("torch.nn.Embedding", 3, 4, None, 1.0),
        Call(".load_state_dict", module, {}, True, True),
        Call(".state_dict", module, destination={}),
        Call(".step", torch.optim.SGD(module.parameters()), len),
        Call("torch.nn.TransformerEncoderLayer", 4, 2, activation=torch.relu),
    ]
    if not read_only.to_numpy().flags.writeable:  # as it is with copy on write
        refused += [
            Call("torch.from_numpy", read_only.to_numpy()),
            Call("torch.as_tensor", read_only.to_numpy()),
        ]
    for call in refused:
        with pytest.raises(OperationRefused):
            call.check()
            pytest.fail(str(call))
    for call in (
        Call("torch.nn.functional.relu", x),
        Call("torch.nn.functional.relu", x, inplace=False),
        Call("torch.nn.functional.softmax", x, dim=0, _stacklevel=3),
        Call("torch.nn.functional.cross_entropy", x, x, reduction="sum"),
        Call("torch.max", x, 0),
        Call(".to", x, torch.float64),
        Call(".to", x, "cpu"),
        Call("torch.zeros", 3, device=torch.device("cpu"), dtype=torch.float32, layout=torch.strided),
        Call("torch.from_numpy", X),
        Call(".scatter_reduce", x, 0, x, x, reduce="sum"),
        Call("torch.nn.utils.clip_grad_norm_", [x], max_norm=1.0),
        Call("torch.nn.Sequential", module, module),
        Call(".add_", x, x, alpha=-1),
    ):
        call.check()


def test_sklearn_is_guarded() -> None:
    pytest.importorskip("sklearn")
    from sklearn.feature_extraction.text import CountVectorizer
    from sklearn.linear_model import LogisticRegression
    from sklearn.metrics import mean_squared_error
    from sklearn.pipeline import make_pipeline
    from sklearn.tree import DecisionTreeClassifier

    model, tree, text = LogisticRegression(), DecisionTreeClassifier(), CountVectorizer()
    pipeline = make_pipeline(text, model)
    search = "sklearn.model_selection.GridSearchCV"
    for call in (
        Call("sklearn.feature_extraction.text.CountVectorizer", input="filename"),
        Call(".set_params", text, input="file"),
        Call(".set_params", pipeline, countvectorizer__input="file"),
        Call(".set_params", pipeline, memory="cache"),
        Call(search, pipeline, {"countvectorizer__input": ["filename"]}),
        Call(search, pipeline, param_grid=[{"countvectorizer__input": ["content", "filename"]}]),
        Call(search, model, {}, n_jobs=2),
        Call(search, model, {}, pre_dispatch="2*n_jobs+print(1)"),
        Call("sklearn.pipeline.Pipeline", [("a", text)], memory="cache"),
        Call("sklearn.pipeline.make_pipeline", text, memory="cache"),
        Call("sklearn.ensemble.RandomForestClassifier", n_jobs=-1),
        Call("sklearn.ensemble.RandomForestClassifier", verbose=3),
        Call("sklearn.linear_model.LinearRegression", copy_X=False),
        Call("sklearn.preprocessing.scale", X, copy=False),
        Call("sklearn.preprocessing.StandardScaler", copy=False),
        Call(".fit", tree, X, X, None, False),
        Call(".fit", tree, X, X, check_input=False),
        Call(".fit", pipeline, X, X, decisiontreeclassifier__check_input=False),
        Call("sklearn.feature_selection.RFE", model, importance_getter="__class__.__init__.__globals__"),
        Call("sklearn.feature_selection.SelectFromModel", model, importance_getter="named_steps.a.coef_"),
        Call("sklearn.model_selection.cross_val_predict", model, X, X, method="__setstate__"),
        Call("sklearn.ensemble.StackingClassifier", [("a", model)], stack_method="fit"),
        Call("sklearn.metrics.make_scorer", mean_squared_error, response_method="fit"),
        Call("sklearn.metrics.make_scorer", np.negative),
        Call("sklearn.compose.ColumnTransformer", [], verbose_feature_names_out="{feature_name.__class__}"),
    ):
        with pytest.raises(OperationRefused):
            call.check()
            pytest.fail(str(call))
    for call in (
        Call(".fit", model, X.reshape(-1, 1), X),
        Call(search, model, {"C": [1, 2], "penalty": ["l1", "l2"]}, n_jobs=1, scoring="accuracy"),
        Call(search, pipeline, {"countvectorizer__input": ["content"]}, n_jobs=None, verbose=0),
        Call("sklearn.neighbors.KNeighborsClassifier", metric=np.dot),
        Call("sklearn.metrics.make_scorer", mean_squared_error, response_method="predict"),
        Call("sklearn.pipeline.Pipeline", [("a", text), ("b", model)], memory=None),
        Call("sklearn.model_selection.cross_val_predict", model, X, X, method="predict_proba"),
        *(
            Call(f"{kind.__module__.rpartition('._')[0]}.{kind.__name__}", **kind().get_params(deep=False))
            for kind in (LogisticRegression, DecisionTreeClassifier, CountVectorizer)
        ),
    ):
        call.check()


def test_polars_is_guarded() -> None:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"a": [1, 2], "path": [3, 4]})
    for call in (
        Call(".collect", frame.lazy(), engine="gpu"),
        Call(".collect", frame.lazy(), engine="streaming"),
        Call(".collect", frame.lazy(), background=True),
        Call(".collect", frame.lazy(), _eager=True),
        Call(".sort", frame["a"], in_place=True),
        Call(".select", frame, len),
        Call(".with_columns", frame, x=print),
        Call(".rechunk", frame["a"], in_place=True),
    ):
        with pytest.raises(OperationRefused):
            call.check()
            pytest.fail(str(call))
    for call in (
        Call(".select", frame, "a", path=pl.col("path")),
        Call(".with_columns", frame, file=pl.col("a").sum()),
        Call(".cast", frame, {"a": pl.Float64}),
        Call(".cast", frame["a"], pl.Int8),
        Call(".collect", frame.lazy(), engine="in-memory"),
        Call("polars.col", "a"),
        Call(".agg", frame.group_by("a"), pl.col("path").sum(), out=pl.col("path").max()),
    ):
        call.check()


def test_statsmodels_is_guarded() -> None:
    sm = pytest.importorskip("statsmodels.api")
    fitted = sm.OLS(X, sm.add_constant(X)).fit()
    for call in (
        Call(".t_test", fitted, r_matrix="const = 0"),
        Call(".t_test", fitted, ["const = 0"]),
        Call(".t_test", fitted, r_matrix=(("const = 0",),)),
        Call(".t_test", fitted, r_matrix={"const": 0}),
        Call(".wald_test", fitted, np.array(["const = 0"])),
        Call(".f_test", fitted, pd.Series(["const = 0"])),
        Call(".f_test", fitted, pd.DataFrame({"const": ["const = 0"]})),
        Call(".f_test", fitted, np.str_("const = 0")),
        Call("statsmodels.api.OLS", X, X, formula="__import__('os')"),
        Call(".fit", sm.Logit(X > 2, X), callback=print),
    ):
        with pytest.raises(OperationRefused):
            call.check()
            pytest.fail(str(call))
    Call(".fit", sm.OLS(X, X), cov_type="HC3").check()
    Call(".t_test", fitted, r_matrix=np.eye(2)).check()
    Call(".t_test", fitted, [[1, 0], [0, 1]]).check()
    Call(".t_test", fitted, ([[1, 0]], [2.0])).check()
    Call(".f_test", fitted, pd.DataFrame(np.eye(2))).check()


def test_a_column_holds_values_only() -> None:
    held = X.copy()
    for value in (
        pd.Series([held, held]),
        pd.Series([[held], [1]]),
        pd.DataFrame({"a": [1], "b": [{"c": held}]}),
        np.array([{"a": held}]),
        np.array([pd.DataFrame({"a": [1]}), None], dtype=object),
        pd.Index([(1, 2), held.tobytes]),
    ):
        with pytest.raises(OperationRefused, match="objects"):
            check_items("operation", value)
    for value in (
        X,
        [X, X],
        FRAME,
        pd.Series(["a", None, 1.5, pd.Timestamp("2020"), pd.NA, datetime.date(2020, 1, 1)], dtype=object),
        pd.Series(["a b", "c"]).str.split(),
        pd.MultiIndex.from_tuples([(1, "a")]),
        pd.Series(pd.period_range("2020", periods=2)).astype(object),
        3,
    ):
        check_items("operation", value)


# -- the tables -------------------------------------------------------------------------------------------


def test_every_rule_is_for_something_that_is_there() -> None:
    known = {*LIBRARIES}
    for library in LIBRARIES:
        listed = read_list(library)
        module = listed["module"]
        known |= {
            f"{module}.{name}" if module else name for names in listed["functions"].values() for name in names
        }
        for lists in listed.get("classes", {}).values():
            known |= {f".{name}" for names in lists.values() for name in names}
    tables = read_list("guards")
    named = [
        name for table in tables["refused"] for name in (*table.get("for", ()), *table.get("except", ()))
    ]
    named += [name for table in tables["needed"] for name in table["for"]]
    named += [
        name
        for key, names in tables["functions"].items()
        if key not in ("names", "handed_on")
        for name in names
    ]
    named += [name for names in tables["positions"].values() for name in names if "." in name]
    assert [name for name in named if name not in known] == []
    for table in tables["refused"]:
        assert set(table) <= {"for", "except", "keywords", "harmless", "never", "why"}
        assert ("harmless" in table) != ("never" in table)


def test_names_that_may_be_looked_up_change_nothing_and_write_nothing() -> None:
    allowed = Allowed(["pandas"])
    classes = [pd.DataFrame, pd.Series, type(GROUPS), type(GROUPS["a"]), type(FRAME.rolling(2))]
    for name in read_list("guards")["functions"]["names"]:
        found = {allowed.method(class_, name) for class_ in classes if hasattr(class_, name)}
        assert found <= {"elementwise", "aggregate", "other", None}, name
        assert found != {None}, name


def test_positions_are_those_of_the_signatures_that_there_are() -> None:
    allowed = Allowed(["numpy"])
    tables = read_list("guards")["positions"]["numpy"]
    watched = {"out", "dtype", "inplace", "copy"}
    for operation in (
        *listed_functions(allowed),
        *(f".{name}" for name in listed_methods("ndarray", "random.Generator")),
    ):
        class_ = np.ndarray if hasattr(np.ndarray, operation[1:]) else np.random.Generator
        function = getattr(class_, operation[1:]) if operation[0] == "." else allowed.function(operation).call
        try:
            found = inspect.signature(function).parameters.values()
        except (TypeError, ValueError):
            continue
        names = [parameter.name for parameter in found if parameter.kind in POSITIONAL]
        of_ufunc = hasattr(getattr(function, "__self__", None), "nin")
        table = tables.get(operation.rpartition(".")[2] if of_ufunc else operation)
        if table is not None and operation not in WITHOUT_NAMES:
            assert list(names[: len(table)]) == table, operation
        elif not isinstance(inspect.unwrap(function), FunctionType) and not hasattr(function, "nin"):
            assert not watched & set(names), operation  # an older version would not tell


POSITIONAL = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
WITHOUT_NAMES = {".view", ".conj", ".conjugate", "numpy.arange"}  # they take more than they say


def listed_methods(*classes: str) -> list[str]:
    lists = [read_list("numpy")["classes"][class_] for class_ in classes]
    return [name for found in lists for effect in EFFECTS for name in found.get(effect, ())]
