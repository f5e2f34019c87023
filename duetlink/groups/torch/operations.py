"""The operations of torch.distributed, implemented by those of `Collectives`.

Both faces use them: `ProcessGroup` (torch up to 2.13) and `Backend` (torch from 2.14 on). Each method takes
the arguments of c10d, and returns a `CalledOperation`, whose work fills the output tensors of the caller.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any, Concatenate, ParamSpec

import torch
import torch.distributed as dist
from torch import Tensor

from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.errors import UnsupportedValue
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.reduce_options import ReduceOptions

_NAMES = {
    dist.ReduceOp.SUM: "sum",
    dist.ReduceOp.AVG: "mean",
    dist.ReduceOp.MIN: "min",
    dist.ReduceOp.MAX: "max",
    dist.ReduceOp.PRODUCT: "prod",
    dist.ReduceOp.BAND: "and",
    dist.ReduceOp.BOR: "or",
    dist.ReduceOp.BXOR: "xor",
}


# the names of arguments that are tensors, or lists of them, by what is done with them
_READ, _WRITTEN, _CHANGED = ("mine", "inputs"), ("output", "outputs"), ("tensor", "tensors")
_WRITES_AT_ROOT = {"reduce": True, "broadcast": False}  # other operations write at all ranks

P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class CalledOperation:
    """An operation that was called: what runs on the loop thread, and the host copies of its tensors."""

    work: Coroutine[Any, Any, int | None]
    copies: HostCopies


def on_host(
    method: Callable[Concatenate[TorchOperations, P], Coroutine[Any, Any, int | None]],
) -> Callable[Concatenate[TorchOperations, P], CalledOperation]:
    """Run an operation with host copies in place of tensors on accelerators.

    The call is on the caller's thread, where the copies begin. Those of outputs are written back when the
    operation has succeeded, so its failure leaves tensors on accelerators as they were.
    """
    names = list(inspect.signature(method).parameters)[1:]
    on_cpu: Callable[..., Coroutine[Any, Any, int | None]] = method

    @functools.wraps(method)
    def called(self: TorchOperations, /, *args: P.args, **kwargs: P.kwargs) -> CalledOperation:
        assert not kwargs
        copies = HostCopies()
        by_name: dict[str, Any] = dict(zip(names, args, strict=True))
        at_root = by_name.get("root") == self._rank
        reads = method.__name__ != "broadcast" or at_root
        for name in (name for name in names if name in _READ + _WRITTEN + _CHANGED):
            by_name[name] = copies.to_host(by_name[name], fill=name not in _WRITTEN and reads)
        writes = _WRITES_AT_ROOT.get(method.__name__, at_root) == at_root
        outputs = [by_name[name] for name in (*_WRITTEN, *_CHANGED) if writes and name in by_name]

        async def run() -> int | None:
            try:
                async with self._beginning:
                    await copies.arrived()
            except Exception as error:  # of the device: the other ranks wait for this one
                self._collectives.engine.abandon(by_name.get("call", method.__name__), error)
                raise
            found = await on_cpu(self, *by_name.values())
            await copies.write(outputs)
            return found

        return CalledOperation(run(), copies)

    return called


class TorchOperations:
    """The operations of one process group. Called on any thread; their work runs on the loop thread."""

    def __init__(self, collectives: Collectives, rank: int, size: int) -> None:
        self._collectives = collectives
        self._rank, self._size = rank, size
        # operations begin in the order of the calls, while tensors of an earlier one are still being copied
        self._beginning = asyncio.Lock()

    @on_host
    async def all_reduce(self, tensors: Sequence[Tensor], op: Any, call: str) -> None:
        name = _name(op)
        if any(tensor.is_sparse for tensor in tensors):
            for tensor in tensors:
                await self._all_reduce_sparse(tensor, name, call)
            return
        options = ReduceOptions(name, in_place=True)
        # c10d leaves the tensors of a failed operation undefined: a backup would cost a second copy
        await self._collectives.all_reduce(_plain(tensors), options, restore=False, call=call)

    @on_host
    async def all_reduce_by(self, codec: str, tensor: Tensor, memory: Array | None, call: str) -> None:
        """Sum a tensor in place by a codec of `Collectives.all_reduce`.

        `memory` holds the part that the codec left out earlier; it is updated.
        """
        options = ReduceOptions(in_place=True, codec=codec)
        await self._collectives.all_reduce(_one(tensor), options, memory=memory, call=call)

    @on_host
    async def broadcast(self, tensors: Sequence[Tensor], root: int, call: str) -> None:
        await self._collectives.broadcast(_plain(tensors), root, in_place=True, call=call)
        await self._taken(root, call)

    @on_host
    async def reduce(self, tensors: Sequence[Tensor], op: Any, root: int, call: str) -> None:
        found = await self._collectives.reduce(_plain(tensors), root, _name(op), call=call)
        if found is not None:
            _fill(tensors, found)

    @on_host
    async def all_gather(self, outputs: Sequence[Tensor], mine: Tensor, call: str) -> None:
        """Gather into `outputs`, one tensor for each rank."""
        await self._all_gather(outputs, mine, call)

    @on_host
    async def all_gather_coalesced(
        self, outputs: Sequence[Sequence[Tensor]], inputs: Sequence[Tensor], call: str
    ) -> None:
        """Gather each of `inputs`; `outputs` has a list of tensors like them for each rank."""
        for at, mine in enumerate(inputs):
            await self._all_gather([of_rank[at] for of_rank in outputs], mine, call)

    @on_host
    async def all_gather_single(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], call: str) -> None:
        """Gather each of `inputs` into one tensor of `outputs`, in the order of ranks."""
        for output, mine in zip(outputs, inputs, strict=True):
            await self._all_gather(_parts(output, self._size), mine.reshape(-1), call)

    async def _all_gather(self, outputs: Sequence[Tensor], mine: Tensor, call: str) -> None:
        found = await self._collectives.all_gather(_one(mine), call=call)
        _fill(outputs, found)

    @on_host
    async def gather(self, outputs: Sequence[Tensor], mine: Tensor, root: int, call: str) -> None:
        found = await self._collectives.gather(_one(mine), root, call=call)
        if found is not None:
            _fill(outputs, found)

    @on_host
    async def scatter(self, output: Tensor, inputs: Sequence[Tensor], root: int, call: str) -> None:
        given = [_one(tensor) for tensor in inputs] if self._rank == root else None
        _fill([output], [await self._collectives.scatter(given, root, call=call)])
        await self._taken(root, call)

    async def _taken(self, root: int, call: str) -> None:
        """Make the root, which only sends, wait until all ranks have called the operation."""
        if self._rank == root:
            await self._collectives.engine.wait_begun(call)

    @on_host
    async def reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: Any, call: str) -> None:
        await self._reduce_scatter(output, inputs, op, call)

    @on_host
    async def reduce_scatter_single(
        self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], op: Any, call: str
    ) -> None:
        """Reduce the parts of each of `inputs`, which are in the order of ranks."""
        for output, mine in zip(outputs, inputs, strict=True):
            await self._reduce_scatter(output.view(-1), _parts(mine, self._size), op, call)

    async def _reduce_scatter(self, output: Tensor, inputs: Sequence[Tensor], op: Any, call: str) -> None:
        given = [_one(tensor) for tensor in inputs]
        _fill([output], [await self._collectives.reduce_scatter(given, _name(op), call=call)])

    @on_host
    async def all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], call: str) -> None:
        await self._all_to_all(outputs, inputs, call)

    @on_host
    async def all_to_all_single(
        self, output: Tensor, mine: Tensor, output_sizes: Sequence[int], sizes: Sequence[int], call: str
    ) -> None:
        """Exchange rows of the first dimension; in equal parts if the sizes are empty."""
        parts = _rows(output, output_sizes, self._size), _rows(mine, sizes, self._size)
        await self._all_to_all(*parts, call)

    async def _all_to_all(self, outputs: Sequence[Tensor], inputs: Sequence[Tensor], call: str) -> None:
        found = await self._collectives.all_to_all([_one(tensor) for tensor in inputs], call=call)
        _fill(outputs, found)

    @on_host
    async def barrier(self, call: str) -> None:
        await self._collectives.barrier(call=call)

    @on_host
    async def send(self, tensor: Tensor, to: int, tag: int) -> None:
        await self._collectives.send(_one(tensor), to, tag)

    @on_host
    async def receive(self, output: Tensor, of: int | None, tag: int) -> int:
        """Receive from rank `of`, or from any rank if it is None; returns the sender's rank."""
        received = await self._collectives.recv(of, tag)
        _fill([output], [received.value])
        return int(received.rank)

    async def _all_reduce_sparse(self, tensor: Tensor, op: str, call: str) -> None:
        """Gather all ranks' entries, and add them up."""
        if tensor.device.type != "cpu":
            raise UnsupportedValue(f"a sparse tensor on {tensor.device}: those on the CPU can be summed")
        if op not in ("sum", "mean"):
            raise UnsupportedValue(f"sparse tensors have the operations sum and mean, not {op!r}")
        mine = tensor.coalesce()
        shape = list(mine.shape)
        counts: list[Any] = await self._collectives.all_gather(torch.tensor([mine._nnz(), *shape]), call=call)
        if any(list(count[1:]) != shape for count in counts):
            raise UnsupportedValue(f"sparse tensors of other shapes than {shape} cannot be added to it")
        most = max(int(count[0]) for count in counts)
        indices = torch.zeros((mine.sparse_dim(), most), dtype=torch.int64)
        values = mine.values().new_zeros((most, *mine.values().shape[1:]))
        indices[:, : mine._nnz()], values[: mine._nnz()] = mine.indices(), mine.values()
        found: list[Any] = await self._collectives.all_gather([indices, values], call=call)
        total = torch.sparse_coo_tensor(
            torch.cat([i[:, : int(count[0])] for (i, _), count in zip(found, counts, strict=True)], 1),
            torch.cat([v[: int(count[0])] for (_, v), count in zip(found, counts, strict=True)]),
            shape,
        ).coalesce()
        tensor.copy_(total / self._size if op == "mean" else total)


def _name(op: Any) -> str:
    for known, name in _NAMES.items():
        if op == known:
            return name
    raise UnsupportedValue(f"{op} is not one of {', '.join(_NAMES.values())}")


def _one(tensor: Tensor) -> Tensor:
    """Detach a dense tensor on the CPU from autograd. Raises UnsupportedValue for any other."""
    if tensor.device.type != "cpu":
        raise UnsupportedValue(
            f"a tensor ({tensor.layout}) on {tensor.device}: this backend takes tensors on the CPU, and "
            "dense ones on CUDA devices"
        )
    if tensor.is_sparse:
        raise UnsupportedValue("sparse tensors can be all-reduced, and nothing else; make it dense")
    return tensor.detach()  # c10d writes to tensors without autograd's knowledge


def _plain(tensors: Sequence[Tensor]) -> Any:
    return _one(tensors[0]) if len(tensors) == 1 else [_one(tensor) for tensor in tensors]


def _fill(outputs: Sequence[Tensor], found: Any) -> None:
    """Copy the received values into the caller's tensors. Raises UnsupportedValue if sizes differ."""
    if len(outputs) == 1 and isinstance(found, Tensor):
        found = [found]
    for output, value in zip(outputs, found, strict=True):
        if output.numel() != value.numel():
            raise UnsupportedValue(
                f"a tensor of shape {tuple(value.shape)} arrived for an output of shape {tuple(output.shape)}"
            )
        output.detach().copy_(value.view(output.shape))


def _parts(tensor: Tensor, size: int) -> list[Tensor]:
    """Split a contiguous tensor into one flat part of equal size for each rank; the parts are views."""
    if tensor.numel() % size:
        raise UnsupportedValue(f"{tensor.numel()} items cannot be divided among {size} ranks")
    return list(tensor.detach().view(-1).chunk(size)) if tensor.numel() else [tensor.detach().view(-1)] * size


def _rows(tensor: Tensor, sizes: Sequence[int], size: int) -> list[Tensor]:
    if not sizes:
        if len(tensor) % size:
            raise UnsupportedValue(f"{len(tensor)} rows cannot be divided among {size} ranks")
        sizes = [len(tensor) // size] * size
    if len(sizes) != size or sum(sizes) != len(tensor):
        raise UnsupportedValue(f"{list(sizes)} do not say how {len(tensor)} rows go to {size} ranks")
    return list(torch.split(tensor.detach(), list(sizes)))
