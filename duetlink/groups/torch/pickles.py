"""Keeps torch.distributed from unpickling data of a peer, unless this side allowed it.

A pickle runs code of its maker, and torch.distributed reads pickles in several places: in its object
collectives (`all_gather_object`, `broadcast_object_list`, …), in `PGTransport`, in
`ZeroRedundancyOptimizer.consolidate_state_dict`. Every unpickler of Python looks a name up before it runs
anything, and announces that to audit hooks as `pickle.find_class`; a pickle without names holds plain values.
So an audit hook raises an error there, in any thread, no matter which function of torch.distributed has
called the unpickler. This also covers places that a later torch adds. torch's own unpickler of weights
announces nothing; it knows only the classes of tensors, and those that this side has registered with it.

Object collectives are also refused before they send anything.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable
from types import FrameType
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from duetlink.errors import GroupError

_PLACES = ("_object_to_tensor", "_tensor_to_object")

# Modules that unpickle on behalf of their caller.
_UNPICKLERS = ("pickle", "torch.serialization")

_DISTRIBUTED = "torch.distributed."

# Modules that read pickles which do not come through a process group: RPC has connections of its own, on
# which ranks call each other's functions, and the others read files of this machine.
_NO_GROUPS = tuple(
    _DISTRIBUTED + name
    for name in (
        "rpc.internal",
        "checkpoint.default_planner",
        "checkpoint.filesystem",
        "checkpoint.format_utils",
        "checkpoint._experimental.checkpoint_reader",
        "_tools.memory_tracker",
        "flight_recorder.components.loader",
    )
)


def guard(needs_consent: Callable[[Any], bool], groups: Callable[[], Iterable[Any]]) -> None:
    """Refuse pickles of torch.distributed from now on in groups for which `needs_consent(group)` is True.

    If it cannot be seen for which group a function unpickles, all of `groups()` are checked. Python keeps an
    audit hook for the rest of the process, so this is called once.

    Raises:
        GroupError: this release of torch implements object collectives differently.
    """
    for name in _PLACES:
        function = getattr(distributed_c10d, name, None)
        if function is None:
            raise GroupError(
                f"torch has no distributed_c10d.{name}, so its object collectives cannot be kept from "
                "sending pickles: use a release that duetlink is tested with, such as 2.13"
            )
        setattr(distributed_c10d, name, _asked(function, needs_consent))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event != "pickle.find_class":
            return
        frame = _caller(sys._getframe(1))
        if frame is None:
            return
        for group in _groups_of(frame) or groups():
            if needs_consent(group):
                raise _refusal(f"{frame.f_globals['__name__']}.{frame.f_code.co_name}")

    sys.addaudithook(hook)


def _caller(frame: FrameType | None) -> FrameType | None:
    """Return the frame of torch.distributed that called the unpickler.

    None if it was called from elsewhere, or from a module whose pickles do not come through a group.
    """
    while frame is not None and frame.f_globals.get("__name__") in _UNPICKLERS:
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return frame if f"{name}.".startswith(_DISTRIBUTED) and name not in _NO_GROUPS else None


def _groups_of(frame: FrameType) -> list[Any]:
    """Return the process groups among a function's local variables and the attributes of its `self`."""
    found = list(frame.f_locals.values())
    found += getattr(frame.f_locals.get("self"), "__dict__", {}).values()
    return [one for one in found if isinstance(one, dist.ProcessGroup)]


def _asked(function: Callable[..., Any], needs_consent: Callable[[Any], bool]) -> Callable[..., Any]:
    @functools.wraps(function)
    def asked(value: Any, second: Any, group: Any) -> Any:
        whole = group if group is not None else dist.distributed_c10d._get_default_group()
        if needs_consent(whole):
            raise _refusal("an object collective")
        return function(value, second, whole)

    return asked


def _refusal(place: str) -> GroupError:
    return GroupError(
        f"{place} unpickles what other ranks send, and a pickle runs code of its maker. "
        "If all ranks are yours, allow it: init_process_group(..., "
        "pg_options=Options(allow_pickle=True)) or DUETLINK_ALLOW_PICKLE=1. Else send tensors"
    )
