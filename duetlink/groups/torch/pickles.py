"""Keeps torch.distributed from unpickling what a peer has sent, unless this side allowed it.

A pickle runs code of whoever made it, and torch.distributed reads pickles in several places: in its object
collectives (`all_gather_object`, `broadcast_object_list`, …), in `PGTransport`, in
`ZeroRedundancyOptimizer.consolidate_state_dict`. Every unpickler of Python looks a name up before it runs
anything, and announces that to audit hooks as `pickle.find_class`; a pickle without names holds plain values.
So an audit hook refuses there, whichever function of torch.distributed has called the unpickler, in any
thread: a place that a later torch adds is guarded too. torch's own unpickler of weights announces nothing; it
knows only the classes of tensors, and those that this side has named to it.

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

# They unpickle for whoever has called them.
_UNPICKLERS = ("pickle", "torch.serialization")

_DISTRIBUTED = "torch.distributed."

# What these read is no group's: RPC has links of its own, on which ranks call each other's functions, and the
# others read files of this machine.
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
    """From here on, ask `needs_consent(group)` before an object becomes a pickle or a pickle an object.

    Where the function that unpickles does not show which group it works for, all of `groups()` are asked.
    Python keeps an audit hook for the rest of the process, so this is called once.

    Raises:
        GroupError: in this release of torch, object collectives work differently.
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
    """The frame of torch.distributed for which an unpickler works, if it is one that a group delivers to."""
    while frame is not None and frame.f_globals.get("__name__") in _UNPICKLERS:
        frame = frame.f_back
    name = "" if frame is None else str(frame.f_globals.get("__name__", ""))
    return frame if f"{name}.".startswith(_DISTRIBUTED) and name not in _NO_GROUPS else None


def _groups_of(frame: FrameType) -> list[Any]:
    """The process groups among the variables of a function, and of the object that it belongs to."""
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
