"""Communication hooks of DDP: the gradients of a step in fewer bytes.

    from duetlink.groups.torch import hooks

    model.register_comm_hook(hooks.Compressed("block8"), hooks.compressed)  # lossy, with error feedback
    model.register_comm_hook(hooks.Summed("sparse"), hooks.summed)  # the same sums as without a hook

`compressed`: every rank compresses its own gradients by a compressor of `duetlink.codecs.gradients`, sends
them to all, decodes everybody's, and takes the mean, added up in the order of ranks in float64. All ranks
have the same bits. This pays off for few ranks: each receives size - 1 compressed gradients, whereas a sum
moves about two uncompressed ones. `summed`: one sum of all ranks' gradients, by a codec of
`group.all_reduce`.

The process group has to be one of duetlink's. Received chunks are checked as any chunk is.
"""

# no `from __future__ import annotations`: torch compares the annotations of hooks with its own types

import asyncio
import struct
from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch._C._distributed_c10d import GradBucket

from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.data.codecs import decode, read_header
from duetlink.data.codecs.gradients.choice import compressor
from duetlink.data.codecs.gradients.compressor import GradientCompressor, TensorState
from duetlink.errors import DuetError, GroupError, RemoteProtocolError, SettingError
from duetlink.groups.torch.operations import CalledOperation
from duetlink.groups.torch.process_group import DuetlinkProcessGroup

_COUNT = struct.Struct("<I")
_MOST_OVERHEAD_BYTES = (
    1024  # by which a payload may exceed the items themselves, such as a few items in blocks
)


class Compressed:
    """The state of the hook `compressed`, for one model at one rank."""

    def __init__(
        self,
        codec: str | GradientCompressor | None = None,
        *,
        level: int | None = None,
        process_group: dist.ProcessGroup | None = None,
    ) -> None:
        """Construct the state.

        Args:
            codec: the name of a codec of float32 arrays, or a compressor. None means top-k with one item in
                ten.
            level: the level of the codec.
            process_group: that of the model; None means the default group.

        If the compressor has a schedule (`Dgc`), set `compressor.epoch` at the beginning of each epoch. `Dgc`
        applies the momentum itself, so the optimiser is plain SGD. Keep `compressor.state_dict()` in a
        checkpoint.

        Raises:
            UnknownCodec: the codec is not installed.
            LocalProtocolError: the codec does not take float32.
            SettingError: the group is not one of duetlink's.
        """
        self.compressor = codec if isinstance(codec, GradientCompressor) else compressor(codec, level)
        self.group = _ours(process_group)
        self._names: dict[torch.Tensor, str] = {}
        self.sent_bytes = 0  # size of the chunks of this rank
        self.plain_bytes = 0  # size of the same gradients without compression

    def _name(self, parameter: torch.Tensor) -> str:
        """Return a name for a parameter, which is the same at all ranks and in all steps.

        Buckets change after the first step, parameters do not, and all ranks use them in the same order.
        """
        return self._names.setdefault(parameter, str(len(self._names)))

    def begin(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        names = [self._name(parameter) for parameter in bucket.parameters()]
        gradients = bucket.gradients()
        before = {name: self.compressor.remembered(name) for name in names}
        copies = HostCopies()
        on_host = copies.to_host(gradients)
        copies.wait_arrived()
        arrays = {
            name: gradient.detach().float().contiguous().numpy()
            for name, gradient in zip(names, on_host, strict=True)
        }
        refusal = b""
        chunks: list[bytes] = []
        try:
            found = self.compressor.compress_all(arrays)
            chunks = [found[name] for name in names]
        except DuetError as error:
            refusal = str(error).encode()  # sent to the others, which wait for this rank
        self.sent_bytes += sum(map(len, chunks))
        self.plain_bytes += sum(array.nbytes for array in arrays.values())
        call = f"gradients by {self.compressor.name}"
        work = self._exchange(_joined([refusal, *chunks]), on_host, before, copies, call)
        return _first(self.group.start(CalledOperation(work, copies), [bucket.buffer()], None, call))

    async def _exchange(
        self,
        mine: bytes,
        gradients: Sequence[torch.Tensor],
        before: dict[str, TensorState | None],
        copies: HostCopies,
        call: str,
    ) -> None:
        """Exchange chunks, and write the means into the gradients. After an error everything is restored."""
        try:
            found: list[Any] = await self.group.collectives.all_gather(
                np.frombuffer(mine, np.uint8), call=call
            )
            await asyncio.to_thread(_fill_means, gradients, [memoryview(each) for each in found])
            await copies.write(gradients)
        except BaseException:
            for name, state in before.items():
                self.compressor.restore(name, state)
            raise


def compressed(state: Compressed, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Replace a bucket's gradients by the mean of all ranks' compressed gradients (a DDP hook).

    After an error at any rank, all ranks raise it, and the compressors' memories are as before the step.
    """
    return state.begin(bucket)


class Summed:
    """The state of the hook `summed`, for one model at one rank."""

    def __init__(self, codec: str = "sparse", *, process_group: dist.ProcessGroup | None = None) -> None:
        """`codec` is one of `group.all_reduce`. Items that "agreed" leaves out are added in later steps.

        Raises:
            SettingError: the group is not one of duetlink's.
        """
        self.codec = codec
        self.group = _ours(process_group)
        self._remembers = codec.partition(":")[0] == "agreed"
        # by parameter: the part of its gradient that was left out so far, flat
        self._left: dict[torch.Tensor, NDArray[np.float32]] = {}

    def begin(self, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
        buffer = bucket.buffer().mul_(1.0 / self.group.size())  # as DDP does by itself
        if not self._remembers:
            return _first(self.group.all_reduce_by(self.codec, buffer))
        parameters = bucket.parameters()
        sizes = [parameter.numel() for parameter in parameters]
        memory = np.concatenate(
            [
                self._left[parameter] if parameter in self._left else np.zeros(size, np.float32)
                for parameter, size in zip(parameters, sizes, strict=True)
            ]
        )

        def summed(done: torch.futures.Future[list[torch.Tensor]]) -> torch.Tensor:
            (total,) = done.value()  # raises the operation's error; then the memory is unchanged
            parts = np.split(memory, np.cumsum(sizes)[:-1])
            self._left.update(zip(parameters, parts, strict=True))
            return total

        work = self.group.all_reduce_by(self.codec, buffer, memory)
        return work.get_future().then(summed)


def summed(state: Summed, bucket: GradBucket) -> torch.futures.Future[torch.Tensor]:
    """Replace a bucket's gradients by the mean over all ranks, summed by a codec (a DDP hook).

    A lossless codec gives the same bits as DDP without a hook.
    """
    return state.begin(bucket)


def _ours(group: Any) -> DuetlinkProcessGroup:
    found = dist.distributed_c10d._get_default_group() if group is None else group
    if not isinstance(found, DuetlinkProcessGroup):
        raise SettingError(
            f"these hooks need a process group of the backend duetlink, not of {dist.get_backend(found)}"
        )
    return found


def _first(work: Any) -> torch.futures.Future[torch.Tensor]:
    future: torch.futures.Future[torch.Tensor] = work.get_future().then(lambda done: done.value()[0])
    return future


def _joined(parts: Sequence[bytes]) -> bytes:
    return b"".join([_COUNT.pack(len(parts)), *(_COUNT.pack(len(part)) for part in parts), *parts])


def _parted(data: memoryview, count: int) -> list[memoryview]:
    """Split `data` into `count` parts. Raises RemoteProtocolError unless they fill it exactly."""
    head = _COUNT.size * (count + 1)
    if len(data) < _COUNT.size or _COUNT.unpack_from(data) != (count,) or len(data) < head:
        raise RemoteProtocolError(f"a rank sent {len(data)} bytes in place of {count} parts")
    sizes = [_COUNT.unpack_from(data, _COUNT.size * at)[0] for at in range(1, count + 1)]
    if head + sum(sizes) != len(data):
        raise RemoteProtocolError(
            f"a rank announced parts of {sum(sizes)} bytes, and sent {len(data) - head}"
        )
    parts, at = [], head
    for size in sizes:
        parts.append(data[at : at + size])
        at += size
    return parts


def _fill_means(gradients: Sequence[torch.Tensor], found: Sequence[memoryview]) -> None:
    """Write the means of all ranks' decoded chunks into the gradients.

    Raises GroupError, naming the rank, if a rank had no gradients to send; then nothing is written.
    """
    for rank, data in enumerate(found):
        if len(data) >= 2 * _COUNT.size and _COUNT.unpack_from(data) == (1,):
            words = str(_parted(data, 1)[0], "utf-8", "replace")
            raise GroupError(f"rank {rank} has no gradients for this step: {words}")
    parted = [_parted(data, len(gradients) + 1)[1:] for data in found]
    means = [
        _mean([parts[at] for parts in parted], tuple(gradient.shape)) for at, gradient in enumerate(gradients)
    ]
    for gradient, mean in zip(gradients, means, strict=True):
        gradient.detach().copy_(torch.from_numpy(mean))


def _mean(chunks: Sequence[memoryview], shape: tuple[int, ...]) -> NDArray[np.float64]:
    total = np.zeros(shape, np.float64)
    most_bytes = 4 * total.size + _MOST_OVERHEAD_BYTES
    for rank, chunk in enumerate(chunks):
        header = read_header(chunk, most_bytes)
        if header.shape != shape or header.element.name != "float32":
            raise RemoteProtocolError(
                f"rank {rank} sent {header.element.name} of shape {header.shape} for a gradient of {shape}"
            )
        array, _ = decode(chunk, most_bytes)
        total += array.view(np.float32)
    return total / len(chunks)
