"""`duet.remote(obj)` places an object at the owner; `duet.fetch(obj)` brings one back.

Both take values, torch modules, estimators, and containers of pointers.
"""

from __future__ import annotations

import sys
from types import BuiltinFunctionType, FunctionType, MethodType, ModuleType
from typing import Any

from duetlink.compute.operations.sizes.mask import PUBLIC
from duetlink.duet.asking.functions.function import Function
from duetlink.duet.asking.functions.private_training import RemoteTraining
from duetlink.duet.asking.pointers.library import RemoteFunction, RemoteLibrary
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.pointers.result_requests import ResultRequests
from duetlink.duet.asking.recording.program import is_remote


def place(obj: Any, remote_session: RemoteSession) -> Any:
    """Return the counterpart of `obj` at the owner: see Duet.remote."""
    if isinstance(obj, ModuleType):
        remote_session.load()
        return RemoteLibrary(obj, remote_session)
    if is_remote(obj) or isinstance(obj, Function):
        return obj
    if isinstance(obj, (FunctionType, MethodType, BuiltinFunctionType)):
        remote_session.load()
        if remote_session.allowed.name_of(obj) is not None:
            return RemoteFunction(obj, remote_session)
        return Function(obj, remote_session)
    if hasattr(type(obj), "as_function"):  # looked up on the class: a frame may have a column of any name
        return RemoteTraining(obj, remote_session)
    program = remote_session.program()
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.nn.Module):
        from duetlink.duet.asking.pointers.tensor import place_module

        return place_module(program, obj)
    if type(obj) not in (dict, list, tuple) and (made := program.counterpart(obj)) is not obj:
        return made
    if torch is not None and isinstance(obj, torch.Tensor):
        from duetlink.duet.asking.pointers.tensor import place_tensor

        return place_tensor(program, obj)
    if _holds_pointers(obj):
        return program.call(f"builtins.{type(obj).__name__}", type(obj), (obj,), {})
    id_ = program.place(obj)
    return program.wrap(_own(obj), id_, PUBLIC)


def fetch(obj: Any, remote_session: RemoteSession, reason: str, timeout_s: float | None) -> Any:
    """Fetch all that the pointers in `obj` point to, by one request: see Duet.fetch."""
    torch = sys.modules.get("torch")
    if torch is not None and isinstance(obj, torch.nn.Module):
        from duetlink.duet.asking.pointers.tensor import fetched_module

        return fetched_module(obj, lambda state: fetch(state, remote_session, reason, timeout_s))
    if isinstance(obj, ResultRequests) or is_remote(obj):
        return obj.get(reason=reason, timeout_s=timeout_s)
    if isinstance(obj, (list, tuple)) and _holds_pointers(obj):
        fetched = remote_session.program().pointer_to_list(obj).get(reason=reason, timeout_s=timeout_s)
        return type(obj)(*fetched) if hasattr(obj, "_fields") else fetched  # a named tuple
    return place(obj, remote_session).get(reason=reason, timeout_s=timeout_s)


def _holds_pointers(obj: Any) -> bool:
    if type(obj) is dict:
        return any(_holds_pointers(part) or is_remote(part) for part in obj.values())
    if isinstance(obj, (list, tuple)):
        return any(_holds_pointers(part) or is_remote(part) for part in obj)
    return False


def _own(obj: Any) -> Any:
    """Return a copy: operations on the pointer must not change the caller's object."""
    for name in ("clone", "copy"):
        copy = getattr(obj, name, None)
        if callable(copy):
            return copy()
    return obj
