"""A weighted mean over the members, of arrays, state dicts and whole models."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from typing import Any, SupportsFloat

import numpy as np

from duetlink.errors import SettingError, UnsupportedValue
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.operands import check
from duetlink.groups.collectives.trees import take_apart


def is_model(value: object) -> bool:
    """Whether it is a torch module."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def state_of(value: Any) -> Any:
    """What of it travels: a model's parameters and buffers, or the value itself."""
    return dict(value.state_dict()) if is_model(value) else value


def put_back(value: Any, state: Any) -> Any:
    """The model with `state` copied into it, in one go once all of it is there; else the state."""
    if not is_model(value):
        return state
    torch = sys.modules["torch"]
    with torch.no_grad():
        for name, tensor in value.state_dict().items():
            tensor.copy_(state[name])
    return value


async def average(collectives: Collectives, value: Any, weight: float | None, call: str) -> Any:
    """The mean of the members' values: plain, or weighted if they give weights. Raises as `all_reduce`.

    A weighted mean of integers is rounded. All members give a weight, or none. What cannot be averaged raises
    before the weight is sent, so that the others wait for a call that can still come.

    Raises:
        SettingError: the weight is no number from 0 on.
        UnsupportedValue: the value has no mean, or nobody's weight is over 0.
    """
    state = state_of(value)
    if weight is None:
        plain = f"{call}, an average without a weight"
        return put_back(value, await collectives.all_reduce(state, "mean", call=plain))
    weight = _checked_weight(weight)
    check(take_apart(each_leaf(state, _with_mean)), "sum", in_place=False)
    told: Any = await collectives.all_reduce(np.float64(weight), call=f"{call}, the weight of an average")
    total = float(told)
    if not total > 0:
        raise UnsupportedValue(f"the members' weights add up to {total}; one at least must be over 0")
    scaled = each_leaf(state, lambda leaf: _scaled(leaf, weight / total))
    summed = await collectives.all_reduce(scaled, "sum", call=call)
    return put_back(value, like(state, summed))


def _checked_weight(weight: Any) -> float:
    number = float(weight) if isinstance(weight, SupportsFloat) else math.nan
    if not 0 <= number < math.inf:
        raise SettingError(f"weight is {weight!r}: a number from 0 on, such as how many rows this member has")
    return number


def _scaled(leaf: Any, share: float) -> Any:
    if _is_tensor(leaf):
        return leaf.detach() * share if leaf.is_floating_point() else leaf.double() * share
    array = np.asarray(leaf)
    return array * array.dtype.type(share) if array.dtype.kind == "f" else array * np.float64(share)


def _with_mean(leaf: Any) -> Any:
    """The same. Raises UnsupportedValue for what has no weighted mean."""
    if _is_tensor(leaf):
        has_mean, kind = not leaf.is_complex(), leaf.dtype
    else:
        array = np.asarray(leaf)
        has_mean, kind = array.dtype.kind in "fiub", array.dtype
    if not has_mean:
        raise UnsupportedValue(f"an array of {kind} has no weighted mean; convert it to floats first")
    return leaf


def as_float64(leaf: Any) -> Any:
    """An array or tensor of float64. Raises UnsupportedValue for what has no mean."""
    _with_mean(leaf)
    return leaf.detach().double() if _is_tensor(leaf) else np.asarray(leaf).astype(np.float64)


def like(before: Any, after: Any) -> Any:
    """`after` with the dtypes of `before`: what was scaled as float64 is rounded back."""
    if isinstance(before, Mapping):
        return {name: like(leaf, after[name]) for name, leaf in before.items()}
    if isinstance(before, list | tuple):
        return type(before)(like(one, other) for one, other in zip(before, after, strict=True))
    if _is_tensor(before):
        return (after if before.is_floating_point() else after.round()).to(before.dtype)
    array = np.asarray(before)
    if array.dtype.kind == "f":
        return after.astype(array.dtype, copy=False) if isinstance(before, np.ndarray) else after
    back = np.rint(after).astype(array.dtype)
    return back if isinstance(before, np.ndarray) else back.item()


def each_leaf(value: Any, function: Any) -> Any:
    """The value with what the function gives for each array in it."""
    if isinstance(value, Mapping):
        return {name: each_leaf(leaf, function) for name, leaf in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(each_leaf(leaf, function) for leaf in value)
    return function(value)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)


def size_of(value: Any) -> int:
    """Bytes of the arrays in it, for the audit log."""
    if isinstance(value, Mapping):
        return sum(size_of(leaf) for leaf in value.values())
    if isinstance(value, list | tuple):
        return sum(size_of(leaf) for leaf in value)
    return int(getattr(value, "nbytes", 0) or (8 if isinstance(value, int | float) else 0))
