"""torch.func and pointers: refused, since what it takes would be the mock.

`torch.func.grad`, `vmap` and their kin (and `torch.vmap`) take a tensor apart in C++, below
`__torch_function__`, and would return plain tensors made from the mock without a word. Before that, each of
them flattens its arguments by torch's pytree, which asks here how to flatten a pointer. Checkpoints flatten
their arguments as well, and may.
"""

from __future__ import annotations

import sys
from types import FrameType
from typing import Any, NoReturn

from torch._C._functorch import peek_interpreter_stack
from torch.utils import _pytree

from duetlink.errors import OperationRefused


class _Whole:
    """A pointer among the leaves of a tree, where it is not to be taken for a tensor."""

    def __init__(self, pointer: Any) -> None:
        self.pointer = pointer


def refuse_pointers(kind: type) -> None:
    """Have transforms of functions raise OperationRefused for a `kind`. To be called once."""
    _pytree.register_pytree_node(kind, _flattened, _unflattened)


def refuse_within() -> None:
    """Raise OperationRefused within a transform, whose tensors meet a pointer that its function holds."""
    if peek_interpreter_stack() is not None:
        _refuse()


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
