"""`CopyStream`: what this package needs of a device, and who makes one for a tensor."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class CopyStream(Protocol):
    """Copies between one device and pinned memory, in the order of the calls, beside the caller's own work.

    It is made on the caller's thread, and its copies begin when the work that is on the caller's current
    stream at that moment has ended. Afterwards any thread may use it, one at a time. Tensors may be dropped
    while they are copied: their memory is not used again before the copy has ended.
    """

    # the device whose streams torch's futures are to order; None if torch does not order them
    future_device: torch.device | None

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return a contiguous tensor of undefined content in memory that the device can copy from and to."""

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Return a contiguous tensor of undefined content on the device, for use on the caller's stream."""

    def to_host(self, source: Tensor, target: Tensor) -> None:
        """Begin to copy a tensor of the device into a pinned one."""

    def from_host(self, source: Tensor, target: Tensor) -> None:
        """Begin to copy a pinned tensor into one of the device."""

    def record(self) -> Any:
        """Return an event that happens when the copies so far have ended."""

    def wait(self, event: Any) -> None:
        """Block this thread until the event has happened; other work of the device goes on."""

    def join(self, event: Any) -> None:
        """Make later work wait for the event, on the caller's stream and on this thread's current one."""


def _cuda(device: torch.device) -> CopyStream:
    from duetlink.data.accelerators.cuda import CudaCopyStream

    return CudaCopyStream(device)


# by the type of a device
makers: dict[str, Callable[[Any], CopyStream]] = {"cuda": _cuda}


def on_accelerator(value: object) -> bool:
    """Return True for a dense tensor that a copy stream can copy. Does not import torch."""
    torch = sys.modules.get("torch")
    if torch is None or not isinstance(value, torch.Tensor) or value.device.type not in makers:
        return False
    return value.layout is torch.strided and not (value.is_quantized or value.is_nested)
