"""Copies from and to CUDA devices. Without one, the tests run this on a fake that stands behind `torch.cuda`.

Theory. torch's current stream belongs to a thread, so the caller's is taken in the constructor. The side
stream waits for it by an event, and the caller's later work waits for the copies by another (`join`): the
device orders both, and no call waits for the whole device. The CPU has to wait for an event itself (`wait`)
before it reads what was copied: an order between streams says nothing about the CPU. Pinned memory is from
torch's caching allocator, and memory of the device from that of the caller's stream; both note the side
stream's use, so that dropped memory is used again only after its copies.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


class CudaCopyStream:
    def __init__(self, device: torch.device) -> None:
        self.future_device: torch.device | None = device
        self._callers = torch.cuda.current_stream(device)
        self._side = torch.cuda.Stream(device)  # one of 32 that torch hands out in turn
        self._side.wait_stream(self._callers)

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return torch.empty(tuple(shape), dtype=dtype, pin_memory=True)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        with torch.cuda.stream(self._callers):
            found = torch.empty(tuple(shape), dtype=dtype, device=self._side.device)
        # the allocator may return memory that work on the caller's stream still uses
        self._side.wait_stream(self._callers)
        return found

    def to_host(self, source: Tensor, target: Tensor) -> None:
        with torch.cuda.stream(self._side), torch.no_grad():
            # a conjugate is resolved on the device: the CPU would do it before the copy has ended
            target.copy_(source.resolve_conj().resolve_neg(), non_blocking=True)
        source.record_stream(self._side)

    def from_host(self, source: Tensor, target: Tensor) -> None:
        with torch.cuda.stream(self._side), torch.no_grad():
            target.copy_(source, non_blocking=True)
        target.record_stream(self._side)

    def record(self) -> torch.cuda.Event:
        event = torch.cuda.Event(blocking=True)  # `synchronize` sleeps, it does not spin
        event.record(self._side)
        return event

    def wait(self, event: torch.cuda.Event) -> None:
        event.synchronize()

    def join(self, event: torch.cuda.Event) -> None:
        for stream in {self._callers, torch.cuda.current_stream(self._side.device)}:
            stream.wait_event(event)
