"""What an estimator has learnt here, to be given to its equal at the owner: arrays, numbers and texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from duetlink.compute.operations.fitted import DTYPE, LEFT, OBJECTS, fitted, learnt_names, travels
from duetlink.compute.operations.fitted_tree import is_tree, told_of
from duetlink.duet.asking.recording.same import is_same
from duetlink.errors import OperationRefused


def learnt_of(estimator: Any, has_learnt: Iterable[str]) -> tuple[Any, dict[str, Any]]:
    """The arguments of `fitted` that make an equal of `estimator`: one that has learnt nothing, and these
    attributes of its.

    Raises:
        OperationRefused: some of them do not travel, or what comes of the rest is no equal.
    """
    from sklearn.base import clone

    kind = type(estimator)
    names = learnt_names(kind) or frozenset()
    learnt = {name: _told(getattr(estimator, name)) for name in sorted(names & set(has_learnt))}
    plain = kind(**clone(estimator).get_params(deep=False))  # a clone has its output configured as well
    try:
        made = fitted(plain, learnt)
    except Exception:  # of a class or a value for which there is none
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
    left.sort(key=lambda each: (travels(_told(getattr(estimator, each, None))), each[0] == "_"))
    words = (
        f"this {name} has learnt here what does not travel ({', '.join(left[:5])}): let one learn at the "
        f"owner, duet.remote({name}(…)).fit(…)"
    )
    if hasattr(estimator, "best_estimator_"):
        return f"{words}, or place what it has found, duet.remote(x.best_estimator_)"
    return words


def _told(value: Any) -> Any:
    """A value as `fitted` takes it."""
    kind: Any = type(value)
    if kind.__module__ == "numpy" and kind.__name__ == "ndarray":
        return {OBJECTS: [_told(item) for item in value]} if value.dtype.hasobject else value
    if kind.__module__ == "numpy.dtypes":
        return {DTYPE: value.str}
    if is_tree(value):
        return told_of(value)
    if kind in (list, tuple):
        return kind(map(_told, value))
    if kind is dict:
        return {_told(key): _told(item) for key, item in value.items()}
    return value
