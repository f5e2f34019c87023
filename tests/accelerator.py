"""Devices for tests: a fake one, whose copies happen as late as they may, and CUDA where there is one.

The fake executes nothing until the CPU waits for an event; then it executes what that event depends on, and
no more. Host memory and new memory of the device hold poison until a copy into them is executed. So a missing
wait gives a wrong result every time, with any timing. Its tensors can be looked at and cut, and used in no
other way outside its streams.
"""

from __future__ import annotations

import contextlib
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Self

import pytest
import torch
from torch import Tensor
from torch.utils._pytree import tree_leaves, tree_map

from duetlink.data.accelerators import copy_stream

_VIEWS = {"alias", "as_strided", "detach", "expand", "permute", "select", "slice", "split", "t", "transpose"}
_VIEWS |= {"unsqueeze", "view", "_conj", "_neg_view"}


class FakeTensor(torch.Tensor):
    """A tensor that says it is on CUDA; its memory is a tensor on the CPU."""

    memory: Tensor
    home: FakeDevice

    @staticmethod
    def __new__(cls, memory: Tensor, home: FakeDevice) -> Self:
        make: Any = torch.Tensor._make_wrapper_subclass
        made: Self = make(cls, memory.shape, strides=memory.stride(), dtype=memory.dtype, device="cuda:0")
        made.memory, made.home = memory, home
        return made

    def __repr__(self, **kwargs: Any) -> str:  # type: ignore[override]
        return f"FakeTensor{list(self.shape)}"

    def mul_(self, factor: Any) -> Self:
        self.home.current.work.append(("run", lambda: self.memory.mul_(factor)))
        return self

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        name = function.overloadpacket.__name__
        assert name in _VIEWS, f"{name} of a tensor on the device, outside its streams"
        (home,) = {each.home for each in tree_leaves(args) if isinstance(each, cls)}
        inside = tree_map(lambda each: each.memory if isinstance(each, cls) else each, (args, kwargs or {}))
        found = function(*inside[0], **inside[1])
        return tree_map(lambda each: cls(each, home) if isinstance(each, Tensor) else each, found)


class FakeEvent:
    def __init__(self, stream: FakeStream) -> None:
        self.stream = stream
        self.happened = False
        self.error: Exception | None = None


class FakeStream:
    """Work in order, not yet executed: functions, and events that happen, or that have to happen before."""

    def __init__(self) -> None:
        self.work: deque[tuple[str, Any]] = deque()

    def record(self) -> FakeEvent:
        event = FakeEvent(self)
        self.work.append(("record", event))
        return event

    def wait_event(self, event: FakeEvent) -> None:
        self.work.append(("wait", event))

    def run_until(self, event: FakeEvent) -> None:
        while not event.happened:
            kind, what = self.work.popleft()
            if kind == "wait":
                what.stream.run_until(what)
            elif kind == "record":
                what.happened = True
            else:
                what()


class FakeDevice:
    """One device. Its current stream belongs to a thread, as torch's does."""

    def __init__(self) -> None:
        self.error: Exception | None = None  # raised where the CPU waits
        self.lock = threading.RLock()
        self._local = threading.local()
        self._default = FakeStream()

    @property
    def current(self) -> FakeStream:
        found: FakeStream = getattr(self._local, "stream", self._default)
        return found

    @contextlib.contextmanager
    def own_stream(self) -> Iterator[None]:
        """Let this thread work on a stream of its own."""
        self._local.stream = FakeStream()
        try:
            yield
        finally:
            del self._local.stream

    def tensor(self, content: Tensor) -> Tensor:
        return FakeTensor(content.clone(memory_format=torch.preserve_format), self)

    def later(self, tensor: Any, content: Tensor) -> None:
        """Put work on the current stream that gives the tensor a content."""
        self.current.work.append(("run", lambda: tensor.memory.copy_(content)))

    def read(self, tensor: Any) -> Tensor:
        """Return the content as work on the current stream would see it now."""
        assert tensor.device.type == "cuda"
        with self.lock:
            self.current.run_until(self.current.record())
        found: Tensor = tensor.memory.clone()
        return found

    def copy_stream(self, device: torch.device) -> FakeCopyStream:
        return FakeCopyStream(self)


class FakeCopyStream:
    def __init__(self, device: FakeDevice) -> None:
        self.future_device: torch.device | None = None
        self._device = device
        self._callers, self._side = device.current, FakeStream()
        self._side.wait_event(self._callers.record())

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return poisoned(shape, dtype)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return FakeTensor(poisoned(shape, dtype), self._device)

    def to_host(self, source: Any, target: Tensor) -> None:
        self._copy(source.memory, target)

    def from_host(self, source: Tensor, target: Any) -> None:
        self._copy(source, target.memory)

    def _copy(self, source: Tensor, target: Tensor) -> None:
        self._side.work.append(("run", lambda: target.copy_(source)))

    def record(self) -> FakeEvent:
        return self._side.record()

    def wait(self, event: FakeEvent) -> None:
        with self._device.lock:
            if self._device.error is not None:
                raise self._device.error
            event.stream.run_until(event)

    def join(self, event: FakeEvent) -> None:
        for stream in {self._callers, self._device.current}:
            stream.wait_event(event)


def poisoned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    found = torch.empty(tuple(shape), dtype=dtype)
    found.view(-1).view(torch.uint8).fill_(0xAB) if found.numel() else None
    return found


class CudaDevice:
    """The same for the current device of torch."""

    error: Exception | None = None

    @contextlib.contextmanager
    def own_stream(self) -> Iterator[None]:
        with torch.cuda.stream(torch.cuda.Stream()):
            yield

    def tensor(self, content: Tensor) -> Tensor:
        return content.to("cuda")

    def later(self, tensor: Tensor, content: Tensor) -> None:
        there = content.to("cuda")
        torch.cuda._sleep(50_000_000)  # cycles, so that this work has not ended when it is waited for
        tensor.copy_(there)

    def read(self, tensor: Tensor) -> Tensor:
        assert tensor.device.type == "cuda"
        return tensor.cpu()


# a list that the machine decides, as tests may not be skipped
DEVICES: list[Callable[[], Any]] = [FakeDevice, *([CudaDevice] if torch.cuda.is_available() else [])]


def installed(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a device of that kind; until the test ends, the fake one takes the place of CUDA."""
    device = make()
    if isinstance(device, FakeDevice):
        monkeypatch.setitem(copy_stream.makers, "cuda", device.copy_stream)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))  # dist.broadcast asks
    return device
