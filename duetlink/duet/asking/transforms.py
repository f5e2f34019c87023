"""torch.func and pointers: refused, since what it takes would be the mock.

`torch.func.grad`, `vmap` and their kin take a tensor apart in C++, below `__torch_function__`, and would
return plain tensors made from the mock without a word. All of them pass one of a few Python functions first.
These are replaced by ones that look for a pointer, once torch is used with pointers in this process.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import torch
import torch.autograd.forward_ad
from torch._C._functorch import peek_interpreter_stack
from torch._functorch import eager_transforms, predispatch, vmap

from duetlink.duet.asking.program import is_remote
from duetlink.errors import OperationRefused

_WHY = (
    "torch.func and torch.vmap would compute with the mock: use loss.backward() and .grad, write the "
    "operation for the whole batch, or submit a function with @duet.remote"
)
_PLACES = (
    (eager_transforms, "_wrap_for_grad"),
    (vmap, "_add_batch_dim"),
    (predispatch, "_add_batch_dim"),
    (torch.autograd.forward_ad, "make_dual"),
)


def refuse_pointers() -> None:
    """Have transforms of functions raise OperationRefused for a pointer. Calling it again changes nothing."""
    for module, name in _PLACES:
        enter = getattr(module, name, None)
        if enter is not None and not getattr(enter, "_knows_pointers", False):
            setattr(module, name, _guarded(enter))


def refuse_within() -> None:
    """Raise OperationRefused within a transform, whose tensors meet a pointer that its function holds."""
    if peek_interpreter_stack() is not None:
        raise OperationRefused(_WHY)


def _guarded(enter: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(enter)
    def guarded(tensor: Any, *arguments: Any, **keywords: Any) -> Any:
        if is_remote(tensor):
            raise OperationRefused(_WHY)
        return enter(tensor, *arguments, **keywords)

    guarded._knows_pointers = True  # type: ignore[attr-defined]
    return guarded
