"""Keeps torch from unpickling what a peer has sent, unless this side allowed it.

torch's object collectives (`all_gather_object`, `broadcast_object_list`, …) move pickles, and a pickle is
code of whoever made it. They make and read them in two functions of theirs, which know the group: there the
question is asked, before anything is sent and before anything is read.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch.distributed as dist
from torch.distributed import distributed_c10d

from duetlink.errors import GroupError

_PLACES = ("_object_to_tensor", "_tensor_to_object")


def guard(needs_consent: Callable[[Any], bool]) -> None:
    """From here on, ask `needs_consent(group)` before an object becomes a pickle or a pickle an object.

    Raises:
        GroupError: this release of torch does it elsewhere, so that it cannot be guarded.
    """
    for name in _PLACES:
        function = getattr(distributed_c10d, name, None)
        if function is None:
            raise GroupError(
                f"torch has no distributed_c10d.{name}, so its object collectives cannot be kept from "
                "unpickling what a peer sends: use a release that duetlink is tested with, such as 2.13"
            )
        if not hasattr(function, "__wrapped__"):
            setattr(distributed_c10d, name, _asked(function, needs_consent))


def _asked(function: Callable[..., Any], needs_consent: Callable[[Any], bool]) -> Callable[..., Any]:
    @functools.wraps(function)
    def asked(value: Any, second: Any, group: Any) -> Any:
        whole = group if group is not None else dist.distributed_c10d._get_default_group()
        if needs_consent(whole):
            raise GroupError(
                "object collectives unpickle what other ranks send, and a pickle runs code of its maker. "
                "If all ranks are yours, allow it: init_process_group(..., "
                "pg_options=Options(allow_pickle=True)) or DUETLINK_ALLOW_PICKLE=1. Else send tensors"
            )
        return function(value, second, group)

    return asked
