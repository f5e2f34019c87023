"""Rebuilds an estimator of scikit-learn that was fitted on the other side, from its arrays, numbers and
texts.

Nothing is unpickled. A step makes the estimator from its parameters, as any other object; `fitted` then sets
the attributes that `lists/sklearn.toml` names for its class. Most of these classes use their attributes
through NumPy, which checks shapes and indices. Where compiled code would trust an attribute, it is checked
here and in `fitted_tree.py`, or computed again by fitting.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import read_list
from duetlink.compute.operations.fitted_tree import TREE, is_tree, tree_of
from duetlink.errors import OperationRefused

FITTED = "duetlink.compute.operations.fitted.fitted"  # the name of `fitted` in the allow lists
OBJECTS = "array of objects"  # an object array is sent as {OBJECTS: [item, …]}
DTYPE = "dtype"  # a dtype is sent as {DTYPE: text}
# Attributes that belong to one process, or are made from the parameters when they are needed
LEFT = frozenset({"_loss_function_", "_n_threads", "_stop_words_id"})
_OF_ALL = frozenset({"_sklearn_output_config", "feature_names_in_", "n_features_in_"})
_PLAIN = frozenset({int, float, bool, str, type(None), slice})
_KINDS = "biufcSUmM"  # item types of arrays, as `dtype.kind`
_DTYPES = ("<f4", "<f8", "<i4", "<i8", "|O")
_MOST_DEPTH = 8


def fitted(estimator: Any, learnt: Mapping[str, Any]) -> Any:
    """Return a new estimator with the parameters of `estimator` and the fitted attributes `learnt`, by name.

    Arrays are copied.

    Raises:
        OperationRefused: the class is in no list, an attribute is in no list, or its value is not allowed or
            does
            not fit.
    """
    names = learnt_names(type(estimator))
    if names is None or type(learnt) is not dict:
        raise OperationRefused(f"a fitted {type(estimator).__name__} cannot be sent; fit it at the owner")
    if unlisted := sorted(set(learnt) - names):
        raise OperationRefused(
            f"{', '.join(unlisted[:5])} of a {type(estimator).__name__}: attributes in no list"
        )
    from sklearn.base import clone

    made = clone(estimator)
    values = {name: _value(value) for name, value in learnt.items()}
    output = values.pop("_sklearn_output_config", None)
    if output is not None:
        if type(output) is not dict or output not in ({"transform": "default"}, {"transform": "pandas"}):
            raise OperationRefused("the output of an estimator can only be set to 'default' or 'pandas'")
        made.set_output(**output)
    if values:
        _SETTERS.get(type(made).__name__, _set_attributes)(made, values)
    return made


def learnt_names(kind: type) -> frozenset[str] | None:
    """Return the attributes that an estimator of this class may be given; None if the class is in no list."""
    return _listed().get(kind.__name__) if kind.__module__.startswith("sklearn.") else None


@functools.cache
def _listed() -> Mapping[str, frozenset[str]]:
    table = read_list("sklearn")["learnt"]
    return {name.rpartition(".")[2]: _OF_ALL | frozenset(attributes) for name, attributes in table.items()}


def travels(value: Any) -> bool:
    """Return True if a fitted attribute with this value can be sent: plain data, and estimators with
    plain data.
    """
    try:
        _value(value)
    except OperationRefused:
        return False
    return True


def _value(value: Any, depth: int = 0) -> Any:
    """Return a copy of a value that contains only plain data, and estimators with such data."""
    import numpy as np
    from sklearn.base import BaseEstimator

    if type(value) in _PLAIN or isinstance(value, (np.generic, BaseEstimator)):
        return value
    if type(value) is np.ndarray and value.dtype.kind in _KINDS:
        return value.copy(order="K")
    if is_tree(value):  # a tree that the next lines made, when arguments are checked twice
        return value
    if depth < _MOST_DEPTH:
        if type(value) is dict and value.keys() == {TREE} and type(value[TREE]) is dict:
            return tree_of({name: _value(part, _MOST_DEPTH) for name, part in value[TREE].items()})
        if type(value) is dict and value.keys() == {OBJECTS} and type(value[OBJECTS]) is list:
            items = np.empty(len(value[OBJECTS]), object)
            for index, item in enumerate(value[OBJECTS]):
                items[index] = _value(item, depth + 1)
            return items
        if type(value) is dict and value.keys() == {DTYPE} and value[DTYPE] in _DTYPES:
            return np.dtype(value[DTYPE])
        if type(value) in (list, tuple):
            return type(value)(_value(part, depth + 1) for part in value)
        if type(value) is dict:
            return {_value(key, depth + 1): _value(part, depth + 1) for key, part in value.items()}
    raise OperationRefused(
        f"a fitted estimator with a {type(value).__name__} cannot be sent; fit it at the owner"
    )


# -- what compiled code would trust ------------------------------------------------------------------------


def _set_attributes(made: Any, values: dict[str, Any]) -> None:
    for name, value in values.items():
        setattr(made, name, value)


def _centers(made: Any, values: dict[str, Any]) -> None:
    import numpy as np

    centers = values.get("cluster_centers_")
    shape = (made.n_clusters, values.get("n_features_in_"))
    if type(centers) is not np.ndarray or centers.shape != shape or centers.dtype.kind != "f":
        raise OperationRefused(f"cluster_centers_ must have {shape[0]} rows of {shape[1]} numbers")
    _set_attributes(made, values)
    made.cluster_centers_ = np.ascontiguousarray(centers)
    made._n_threads = 1  # a room is one process


def _weights(made: Any, values: dict[str, Any]) -> None:
    """Set the weights of a stochastic gradient descent, which compiled code continues from, after a check."""
    import numpy as np

    columns = values.get("n_features_in_")
    shape: tuple[Any, ...] = (columns,)
    rows = 1
    if "classes_" in values:
        classes = len(values["classes_"])
        rows = 1 if classes == 2 else classes
        shape = (rows, columns)
    for name, expected in (("coef_", shape), ("intercept_", (rows,))):
        found = values.get(name)
        if type(found) is not np.ndarray or found.shape != expected or found.dtype.kind != "f":
            raise OperationRefused(
                f"{name} of this {type(made).__name__} must be numbers of the shape {expected}"
            )
    _set_attributes(made, values)


def _fits_columns(tree: Any, values: dict[str, Any]) -> bool:
    return is_tree(tree) and bool(tree.n_features == values.get("n_features_in_"))


def _tree(made: Any, values: dict[str, Any]) -> None:
    if not _fits_columns(values.get("tree_"), values):
        raise OperationRefused("tree_ must be a tree for as many columns as n_features_in_ says")
    _set_attributes(made, values)


def _forest(made: Any, values: dict[str, Any]) -> None:
    """Set the trees of a forest. Rows are checked by the first tree only, and then go to all."""
    trees = values.get("estimators_")
    if type(trees) is not list or not trees:
        raise OperationRefused("estimators_ of a forest must be a list of trees")
    if not all(_fits_columns(getattr(tree, "tree_", None), values) for tree in trees):
        raise OperationRefused("the trees of a forest must be for as many columns as n_features_in_ says")
    _set_attributes(made, values)


def _vocabulary(made: Any, values: dict[str, Any]) -> None:
    vocabulary = values.get("vocabulary_")
    columns = range(len(vocabulary)) if type(vocabulary) is dict else range(0)
    if type(vocabulary) is not dict or sorted(vocabulary.values()) != list(columns):
        raise OperationRefused("vocabulary_ must number its words 0, 1, 2, …")
    _set_attributes(made, values)


def _categories(made: Any, values: dict[str, Any]) -> None:
    """Fit the encoder again, on one row: its internal state follows from its categories."""
    import numpy as np
    import pandas as pd

    categories, names = values.get("categories_"), values.get("feature_names_in_")
    if type(categories) is not list or not all(type(each) is np.ndarray and len(each) for each in categories):
        raise OperationRefused("categories_ of an encoder must be a list of arrays that are not empty")
    if made.min_frequency is not None or made.max_categories is not None:
        raise OperationRefused(
            "a fitted encoder with min_frequency or max_categories cannot be sent; fit it at the owner"
        )
    row = pd.DataFrame({index: each[:1] for index, each in enumerate(categories)})
    given = made.categories
    made.set_params(categories=categories)
    if names is None:
        made.fit(row.to_numpy() if len({each.dtype for each in categories}) == 1 else row)
    else:
        row.columns = names
        made.fit(row)
    made.set_params(categories=given)
    made.categories_ = categories


def _degrees(made: Any, values: dict[str, Any]) -> None:
    """Fit again: the output columns follow from the number of input columns."""
    import numpy as np

    columns = values.get("n_features_in_")
    if type(columns) is not int:
        raise OperationRefused("n_features_in_ must be an integer")
    made.fit(np.zeros((1, columns)))
    _set_attributes(made, values)


_SETTERS: Mapping[str, Callable[[Any, dict[str, Any]], None]] = {
    "CountVectorizer": _vocabulary,
    "DecisionTreeClassifier": _tree,
    "DecisionTreeRegressor": _tree,
    "DictVectorizer": _vocabulary,
    "ExtraTreeClassifier": _tree,
    "ExtraTreeRegressor": _tree,
    "ExtraTreesClassifier": _forest,
    "ExtraTreesRegressor": _forest,
    "KMeans": _centers,
    "OneHotEncoder": _categories,
    "OrdinalEncoder": _categories,
    "Perceptron": _weights,
    "PolynomialFeatures": _degrees,
    "RandomForestClassifier": _forest,
    "RandomForestRegressor": _forest,
    "SGDClassifier": _weights,
    "SGDRegressor": _weights,
    "TfidfVectorizer": _vocabulary,
}
