"""Refuses pointers in torch.func, which would compute with the mock.

`torch.func.grad`, `vmap` and similar transforms unwrap a tensor in C++, below `__torch_function__`, and would
silently return plain tensors computed from the mock. Before that, each of them flattens its arguments by
torch's pytree, which calls the function registered here for pointers. That function raises if a transform
calls it. Checkpoints flatten their arguments too, and are permitted.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NoReturn

import torch
from torch._C._functorch import peek_interpreter_stack
from torch.utils import _pytree

from duetlink.errors import OperationRefused

_APPLY = vars(torch.autograd.Function)["apply"].__func__.__code__


class _Whole:
    """A wrapper that keeps pytree users from treating a pointer as a tensor."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer


def refuse_pointers(kind: type) -> None:
    """Make torch's function transforms raise OperationRefused for pointers of type `kind`. Call it once."""
    _pytree.register_pytree_node(kind, _flattened, _unflattened)


def refuse_within() -> None:
    """Raise OperationRefused inside a transform whose function uses a pointer from its surroundings."""
    if peek_interpreter_stack() is not None:
        _refuse()


def refuse_within_function() -> None:
    """Raise OperationRefused inside the `forward` of an `autograd.Function` whose inputs require gradients.

    The owner has only the steps of `forward`, not the custom `backward`, and would compute other gradients.
    To be called only when gradients are off, as they are inside such a `forward`.
    """
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_code is _APPLY and any(
            getattr(argument, "requires_grad", False) for argument in frame.f_locals["args"]
        ):
            refuse_code_in_backward("apply")
        frame = frame.f_back


def refuse_code_in_backward(called: str) -> NoReturn:
    """Raise OperationRefused for `called`, which would run code of this side on gradients."""
    raise OperationRefused(
        f"{called}: an autograd.Function or a hook runs code of this side on gradients, which only the owner "
        "has: write what it does with torch's own operations, whose gradients torch knows (checkpoint takes "
        "use_reentrant=False); change gradients after loss.backward(), by .grad; or submit a function with "
        "@duet.remote"
    )


def _flattened(pointer: Any) -> tuple[list[Any], None]:
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        if frame.f_globals.get("__name__", "").startswith("torch._functorch"):
            _refuse()
        frame = frame.f_back
    return [_Whole(pointer)], None


def _unflattened(leaves: Any, context: None) -> Any:
    (leaf,) = leaves
    return leaf.pointer if isinstance(leaf, _Whole) else leaf


def _refuse() -> NoReturn:
    raise OperationRefused(
        "torch.func and torch.vmap would compute with the mock: use loss.backward() and .grad, or "
        "torch.autograd.functional; write the operation for the whole batch; or submit a function with "
        "@duet.remote"
    )
