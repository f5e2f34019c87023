"""Estimators that have learnt here, from public data, and are applied to what is at the owner."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import ExtraTreesRegressor, RandomForestClassifier
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.model_selection import GridSearchCV
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import LabelEncoder, OneHotEncoder, PolynomialFeatures, StandardScaler
from sklearn.tree import DecisionTreeClassifier, DecisionTreeRegressor

from duetlink.compute.operations.fitted import OBJECTS, fitted
from duetlink.compute.operations.fitted_tree import told_of, tree_of
from duetlink.duet.answering.requests import Request
from duetlink.errors import OperationRefused
from tests.remote.conftest import Bench

PUBLIC = np.array([[0.0, 1.0], [1.0, 3.0], [2.0, 2.0], [3.0, 5.0], [4.0, 4.0], [5.0, 7.0]])
CLASSES = np.array(["low", "low", "low", "high", "high", "high"])
WORDS = ["one two two", "two three", "three one"]
REAL: dict[str, Any] = {
    "x": np.array([[0.5, 2.0], [4.5, 5.0], [2.5, 0.0]]),
    "frame": pd.DataFrame({"age": [0.5, 4.5, 2.5], "pay": [2.0, 5.0, 0.0]}),
    "town": pd.DataFrame({"town": ["Ulm", "Bonn", "Ulm"]}),
    "words": pd.Series(["two one", "four", "three three"]),
    "people": pd.DataFrame({"age": [0.5, 4.5, 2.5], "town": ["Ulm", "Bonn", "Ulm"]}),
}
MOCKS: dict[str, Any] = {
    "x": np.array([[9.0, 9.0], [8.0, 7.0], [0.0, 1.0]]),
    "frame": pd.DataFrame({"age": [9.0, 8.0, 0.0], "pay": [9.0, 7.0, 1.0]}),
    "town": pd.DataFrame({"town": ["Bonn", "Bonn", "Bonn"]}),
    "words": pd.Series(["one", "one", "one"]),
    "people": pd.DataFrame({"age": [9.0, 8.0, 0.0], "town": ["Bonn", "Bonn", "Bonn"]}),
}
SMALL = DecisionTreeRegressor().fit(PUBLIC, PUBLIC[:, 1])
FRAME = pd.DataFrame(PUBLIC, columns=["age", "pay"])


@pytest.fixture(scope="module")
def p(shared_bench: Bench) -> dict[str, Any]:
    return {name: shared_bench.share(obj, f"fitted {name}", MOCKS[name]) for name, obj in REAL.items()}


Apply = Callable[[Any, Any], Any]
predict: Apply = lambda model, x: model.predict(x)  # noqa: E731
transform: Apply = lambda model, x: model.transform(x)  # noqa: E731
APPLIED: dict[str, tuple[Any, str, Apply]] = {
    "a classifier": (LogisticRegression().fit(PUBLIC, CLASSES), "x", predict),
    "its probabilities": (
        LogisticRegression(C=0.5).fit(PUBLIC, CLASSES),
        "x",
        lambda model, x: model.predict_proba(x),
    ),
    "of a frame": (LogisticRegression().fit(FRAME, CLASSES), "frame", predict),
    "a scaler": (StandardScaler().fit(PUBLIC), "x", transform),
    "a scaler that makes frames": (
        StandardScaler().set_output(transform="pandas").fit(FRAME),
        "frame",
        transform,
    ),
    "components": (PCA(1).fit(PUBLIC), "x", transform),
    "clusters": (KMeans(2, n_init=1, random_state=0).fit(PUBLIC), "x", predict),
    "a tree": (DecisionTreeClassifier().fit(PUBLIC, CLASSES), "x", predict),
    "a forest": (RandomForestClassifier(5, random_state=0).fit(PUBLIC, CLASSES), "x", predict),
    "a forest of numbers": (ExtraTreesRegressor(3, random_state=0).fit(PUBLIC, PUBLIC[:, 0]), "x", predict),
    "a pipeline": (
        make_pipeline(SimpleImputer(), PolynomialFeatures(2), StandardScaler(), LogisticRegression()).fit(
            PUBLIC, CLASSES
        ),
        "x",
        predict,
    ),
    "categories": (
        OneHotEncoder(sparse_output=False).fit(pd.DataFrame({"town": ["Jena", "Ulm", "Bonn"]})),
        "town",
        transform,
    ),
    "columns, each in its way": (
        make_pipeline(
            ColumnTransformer(
                [("age", StandardScaler(), ["age"]), ("town", OneHotEncoder(sparse_output=False), ["town"])]
            ),
            LogisticRegression(),
        ).fit(pd.DataFrame({"age": PUBLIC[:, 0], "town": ["Jena", "Ulm", "Bonn"] * 2}), CLASSES),
        "people",
        lambda model, x: model.predict_proba(x),
    ),
    "a part of a search": (
        GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(PUBLIC, CLASSES == "low").best_estimator_,
        "x",
        predict,
    ),
    "words": (TfidfVectorizer().fit(WORDS), "words", lambda model, x: model.transform(x).toarray()),
}


@pytest.mark.parametrize("name", APPLIED)
def test_what_has_learnt_here_is_applied_there(bench: Bench, p: dict[str, Any], name: str) -> None:
    model, data, apply = APPLIED[name]
    made = apply(bench.scientist.remote(model), p[data])
    expected = apply(model, REAL[data])
    if isinstance(expected, pd.DataFrame):
        pd.testing.assert_frame_equal(made.get(reason=name), expected)
    elif expected.dtype.kind == "f":
        np.testing.assert_allclose(made.get(reason=name), expected, rtol=1e-12)
    else:
        assert made.get(reason=name).tolist() == expected.tolist()


def test_learning_goes_on_there_from_what_was_learnt_here(bench: Bench, p: dict[str, Any]) -> None:
    def learnt() -> tuple[Any, Any]:
        classifier = SGDClassifier(random_state=0)
        return StandardScaler().partial_fit(PUBLIC), classifier.partial_fit(PUBLIC, CLASSES, ["high", "low"])

    scaler, classifier = map(bench.scientist.remote, learnt())
    scaler.partial_fit(p["x"])
    classifier.partial_fit(p["x"], np.array(["low", "high", "low"]))
    local_scaler, local_classifier = learnt()
    local_scaler.partial_fit(REAL["x"])
    local_classifier.partial_fit(REAL["x"], np.array(["low", "high", "low"]))
    mean, coefficients = bench.scientist.fetch([scaler.mean_, classifier.coef_], reason="both")
    np.testing.assert_allclose(mean, local_scaler.mean_, rtol=1e-12)
    np.testing.assert_allclose(coefficients, local_classifier.coef_, rtol=1e-12)


def test_the_code_shows_that_something_was_learnt_elsewhere_and_its_size(bench: Bench, p: Any) -> None:
    shown: list[str] = []

    def answer(request: Request) -> None:
        shown.append(str(request.code))
        request.approve()

    bench.answer = answer
    model = LogisticRegression(C=2.0).fit(PUBLIC, CLASSES)
    bench.scientist.remote(model).predict(p["x"]).get(reason="which")
    (code,) = shown
    assert "fitted(logistic_regression, {" in code
    assert '"coef_": value_2' in code
    assert "value_2  # numpy.ndarray float64 (1, 2), sent by the peer" in code


REFUSED: dict[str, tuple[Any, str]] = {
    "neighbours": (
        KNeighborsClassifier(2).fit(PUBLIC, CLASSES),
        r"KNeighborsClassifier has learnt here what does not travel \(_tree, ",
    ),
    "a search": (
        GridSearchCV(LogisticRegression(), {"C": [1.0]}, cv=2).fit(PUBLIC, CLASSES == "low"),
        r"does not travel .*or place what it has found, duet\.remote\(x\.best_estimator_\)",
    ),
    "an average of weights": (
        SGDClassifier(average=True).fit(PUBLIC, CLASSES),
        r"does not travel \(_average_coef, _average_intercept",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_does_not_travel_is_named(bench: Bench, name: str) -> None:
    model, words = REFUSED[name]
    with pytest.raises(OperationRefused, match=words):
        bench.scientist.remote(model)


HOSTILE: dict[str, tuple[Any, Any]] = {
    "an attribute of no list": (LogisticRegression(), {"predict": 1.0}),
    "a class of no list": (KNeighborsClassifier(), {"n_features_in_": 2}),
    "a forest of nothing": (RandomForestClassifier(), {"n_features_in_": 2, "estimators_": []}),
    "a forest of other estimators": (
        RandomForestClassifier(),
        {"n_features_in_": 2, "estimators_": [LogisticRegression()]},
    ),
    "a tree of other columns": (
        DecisionTreeRegressor(),
        {"n_features_in_": 3, "tree_": told_of(SMALL.tree_)},
    ),
    "an object that is no estimator": (np.zeros(2), {"coef_": 2}),
    "a function": (LogisticRegression(), {"coef_": len}),
    "an array of objects as it is": (LogisticRegression(), {"classes_": np.array([len], dtype=object)}),
    "a function within objects": (LogisticRegression(), {"classes_": {OBJECTS: [len]}}),
    "centers that are too few": (
        KMeans(2),
        {"cluster_centers_": np.zeros((1, 2)), "n_features_in_": 2},
    ),
    "centers that are too short": (
        KMeans(2),
        {"cluster_centers_": np.zeros((2, 1)), "n_features_in_": 2},
    ),
    "weights of no class": (
        SGDClassifier(),
        {
            "classes_": np.array([0, 1]),
            "coef_": np.zeros((0, 2)),
            "intercept_": np.zeros(1),
            "n_features_in_": 2,
        },
    ),
    "a vocabulary beyond its columns": (TfidfVectorizer(), {"vocabulary_": {"a": 0, "b": 7}}),
    "categories that are no arrays": (OneHotEncoder(), {"categories_": 3}),
    "an output that is set otherwise": (
        StandardScaler(),
        {"_sklearn_output_config": {"transform": "pandas", "more": 1}},
    ),
    "an output that shares memory": (
        StandardScaler(),
        {"_sklearn_output_config": {"transform": "polars"}},
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_given_to_an_estimator_is_checked_where_it_runs(name: str) -> None:
    estimator, learnt = HOSTILE[name]
    with pytest.raises(OperationRefused):
        fitted(estimator, learnt)


def _with(name: str, place: int, value: Any) -> dict[str, Any]:
    told = told_of(SMALL.tree_)["tree"]
    return {**told, name: np.where(np.arange(len(told[name])) == place, value, told[name])}


CROOKED: dict[str, dict[str, Any]] = {
    "a child that there is not": _with("left_child", 0, 99),
    "a child that is the root": _with("left_child", 0, 0),
    "a child of two nodes": _with("left_child", 0, int(SMALL.tree_.children_right[0])),
    "one child alone": _with("right_child", 0, -1),
    "a column that there is not": _with("feature", 0, 2),
    "a column before the first": _with("feature", 0, -2),
    "values that are too few": {**told_of(SMALL.tree_)["tree"], "values": np.zeros((2, 1, 1))},
    "classes that are more": {**told_of(SMALL.tree_)["tree"], "n_classes": np.array([9])},
    "nodes that are fewer": {**told_of(SMALL.tree_)["tree"], "threshold": np.zeros(1)},
    "a part that is missing": {"n_features": 2},
}


@pytest.mark.parametrize("name", CROOKED)
def test_compiled_code_walks_no_crooked_tree(name: str) -> None:
    with pytest.raises(OperationRefused, match="this fitted tree is refused"):
        tree_of(CROOKED[name])


def test_a_tree_comes_back_as_it_was_and_its_depth_is_counted() -> None:
    made = tree_of(told_of(SMALL.tree_)["tree"])
    assert made.max_depth == SMALL.tree_.max_depth
    assert made.__getstate__()["nodes"].tolist() == SMALL.tree_.__getstate__()["nodes"].tolist()
    assert made.predict(PUBLIC.astype(np.float32)).ravel().tolist() == PUBLIC[:, 1].tolist()


def test_an_estimator_keeps_no_array_that_it_was_given() -> None:
    given = np.array(["a", "b"])
    made = fitted(LabelEncoder(), {"classes_": given})
    given[0] = "z"
    assert made.transform(["a"]).tolist() == [0]
