"""Means over the members, weighted or not, of arrays, state dicts and whole models."""

from __future__ import annotations

import math
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, SupportsFloat

import numpy as np

from duetlink.errors import SettingError, UnsupportedValue
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.values.operands import check
from duetlink.groups.collectives.values.trees import take_apart

MEAN = ReduceOptions("mean")
_LONE = "value"  # the name of an array that is the whole value

# A weighted mean of integers is computed in float64. The sum of the weights, a share of it, a product and the
# sum of 16 members have a relative error of 2^-48 at most: equal integers up to this one keep their value.
_LARGEST_WEIGHTED = 2**47


@dataclass(frozen=True, slots=True)
class Parts:
    """The arrays of a value by name, in an order that does not depend on the order of its keys."""

    numbers: dict[str, Any]
    flags: dict[str, Array]  # arrays of bool, which have no mean: they must be the same at all members

    @property
    def given(self) -> Any:
        """The numbers as a value to sum: a single array by itself, otherwise a dict."""
        return self.numbers.get(_LONE, self.numbers)

    def named(self, found: Any) -> dict[str, Any]:
        """Return the result for `given` as a dict by name."""
        return {_LONE: found} if _LONE in self.numbers else found


def is_model(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.nn.Module)


def state_of(value: Any) -> Any:
    """Return the state to average: a model's parameters and buffers, or the value itself.

    Raises:
        UnsupportedValue: the model has a state that is neither.
    """
    if not is_model(value):
        return value
    state = dict(value.state_dict())
    for name, leaf in state.items():
        if name.rpartition(".")[2] == "_extra_state" or not _is_tensor(leaf):
            raise UnsupportedValue(
                f"the model's state has {name!r}, a {type(leaf).__name__} that is no parameter and no buffer "
                "(its get_extra_state, perhaps): make it a buffer, or give a dict of the tensors alone"
            )
    return state


def put_back(value: Any, state: Any) -> Any:
    """Copy `state` into the model, after checking all of it, and return the model; without a model, return
    the state.

    Raises:
        UnsupportedValue: the state does not fit the model, which is unchanged.
    """
    if not is_model(value):
        return state
    own = value.state_dict()
    check_fits(own, state)
    torch = sys.modules["torch"]
    with torch.no_grad():
        for name, tensor in own.items():
            tensor.copy_(state[name])
    return value


def check_fits(own: Mapping[str, Any], state: Mapping[str, Any]) -> None:
    """Raise UnsupportedValue unless `state` has the names and shapes of a model's own state."""
    for name in own.keys() | state.keys():
        shapes = [tuple(each[name].shape) if name in each else None for each in (own, state)]
        if shapes[0] != shapes[1] or not _is_tensor(state[name]):
            raise UnsupportedValue(
                f"{name!r} has the shape {shapes[0]} in this model, and {shapes[1]} at the others: all "
                "members need the same model"
            )


def parts_of(state: Any, *, is_weighted: bool) -> Parts:
    """Separate a state into numbers, which have a mean, and bools, which have none.

    Raises:
        UnsupportedValue: an array in it has no mean; the text names it.
    """
    tree = take_apart(state)
    if not tree.leaves:
        raise UnsupportedValue("there is no array in this value")
    parts = Parts({}, {})
    for name, leaf in _named(state, _LONE).items():
        kind = _kind(leaf)
        if kind == "b":
            parts.flags[name] = _as_numpy(leaf)
            continue
        parts.numbers[name] = leaf
        if is_weighted and kind == "c":
            raise UnsupportedValue(
                f"{name} is complex, which has no weighted mean; convert it to floats first"
            )
        if is_weighted and kind in "iu":
            _check_weighted(name, _as_numpy(leaf))
    if parts.numbers:
        check(take_apart(parts.given), "sum" if is_weighted else "mean", in_place=False)
    return parts


async def average(collectives: Collectives, value: Any, weight: float | None, call: str) -> Any:
    """Return the mean of the members' values: plain, or weighted if they give weights. Raises as
    `all_reduce`.

    A weighted mean of integers is rounded. Bools have no mean, and must be the same at all members. The value
    of a member with a weight of 0 is ignored. Either all members give a weight, or none. A value that cannot
    be averaged raises before anything is sent, so that the others wait for a corrected call.

    Raises:
        SettingError: the weight is not a number from 0 on.
        UnsupportedValue: the value has no mean, bools of members differ, no weight is over 0, or the weights
            have no finite sum.
    """
    state = state_of(value)
    parts = parts_of(state, is_weighted=weight is not None)
    if weight is None:
        plain = f"{call}, an average without a weight"
        found: dict[str, Any] = await _flags(collectives, parts, True, plain)
        if parts.numbers:
            found |= parts.named(await collectives.all_reduce(parts.given, MEAN, call=plain))
        return put_back(value, joined(state, found))
    weight = checked_weight(weight)
    told: Any = await collectives.all_reduce(np.float64(weight), call=f"{call}, the weight of an average")
    total = checked_total(float(told))
    found = await _flags(collectives, parts, weight > 0, call)
    if parts.numbers:
        scaled = {name: _scaled(leaf, weight / total) for name, leaf in parts.numbers.items()}
        summed = await collectives.all_reduce(scaled.get(_LONE, scaled), call=call)
        found |= parts.named(summed)
    return put_back(value, joined(state, found))


async def _flags(collectives: Collectives, parts: Parts, counts: bool, call: str) -> dict[str, Any]:
    """Return the bools of the members that count. Raises UnsupportedValue if they differ."""
    if not parts.flags:
        return {}
    given = {name: flags.astype(np.uint8) * np.uint8(counts) for name, flags in parts.flags.items()}
    told: Any = await collectives.all_reduce([np.uint8(counts), given], call=f"{call}, the bools in it")
    return same_flags(told[1], float(told[0]))


def same_flags(summed: Mapping[str, Array], everybody: float) -> dict[str, Any]:
    """Return the bools, given their sums over the members, where `everybody` is the sum of ones.

    Raises:
        UnsupportedValue: they are not the same at all members.
    """
    differ = [name for name, sums in summed.items() if not np.all((sums == 0) | (sums == everybody))]
    if differ:
        more = f" and {len(differ) - 1} more" if len(differ) > 1 else ""
        raise UnsupportedValue(
            f"{differ[0]}{more} is bool and not the same at all members, so it has no mean: convert it to a "
            "number, leave it out, or bring all to one with group.sync"
        )
    return {name: sums == everybody for name, sums in summed.items()}


def checked_weight(weight: Any) -> float:
    """Return the weight as a float. Raises SettingError unless it is a number from 0 on."""
    number = float(weight) if isinstance(weight, SupportsFloat) else math.nan
    if not 0 <= number < math.inf:
        raise SettingError(f"weight is {weight!r}: a number from 0 on, such as how many rows this member has")
    return number


def checked_total(total: float) -> float:
    """Return the sum of the weights. Raises UnsupportedValue if it is 0 or infinite."""
    if not total > 0:
        raise UnsupportedValue(f"the members' weights add up to {total}; one at least must be over 0")
    if total == math.inf:
        raise UnsupportedValue("the members' weights add up to more than 1.8e308; give smaller ones")
    return total


def _check_weighted(name: str, array: Array) -> None:
    if array.size and max(int(array.max()), -int(array.min())) > _LARGEST_WEIGHTED:
        raise UnsupportedValue(
            f"{name} has integers beyond 2^47 ({_LARGEST_WEIGHTED:,}), of which no weighted mean is exact: "
            "average them without a weight, or convert them to float64"
        )


def _scaled(leaf: Any, share: float) -> Any:
    """Multiply by the share; a share of 0 gives zeros, even for NaN and infinities."""
    if _is_tensor(leaf):
        leaf = leaf.detach() if leaf.is_floating_point() else leaf.detach().double()
        return leaf * share if share else leaf.new_zeros(leaf.shape)
    array = np.asarray(leaf)
    # a small share has too little precision as a float16
    wide = np.promote_types(array.dtype, np.float32) if array.dtype.kind == "f" else np.dtype(np.float64)
    found = array.astype(wide, copy=False) * wide.type(share) if share else np.zeros_like(array, wide)
    return found.astype(array.dtype, copy=False) if array.dtype.kind == "f" else found


def weighed(leaf: Any, weight: float) -> Any:
    """Multiply the leaf by the weight, in float64; a weight of 0 gives zeros, even for NaN and infinities."""
    return _scaled(
        leaf.detach().double() if _is_tensor(leaf) else np.asarray(leaf).astype(np.float64), weight
    )


def joined(state: Any, found: Mapping[str, Any]) -> Any:
    """Return the state with its arrays replaced by those found under their names, of the same kind."""
    return _joined(state, found, _LONE)


def _joined(before: Any, found: Mapping[str, Any], name: str) -> Any:
    if isinstance(before, Mapping):
        return {key: _joined(each, found, f"{name}[{key!r}]") for key, each in before.items()}
    if isinstance(before, list | tuple):
        inside = [_joined(each, found, f"{name}[{at}]") for at, each in enumerate(before)]
        return tuple(inside) if isinstance(before, tuple) else inside
    return _like(before, found[name])


def _named(value: Any, name: str) -> dict[str, Any]:
    """List the arrays by their position in the value, such as `value['w'][0]`; keys in alphabetical order."""
    if isinstance(value, Mapping):
        places = {f"{name}[{key!r}]": value[key] for key in sorted(value)}
    elif isinstance(value, list | tuple):
        places = {f"{name}[{at}]": each for at, each in enumerate(value)}
    else:
        return {name: value}
    return {inner: leaf for place, each in places.items() for inner, leaf in _named(each, place).items()}


def _like(before: Any, after: Any) -> Any:
    """Convert `after` to the type of `before`; float results for integers are rounded."""
    if _is_tensor(before):
        after = sys.modules["torch"].as_tensor(after)
        is_rounded = after.is_floating_point() and not before.is_floating_point()
        return (after.round() if is_rounded else after).to(before.dtype)
    (leaf,) = take_apart(before).leaves
    array = np.asarray(after)
    if leaf.element.storage.kind in "iu" and array.dtype.kind == "f":
        array = np.rint(array)
    items = array.astype(leaf.element.storage, copy=False).reshape(-1)
    return take_apart(before).with_items({leaf.element.name: items})


def _kind(leaf: Any) -> str:
    """Return the kind of the items by NumPy's letters: f, i, u, b or c."""
    if _is_tensor(leaf):
        if leaf.is_floating_point() or leaf.is_complex():
            return "f" if leaf.is_floating_point() else "c"
        return "b" if leaf.dtype == sys.modules["torch"].bool else "i"
    return np.asarray(leaf).dtype.kind


def _as_numpy(leaf: Any) -> Array:
    return leaf.detach().cpu().numpy() if _is_tensor(leaf) else np.asarray(leaf)


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
