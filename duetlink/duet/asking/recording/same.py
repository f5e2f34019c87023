"""Compares two objects that hold parameters, attribute by attribute."""

from __future__ import annotations

from types import FunctionType
from typing import Any

from duetlink.compute.operations.fitted_tree import is_tree, told_of

_MOST_DEPTH = 8  # levels of nested attributes


def is_same(one: Any, other: Any, depth: int = 0) -> bool:
    """Return True if both are of one class and have equal attributes; NaN equals NaN.

    Objects nested more than 8 levels deep count as different.
    """
    if one is other:
        return True
    if type(one) is not type(other) or depth > _MOST_DEPTH:
        return False
    if isinstance(one, FunctionType):
        return one.__code__ is other.__code__ and not one.__closure__
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(
            is_same(a, b, depth + 1) for a, b in zip(one, other, strict=True)
        )
    if isinstance(one, dict):
        return one.keys() == other.keys() and all(is_same(one[key], other[key], depth + 1) for key in one)
    if hasattr(one, "tobytes"):
        if one.dtype.hasobject and one.dtype == other.dtype:
            return is_same(one.tolist(), other.tolist(), depth + 1)
        return bool(
            one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()
        )
    if is_tree(one):
        return is_same(told_of(one), told_of(other), depth + 1)
    if type(one).__module__.startswith(("sklearn.", "statsmodels.")):
        return is_same(vars(one), vars(other), depth + 1)
    return bool(one == other or (one != one and other != other))  # NaN
