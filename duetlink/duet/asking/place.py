"""`duet.remote(obj)` and `duet.fetch(obj)`: there and back, for values, models, estimators, and what holds
pointers.
"""

from __future__ import annotations

import sys
from types import FunctionType, MethodType, ModuleType
from typing import Any

from duetlink.duet.asking.asked import Asked
from duetlink.duet.asking.function import Function
from duetlink.duet.asking.library import RemoteFunction, RemoteLibrary
from duetlink.duet.asking.program import is_remote
from duetlink.duet.asking.workbench import Workbench
from duetlink.errors import OperationRefused


def place(obj: Any, workbench: Workbench) -> Any:
    """The counterpart of `obj` at the owner: see Duet.remote."""
    if isinstance(obj, ModuleType):
        workbench.load()
        return RemoteLibrary(obj, workbench)
    if is_remote(obj) or isinstance(obj, Function):
        return obj
    if isinstance(obj, (FunctionType, MethodType)):
        workbench.load()
        if workbench.allowed.name_of(obj) is not None:
            return RemoteFunction(obj, workbench)
        return Function(obj, workbench)
    program = workbench.program()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.nn.Module):
        from duetlink.duet.asking.tensor import place_module

        return place_module(program, obj)
    if hasattr(obj, "get_params") and not isinstance(obj, type):
        workbench.load()  # its library may have been imported after the first operation
        name = program.allowed.name_of(type(obj))
        if name is None:
            raise OperationRefused(f"{type(obj).__name__} is in no list of what may be made at the owner")
        parameters = obj.get_params(deep=False)
        return program.call(
            name, type(obj), (), {key: _nested(value, workbench) for key, value in parameters.items()}
        )
    if _holds_pointers(obj):
        return program.call(f"builtins.{type(obj).__name__}", type(obj), (obj,), {})
    id_ = program.place(obj)
    return program.wrap(_own(obj), id_)


def fetch(obj: Any, workbench: Workbench, reason: str, timeout_s: float | None) -> Any:
    """What the pointers in `obj` point to, by one request: see Duet.fetch."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.nn.Module):
        from duetlink.duet.asking.tensor import fetched_module

        return fetched_module(obj, lambda state: fetch(state, workbench, reason, timeout_s))
    if isinstance(obj, Asked) or is_remote(obj):
        return obj.get(reason=reason, timeout_s=timeout_s)
    return place(obj, workbench).get(reason=reason, timeout_s=timeout_s)


def _nested(value: Any, workbench: Workbench) -> Any:
    """A parameter of an estimator: another one goes to the owner as well."""
    if hasattr(value, "get_params") and not isinstance(value, type):
        return place(value, workbench)
    if isinstance(value, list):
        return [_nested(part, workbench) for part in value]
    if isinstance(value, tuple):
        return tuple(_nested(part, workbench) for part in value)
    return value


def _holds_pointers(obj: Any) -> bool:
    if type(obj) is dict:
        return any(_holds_pointers(part) or is_remote(part) for part in obj.values())
    if type(obj) in (list, tuple):
        return any(_holds_pointers(part) or is_remote(part) for part in obj)
    return False


def _own(obj: Any) -> Any:
    """A copy, as what is done to the pointer must not change what its maker has."""
    for name in ("clone", "copy"):
        copy = getattr(obj, name, None)
        if callable(copy):
            return copy()
    return obj
