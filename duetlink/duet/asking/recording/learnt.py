"""Reads the learnt attributes of a local, fitted estimator, so that an equal one can be made at the owner.

Only arrays, numbers, texts and trees travel. An estimator is refused if the one made from these differs from
the original in any attribute.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duetlink.compute.operations.fitted import DTYPE, LEFT, OBJECTS, fitted, learnt_names, travels
from duetlink.compute.operations.fitted_tree import is_tree, told_of
from duetlink.duet.asking.recording.same import is_same
from duetlink.errors import OperationRefused


def learnt_of(estimator: Any, has_learnt: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """Return the arguments of `fitted` (`compute/operations/fitted.py`) that make an equal of `estimator`.

    They are an unfitted estimator with the same parameters, and the learnt attributes by name; `has_learnt`
    names the attributes that fitting has added.

    Raises:
        OperationRefused: an attribute does not travel, or the estimator made from them differs.
    """
    from sklearn.base import clone

    kind = type(estimator)
    names = learnt_names(kind) or frozenset()
    learnt = {name: _encoded(getattr(estimator, name)) for name in sorted(names & set(has_learnt))}
    plain = kind(**clone(estimator).get_params(deep=False))  # a clone has its output configured as well
    try:
        made = fitted(plain, learnt)
    except Exception:  # the class or a value is not supported by `fitted`
        made = plain
    found, expected = vars(made), vars(estimator)
    left = [
        name
        for name in sorted((found.keys() | expected.keys()) - LEFT)
        if name not in found or name not in expected or not is_same(found[name], expected[name])
    ]
    if left:
        raise OperationRefused(_refusal(estimator, left))
    return plain, learnt


def _refusal(estimator: Any, left: list[str]) -> str:
    name = type(estimator).__name__
    left.sort(key=lambda each: (travels(_encoded(getattr(estimator, each, None))), each[0] == "_"))
    words = (
        f"this {name} has learnt here what does not travel ({', '.join(left[:5])}): let one learn at the "
        f"owner, duet.remote({name}(…)).fit(…)"
    )
    if hasattr(estimator, "best_estimator_"):
        return f"{words}, or place what it has found, duet.remote(x.best_estimator_)"
    return words


def _encoded(value: Any) -> Any:
    """Convert a learnt attribute to the form that `fitted` takes."""
    kind: Any = type(value)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return {OBJECTS: [_encoded(item) for item in value]} if value.dtype.hasobject else value
    if kind.__module__ == "numpy.dtypes":
        return {DTYPE: value.str}
    if is_tree(value):
        return told_of(value)
    if kind in (list, tuple):
        return kind(map(_encoded, value))
    if kind is dict:
        return {_encoded(key): _encoded(item) for key, item in value.items()}
    return value
