"""Within `AsMocks()`, tensors at the owner are to torch what their mocks are.

Theory. torch asks a tensor's class twice what to do with it: by `__torch_function__` in Python, and, beneath
that and autograd, by `__torch_dispatch__` for each operation of its kernel. The first records the operation,
and does it within `AsMocks`. The second therefore sees only what did not come by the first, such as
`torch.tensor(x)`, which has no protocol. It would take the mock for the data, and is refused.
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
    """Whether it is a tensor of torch, which need not be imported."""
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(obj, torch.Tensor)


def refuse_dispatch(function: Any) -> NoReturn:
    """Refuse what torch is about to do with the mock of a tensor at the owner, without a step."""
    raise OperationRefused(
        f"torch would do {function} with the mock of a tensor at the owner, since what was called has no "
        "protocol for such tensors: use x.detach().clone() in place of torch.tensor(x)"
    )


def plain(mock: Any) -> Any:
    """The same with plain tensors, which share memory, in place of tensors at the owner."""
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
