"""The context `AsMocks`, in which torch treats pointers to tensors as plain tensors with their mocks' values.

Theory. torch asks the class of a tensor twice what to do: by `__torch_function__` in Python, and, below that
and below autograd, by `__torch_dispatch__` for each operation of a kernel. The first hook records the
operation and runs it within `AsMocks`, where both hooks are off. So the second is called only for operations
that bypass the first, such as `torch.tensor(x)`. These would take the mock for the data, and are refused.
"""

from __future__ import annotations

import sys
from typing import Any, NoReturn

from duetlink.errors import OperationRefused


class AsMocks:
    """A context that can be entered once; without torch it does nothing."""

    __slots__ = ("_parts",)

    def __enter__(self) -> None:
        torch = sys.modules.get("torch")
        self._parts: tuple[Any, ...] = ()
        if torch is not None:
            self._parts = torch._C._DisableTorchDispatch(), torch._C.DisableTorchFunctionSubclass()
        for part in self._parts:
            part.__enter__()

    def __exit__(self, *raised: object) -> None:
        for part in reversed(self._parts):
            part.__exit__(*raised)


def is_tensor(obj: Any) -> bool:
    """Return True for a tensor of torch. Does not import torch."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def refuse_dispatch(function: Any) -> NoReturn:
    """Raise OperationRefused for an operation on a mock that would not be recorded."""
    raise OperationRefused(
        f"torch would do {function} with the mock of a tensor at the owner, since what was called has no "
        "protocol for such tensors: use x.detach().clone() in place of torch.tensor(x)"
    )


def plain(mock: Any) -> Any:
    """Replace tensor pointers by plain tensors that share their memory, also in lists, tuples and dicts."""
    kind = type(mock)
    if kind is tuple or kind is list:
        return kind(map(plain, mock))
    if kind is dict:
        return {key: plain(part) for key, part in mock.items()}
    torch = sys.modules.get("torch")
    if torch is None or not hasattr(kind, "_is_remote") or not isinstance(mock, torch.Tensor):
        return mock
    with AsMocks():
        return torch.Tensor.as_subclass(mock.detach(), torch.Tensor)
