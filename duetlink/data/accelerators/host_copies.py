"""`HostCopies`: the tensors of one call that are on accelerators, as tensors in pinned memory, and back.

    copies = HostCopies()
    given = copies.to_host(value)      on the caller's thread: host copies in place of tensors on accelerators
    await copies.arrived()             before anything reads `given`
    ...                                the operation, on the CPU
    found = await copies.to_device(found, given)
    copies.join()                      on the thread that goes on with what was found

Copies are cut into pieces, so that those of a small call need not wait for the whole of a large one. An
operation begins when all pieces have arrived, as its first step needs the whole array.
"""

from __future__ import annotations

import asyncio
import sys
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from duetlink.base.runtime.off_loop import off_loop
from duetlink.data.accelerators.copy_stream import CopyStream, makers, on_accelerator

if TYPE_CHECKING:
    import torch
    from torch import Tensor

# large enough that starting a copy takes a small part of the time of the copy
PIECE_BYTES = 4 * 1024 * 1024
_MAX_DEPTH = 32  # values nested deeper are refused by those that read them


class _Pair(NamedTuple):
    host: Any  # kept alive, as it is found by its id
    original: Any
    stream: CopyStream | None  # only a tensor has one; a dict, list or tuple that contains some has None


class HostCopies:
    """Made on the caller's thread; afterwards used on any, by one at a time.

    Tensors on the CPU, and those of devices for which there is no copy stream, are left as they are.
    """

    def __init__(self) -> None:
        self._streams: dict[torch.device, CopyStream] = {}
        self._pairs: dict[int, _Pair] = {}  # by the id of the host copy
        self._arriving: list[tuple[CopyStream, Any]] = []  # with the event after each piece
        self._sent: list[tuple[CopyStream, Any]] = []  # with the event after the last piece of a tensor

    def __bool__(self) -> bool:
        """True if there are host copies."""
        return bool(self._pairs)

    @property
    def future_devices(self) -> list[int | str | torch.device]:
        """The devices of the call's tensors, as an argument of `torch.futures.Future`."""
        devices = [stream.future_device for stream in self._streams.values()]
        return [device for device in devices if device is not None]

    # -- to the host -----------------------------------------------------------------------------------------

    def to_host(self, value: Any, *, fill: bool = True) -> Any:
        """Return the value with host copies in place of its tensors on accelerators, which begin to arrive.

        It looks into dicts, lists and tuples. A value without such tensors is returned itself. Without
        `fill`, host copies have undefined content. Call it on the thread whose work made the tensors.
        """
        return self._to_host(value, fill, 0)

    def _to_host(self, value: Any, fill: bool, depth: int) -> Any:
        if on_accelerator(value):
            return self._copy(value, fill)
        if depth > _MAX_DEPTH:
            return value
        found: Any
        if isinstance(value, Mapping):
            found = {key: self._to_host(each, fill, depth + 1) for key, each in value.items()}
            if all(found[key] is each for key, each in value.items()):
                return value
        elif isinstance(value, list | tuple):
            found = [self._to_host(each, fill, depth + 1) for each in value]
            if all(host is each for host, each in zip(found, value, strict=True)):
                return value
            found = tuple(found) if isinstance(value, tuple) else found
        else:
            return value
        self._pairs[id(found)] = _Pair(found, value, None)
        return found

    def _copy(self, tensor: Tensor, fill: bool) -> Tensor:
        stream = self._stream(tensor.device)
        host = stream.pinned(tensor.shape, tensor.dtype)
        self._pairs[id(host)] = _Pair(host, tensor, stream)
        if fill:
            for there, here in _pieces(tensor, host):
                stream.to_host(there, here)
                self._arriving.append((stream, stream.record()))
        return host

    def _stream(self, device: torch.device) -> CopyStream:
        if device not in self._streams:
            self._streams[device] = makers[device.type](device)
        return self._streams[device]

    async def arrived(self) -> None:
        """Wait until all host copies hold what the tensors held. Raises what the device raises."""
        if self._arriving:
            await asyncio.to_thread(self.wait_arrived)

    def wait_arrived(self) -> None:
        """Block this thread until all host copies hold what the tensors held. Raises the device's errors."""
        for stream, event in self._arriving:
            stream.wait(event)
        self._arriving = []

    # -- to the devices --------------------------------------------------------------------------------------

    async def write(self, value: Any) -> None:
        """Write the host copies in a value that `to_host` returned back into the caller's tensors."""
        if not self:
            return
        pairs = list(self._within(value))
        await off_loop(sum(pair.host.nbytes for pair in pairs), self._write, pairs)

    def _write(self, pairs: Sequence[_Pair]) -> None:
        for host, original, stream in pairs:
            assert stream is not None
            for there, here in _pieces(original, host):
                stream.from_host(here, there)
            self._sent.append((stream, stream.record()))

    def _within(self, value: Any) -> Iterator[_Pair]:
        if isinstance(value, Mapping | list | tuple):
            for each in value.values() if isinstance(value, Mapping) else value:
                yield from self._within(each)
        elif (pair := self._pairs.get(id(value))) is not None:
            yield pair

    async def to_device(self, found: Any, like: Any = None) -> Any:
        """Return a result with its tensors on the devices of the caller's.

        A tensor is put on the device of the one at its place in `like`, a value that `to_host` returned.
        Without one, it is put on the accelerator of the call's tensors if that is one, and stays on the CPU
        otherwise. What `to_host` returned is replaced by what it stands for, unchanged.
        """
        if not self:
            return found
        return await off_loop(_size_bytes(found), self._to_device, found, like)

    def _to_device(self, found: Any, like: Any) -> Any:
        if (pair := self._pairs.get(id(found))) is not None:
            return pair.original
        if isinstance(found, Mapping):
            inside = like if isinstance(like, Mapping) else {}
            return {key: self._to_device(each, inside.get(key)) for key, each in found.items()}
        if isinstance(found, list | tuple):
            are_alike = isinstance(like, list | tuple) and len(like) == len(found)
            placed = [self._to_device(each, like[at] if are_alike else None) for at, each in enumerate(found)]
            return tuple(placed) if isinstance(found, tuple) else placed
        if not _is_tensor(found) or found.device.type != "cpu":
            return found
        stream = self._stream_of(like)
        if stream is None:
            return found
        target = stream.empty(found.shape, found.dtype)
        pinned = stream.pinned(found.shape, found.dtype)
        arrays = zip(_pieces(target, pinned), _pieces(found.contiguous(), pinned), strict=True)
        for (there, here), (part, _) in arrays:
            here.copy_(part)  # the device copies the piece before it meanwhile
            stream.from_host(here, there)
        self._sent.append((stream, stream.record()))
        return target

    def _stream_of(self, like: Any) -> CopyStream | None:
        if (pair := self._pairs.get(id(like))) is not None and pair.stream is not None:
            return pair.stream
        if _is_tensor(like) or len(self._streams) != 1:
            return None
        return next(iter(self._streams.values()))

    def join(self) -> None:
        """Make what this thread puts on its current streams from now on wait for what was written."""
        for stream, event in self._sent:
            stream.join(event)


def fetched(tensor: Tensor) -> Tensor:
    """Return a contiguous copy of a tensor on an accelerator, in ordinary memory of the CPU.

    Call it on the thread whose work made the tensor, which it blocks. It holds few pieces of pinned memory.
    """
    torch = sys.modules["torch"]
    stream = makers[tensor.device.type](tensor.device)
    found: Tensor = torch.empty(tensor.shape, dtype=tensor.dtype)
    arriving: deque[tuple[Tensor, Tensor, Any]] = deque()
    for there, here in _pieces(tensor, found):
        pinned = stream.pinned(here.shape, here.dtype)
        stream.to_host(there, pinned)
        arriving.append((pinned, here, stream.record()))
        if len(arriving) > 1:  # the device copies the next piece while the CPU copies this one
            _take(stream, *arriving.popleft())
    for each in arriving:
        _take(stream, *each)
    return found


def _take(stream: CopyStream, pinned: Tensor, here: Tensor, event: Any) -> None:
    stream.wait(event)
    here.copy_(pinned)


def _pieces(tensor: Tensor, host: Tensor) -> Iterator[tuple[Tensor, Tensor]]:
    """Cut a tensor, and a contiguous one of its shape, into the same pieces of about `PIECE_BYTES`.

    A tensor that is not contiguous is cut along its first dimension.
    """
    tensor = tensor.detach()
    if not tensor.numel():
        return
    if tensor.is_contiguous():
        tensor, host = tensor.view(-1), host.view(-1)
    rows = max(1, PIECE_BYTES * len(tensor) // host.nbytes)
    yield from zip(tensor.split(rows), host.split(rows), strict=True)


def _size_bytes(value: Any) -> int:
    if isinstance(value, Mapping):
        return sum(map(_size_bytes, value.values()))
    if isinstance(value, list | tuple):
        return sum(map(_size_bytes, value))
    return int(value.nbytes) if _is_tensor(value) else 0


def _is_tensor(value: object) -> bool:
    torch = sys.modules.get("torch")
    return torch is not None and isinstance(value, torch.Tensor)
