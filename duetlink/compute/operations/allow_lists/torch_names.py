"""Maps the functions that `__torch_function__` receives to their wire names.

Theory. torch passes `torch.relu` as a builtin of a hidden class, `x.add_` as a descriptor of `TensorBase`,
`x.grad` as the `__get__` of a property, and `x[0]` as a slot. Functions are looked up by identity, the others
by name, each where the list of torch has them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from duetlink.compute.operations.allow_lists.allowed import Allowed, read_list

# Python's operators are in the list of Python, under other names than these. Reflected ones (`1 - x`) are
# methods in the list of torch, since their arguments are swapped.
_OPERATOR_NAMES = {"__and__": "and_", "__or__": "or_", "__div__": "truediv", "__idiv__": "itruediv"}

# No names for these, although a room does them as steps: their results here would be values.
_VALUES = frozenset({"__contains__", "__index__", "item", "numpy", "tolist"})


def _metadata_names() -> frozenset[str]:
    listed = read_list("torch")
    tensor = listed["classes"]["Tensor"]
    return frozenset(
        [f"torch.{name}" for name in listed["functions"]["metadata"]]
        + [f".{name}" for name in tensor["metadata_methods"]]
        + [f"@{name}" for name in tensor["metadata"]]
    )


METADATA_NAMES = _metadata_names()  # answered by the mock, and never recorded


def name_of_torch(function: Callable[..., Any]) -> str | None:
    """Return the wire name of a function that `__torch_function__` receives; None if it is refused.

    Names are `torch.nn.functional.linear`, `.add_`, `operator.getitem`, `@grad`, `@=grad`. Functions that
    would reveal a value here, such as `item` and `bool`, are refused too.
    """
    try:
        return _known[function]
    except KeyError:
        name = _known[function] = _name(function)
        return name


_known: dict[Any, str | None] = {}


def _name(function: Any) -> str | None:
    import torch

    allowed = _allowed()
    listed = allowed.name_of(function)
    if listed is not None:
        return listed
    name = getattr(function, "__name__", "")
    # torch passes a wrapper for `x ** 2` that has the name of the wrapped function
    if name in ("pow", "pow_"):
        wrapped = {torch.Tensor.__pow__: torch.Tensor.pow, torch.Tensor.__ipow__: torch.Tensor.pow_}
        function = wrapped.get(function, function)
    if name in ("__get__", "__set__"):
        of = getattr(function, "__self__", None)
        name = str(getattr(of, "__name__", None) or getattr(getattr(of, "fget", None), "__name__", ""))
        if function.__name__ == "__set__":
            return f"@={name}" if allowed.settable(torch.Tensor, name) else None
        return f"@{name}" if allowed.attribute(torch.Tensor, name) else None
    if name in _VALUES or getattr(torch.Tensor, name, None) is not function:
        return None
    if name.startswith("__"):
        operator = f"operator.{_OPERATOR_NAMES.get(name, name.strip('_'))}"
        if operator in _operators():
            return operator
    return f".{name}" if allowed.method(torch.Tensor, name) else None


@functools.cache
def _operators() -> frozenset[str]:
    lists = read_list("python")["functions"]
    return frozenset(name for names in lists.values() for name in names if name.startswith("operator."))


@functools.cache
def _allowed() -> Allowed:
    return Allowed(["python", "torch"])
