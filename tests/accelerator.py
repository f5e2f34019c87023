"""Devices for tests: fake ones, which do everything as late as they may, and CUDA where there is one.

A fake device executes nothing until the CPU waits for an event; then it executes what that event depends on,
and no more. Host memory and new memory of the device hold poison until a copy into them is executed. So a
missing wait gives a wrong result every time, with any timing. Its tensors can be looked at and cut, and used
in no other way outside its streams.
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
        self.home.current.put(lambda: self.memory.mul_(factor))
        return self

    def copy_(self, source: Any, non_blocking: bool = False) -> Self:
        self.home.copy(source, self.memory, self.memory, non_blocking)
        return self

    def record_stream(self, stream: FakeStream) -> None:  # type: ignore[override]
        self.home.unrecorded.discard((self.memory.data_ptr(), stream))

    @classmethod
    def __torch_dispatch__(cls, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:  # type: ignore[override]
        name = function.overloadpacket.__name__
        if name == "copy_":
            target, source, *non_blocking = args
            source.home.copy(source.memory, target, source.memory, non_blocking == [True])
            return target
        assert name in _VIEWS, f"{name} of a tensor on the device, outside its streams"
        (home,) = {each.home for each in tree_leaves(args) if isinstance(each, cls)}
        inside = tree_map(lambda each: each.memory if isinstance(each, cls) else each, (args, kwargs or {}))
        found = function(*inside[0], **inside[1])
        return tree_map(lambda each: cls(each, home) if isinstance(each, Tensor) else each, found)


class FakeEvent:
    """An event of a `FakeStream`; as with torch's, recorded after it was made."""

    def __init__(self, home: FakeDevice) -> None:
        self.home = home
        self.stream: FakeStream | None = None
        self.happened = False

    def record(self, stream: FakeStream) -> None:
        self.stream = stream
        stream.work.append(self)

    def synchronize(self) -> None:
        self.home.released.wait()
        with self.home.lock:
            if self.home.error is not None:
                raise self.home.error
            self.execute()

    def execute(self) -> None:
        """Execute what the event depends on."""
        assert self.stream is not None
        while not self.happened:
            self.stream.execute_next()


class FakeStream:
    """Work in order, not yet executed: functions, events of this stream, and those of others to wait for."""

    def __init__(self, home: FakeDevice) -> None:
        self.home = home
        self.device = torch.device("cuda:0")
        self.work: deque[FakeEvent | Callable[[], object]] = deque()

    def put(self, work: Callable[[], object]) -> None:
        self.work.append(work)

    def record(self) -> FakeEvent:
        event = FakeEvent(self.home)
        event.record(self)
        return event

    def wait_event(self, event: FakeEvent) -> None:
        self.put(event.execute)

    def wait_stream(self, other: FakeStream) -> None:
        self.wait_event(other.record())

    def execute_next(self) -> None:
        work = self.work.popleft()
        if isinstance(work, FakeEvent):
            work.happened = True
        else:
            work()


class FakeDevice:
    """One device. Its current stream belongs to a thread, as torch's does."""

    def __init__(self) -> None:
        self.error: Exception | None = None  # raised where the CPU waits
        self.released = threading.Event()  # cleared, the CPU waits for ever
        self.released.set()
        self.lock = threading.RLock()
        # tensors and side streams whose use the allocator does not know
        self.unrecorded: set[tuple[int, FakeStream]] = set()
        self._local = threading.local()
        self._default = FakeStream(self)

    @property
    def current(self) -> FakeStream:
        found: FakeStream = getattr(self._local, "stream", self._default)
        return found

    @contextlib.contextmanager
    def on(self, stream: FakeStream) -> Iterator[None]:
        """Make a stream this thread's current one."""
        before = self.current
        self._local.stream = stream
        try:
            yield
        finally:
            self._local.stream = before

    def own_stream(self) -> contextlib.AbstractContextManager[None]:
        """Let this thread work on a stream of its own."""
        return self.on(FakeStream(self))

    def copy(self, source: Tensor, target: Tensor, memory: Tensor, non_blocking: bool) -> None:
        """Put a copy on the current stream; `memory` is the device's tensor of the two."""
        assert non_blocking, "a copy that waits for the device"
        self.unrecorded.add((memory.data_ptr(), self.current))
        self.current.put(lambda: target.copy_(source))

    def tensor(self, content: Tensor) -> Tensor:
        return FakeTensor(content.clone(memory_format=torch.preserve_format), self)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        """Allocate for the current stream. What the memory was used for before is still to be executed."""
        found = FakeTensor(poisoned(shape, dtype), self)
        self.current.put(lambda: found.memory.copy_(poisoned(shape, dtype)))
        return found

    def later(self, tensor: Any, content: Tensor) -> None:
        """Put work on the current stream that gives the tensor a content."""
        self.current.put(lambda: tensor.memory.copy_(content))

    def read(self, tensor: Any) -> Tensor:
        """Return the content as work on the current stream would see it now."""
        assert tensor.device.type == "cuda"
        assert not self.unrecorded
        with self.lock:
            self.current.record().execute()
        found: Tensor = tensor.memory.clone()
        return found

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))  # dist.broadcast asks
        monkeypatch.setitem(copy_stream.makers, "cuda", lambda device: FakeCopyStream(self))


class FakeCopyStream:
    def __init__(self, home: FakeDevice) -> None:
        self.future_device: torch.device | None = None
        self._home = home
        self._callers, self._side = home.current, FakeStream(home)
        self._side.wait_stream(self._callers)

    def pinned(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return poisoned(shape, dtype)

    def empty(self, shape: Sequence[int], dtype: torch.dtype) -> Tensor:
        return FakeTensor(poisoned(shape, dtype), self._home)

    def to_host(self, source: Any, target: Tensor) -> None:
        self._side.put(lambda: target.copy_(source.memory))

    def from_host(self, source: Tensor, target: Any) -> None:
        self._side.put(lambda: target.memory.copy_(source))

    def record(self) -> FakeEvent:
        return self._side.record()

    def wait(self, event: FakeEvent) -> None:
        event.synchronize()

    def join(self, event: FakeEvent) -> None:
        for stream in {self._callers, self._home.current}:
            stream.wait_event(event)


class SimulatedCuda(FakeDevice):
    """The fake device behind torch's own functions for CUDA, so that `CudaCopyStream` runs without a GPU."""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        real = torch.empty

        def empty(*args: Any, pin_memory: bool = False, device: Any = None, **kwargs: Any) -> Any:
            if pin_memory:
                return poisoned(*args, **kwargs)
            if device is None or torch.device(device).type != "cuda":
                return real(*args, device=device, **kwargs)
            return self.empty(*args, **kwargs)

        monkeypatch.setattr(torch, "empty", empty)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: (9, 0))
        monkeypatch.setattr(torch.cuda, "current_stream", lambda device: self.current)
        monkeypatch.setattr(torch.cuda, "stream", self.on)
        monkeypatch.setattr(torch.cuda, "Stream", lambda device: FakeStream(self))
        monkeypatch.setattr(torch.cuda, "Event", lambda *, blocking: FakeEvent(self))


def poisoned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    found = torch.empty(tuple(shape), dtype=dtype)
    found.view(-1).view(torch.uint8).fill_(0xAB) if found.numel() else None
    return found


class CudaDevice:
    """The same for the current device of torch."""

    def install(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pass

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


# lists that the machine decides, as tests may not be skipped
GPUS: list[Callable[[], Any]] = [CudaDevice] if torch.cuda.is_available() else []
DEVICES: list[Callable[[], Any]] = [FakeDevice, SimulatedCuda, *GPUS]


def installed(make: Callable[[], Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a device of that kind; until the test ends, a fake one takes the place of CUDA."""
    device = make()
    device.install(monkeypatch)
    return device
