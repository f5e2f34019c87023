"""The face that torch.distributed calls, to 2.13: a process group of Python."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import torch.distributed as dist
from torch import Tensor

from duetlink.errors import GroupError, SettingError
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.torch.job import Job, jobs
from duetlink.groups.torch.operations import Operations
from duetlink.groups.torch.work import PendingWork

# torch's stubs tell what C++ may be given, which is more than what torch itself calls these methods with
_Base: Any = dist.ProcessGroup


@dataclass(frozen=True, slots=True)
class Options:
    """What `init_process_group(..., pg_options=)` and `new_group` take for this backend."""

    allow_pickle: bool = False  # whether torch may unpickle what other ranks send: it runs code of theirs


def create(options: Any, backend_options: Options | None = None) -> DuetlinkProcessGroup:
    """What torch calls for `init_process_group("duetlink")` and `new_group`."""
    ranks = list(options.global_ranks_in_group)
    if not ranks:  # the group of all
        jobs.begin(options.store, options.group_rank, options.group_size)
        ranks = list(range(options.group_size))
    elif not jobs.begun:  # the group of all is another backend's
        store = dist.distributed_c10d._get_default_store()
        jobs.begin(store, dist.get_rank(), dist.get_world_size())
    allow_pickle = jobs.current.settings.allow_pickle
    if backend_options is not None:
        if not isinstance(backend_options, Options):
            raise SettingError(
                f"pg_options is a {type(backend_options).__name__}: this backend takes "
                "duetlink.groups.torch.Options"
            )
        allow_pickle = backend_options.allow_pickle
    return DuetlinkProcessGroup(jobs.current, options, ranks, allow_pickle=allow_pickle)


def needs_consent(group: Any) -> bool:
    """Whether objects of other ranks may not be unpickled in this group."""
    return isinstance(group, DuetlinkProcessGroup) and not group.allow_pickle


class DuetlinkProcessGroup(_Base):  # type: ignore[misc]
    """Some ranks of a job. Made by `create`, on all of them."""

    def __init__(self, job: Job, options: Any, ranks: Sequence[int], *, allow_pickle: bool) -> None:
        super().__init__(options.group_rank, options.group_size)
        self.allow_pickle = allow_pickle
        self._job = job
        self._ranks = list(ranks)
        self._timeout_s = options.timeout.total_seconds()
        self._rank, self._size = int(options.group_rank), int(options.group_size)
        self._own_name = self._group_name = str(options.group_id)
        self._group_desc = ""
        self.collectives: Collectives = job.thread.run(
            job.enter(self._own_name, self._ranks, self._timeout_s)
        )
        self._operations = Operations(self.collectives, self._rank, self._size)

    # -- what torch asks of a group ------------------------------------------------------------------------

    def getBackendName(self) -> str:  # noqa: N802 - torch's
        return "duetlink"

    def getRank(self) -> int:  # noqa: N802
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        return self._size

    def setGroupName(self, name: str) -> None:  # noqa: N802
        self._group_name = name

    def getGroupName(self) -> str:  # noqa: N802
        return self._group_name

    def setGroupDesc(self, description: str) -> None:  # noqa: N802
        self._group_desc = description

    def getGroupDesc(self) -> str:  # noqa: N802
        return self._group_desc

    @property
    def group_name(self) -> str:
        return self._group_name

    @property
    def group_desc(self) -> str:
        return self._group_desc

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return "duetlink"

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout_s = timeout.total_seconds()

    _set_default_timeout = set_timeout

    def abort(self) -> None:
        """End what runs; every rank gets an error."""
        self._end(at_once=True)

    def shutdown(self) -> None:
        """Leave. What was sent arrives, and ranks that are a moment later still find this one's part."""
        self._end(at_once=self.collectives.broken is not None)

    def _end(self, *, at_once: bool) -> None:
        if not self._job.thread.stopped:
            self._job.thread.run(self.collectives.close())
        self._job.leave(self._own_name, at_once=at_once)

    # -- operations ----------------------------------------------------------------------------------------

    def broadcast(self, tensors: list[Tensor], opts: Any) -> PendingWork:
        call = _call("broadcast", tensors, opts.rootRank)
        return self.start(self._operations.broadcast(tensors, opts.rootRank, call), tensors, opts, call)

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> PendingWork:
        opts = dist.AllreduceOptions() if opts is None else opts
        call = _call("all_reduce", tensors)
        return self.start(self._operations.all_reduce(tensors, opts.reduceOp, call), tensors, opts, call)

    allreduce_coalesced = allreduce

    def all_reduce_by(self, codec: str, tensor: Tensor) -> PendingWork:
        """The sum of all ranks' tensors, in place, whose pieces travel by that codec."""
        call = _call(f"all_reduce by {codec}", [tensor])
        work = self._operations.all_reduce([tensor], dist.ReduceOp.SUM, call, codec)
        return self.start(work, [tensor], None, call)

    def reduce(self, tensors: list[Tensor], opts: Any) -> PendingWork:
        call = _call("reduce", tensors, opts.rootRank)
        work = self._operations.reduce(tensors, opts.reduceOp, opts.rootRank, call)
        return self.start(work, tensors, opts, call)

    def allgather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None) -> PendingWork:
        call = _call("all_gather", inputs)
        work = self._operations.all_gather(outputs[0], inputs[0], call)
        return self.start(work, outputs[0], opts, call)

    def allgather_coalesced(
        self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any = None
    ) -> PendingWork:
        """`outputs`: for each rank a list of tensors like the inputs."""
        call = _call("all_gather_coalesced", inputs)

        async def each() -> None:
            for at, mine in enumerate(inputs):
                await self._operations.all_gather([of_rank[at] for of_rank in outputs], mine, call)

        return self.start(each(), [tensor for of_rank in outputs for tensor in of_rank], opts, call)

    def all_gather_single(self, output: Tensor, mine: Tensor, opts: Any = None) -> PendingWork:
        return self.all_gather_single_coalesced([output], [mine], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> PendingWork:
        call = _call("all_gather_single", inputs)

        async def each() -> None:
            for output, mine in zip(outputs, inputs, strict=True):
                await self._operations.all_gather_single(output, mine, call)

        return self.start(each(), outputs, opts, call)

    allgather_into_tensor_coalesced = all_gather_single_coalesced

    def gather(self, outputs: list[list[Tensor]], inputs: list[Tensor], opts: Any) -> PendingWork:
        call = _call("gather", inputs, opts.rootRank)
        mine = outputs[0] if outputs else []
        return self.start(self._operations.gather(mine, inputs[0], opts.rootRank, call), mine, opts, call)

    def scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> PendingWork:
        call = _call("scatter", outputs, opts.rootRank)
        given = inputs[0] if inputs else []
        work = self._operations.scatter(outputs[0], given, opts.rootRank, call)
        return self.start(work, outputs, opts, call)

    def reduce_scatter(self, outputs: list[Tensor], inputs: list[list[Tensor]], opts: Any) -> PendingWork:
        call = _call("reduce_scatter", outputs)
        work = self._operations.reduce_scatter(outputs[0], inputs[0], opts.reduceOp, call)
        return self.start(work, outputs, opts, call)

    def reduce_scatter_single(self, output: Tensor, mine: Tensor, opts: Any) -> PendingWork:
        return self.reduce_scatter_single_coalesced([output], [mine], opts)

    _reduce_scatter_base = reduce_scatter_single

    def reduce_scatter_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any
    ) -> PendingWork:
        call = _call("reduce_scatter_single", outputs)

        async def each() -> None:
            for output, mine in zip(outputs, inputs, strict=True):
                await self._operations.reduce_scatter_single(output, mine, opts.reduceOp, call)

        return self.start(each(), outputs, opts, call)

    reduce_scatter_tensor_coalesced = reduce_scatter_single_coalesced

    def alltoall(self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None) -> PendingWork:
        call = "all_to_all"
        return self.start(self._operations.all_to_all(outputs, inputs, call), outputs, opts, call)

    def all_to_all_single(
        self,
        output: Tensor,
        mine: Tensor,
        output_sizes: Sequence[int],
        input_sizes: Sequence[int],
        opts: Any = None,
    ) -> PendingWork:
        call = "all_to_all_single"
        work = self._operations.all_to_all_single(output, mine, output_sizes, input_sizes, call)
        return self.start(work, [output], opts, call)

    alltoall_base = all_to_all_single

    def barrier(self, opts: Any = None) -> PendingWork:
        return self.start(self._operations.barrier("barrier"), [], opts, "barrier")

    def send(self, tensors: list[Tensor], to: int, tag: int) -> PendingWork:
        call = _call("send", tensors, to)
        return self.start(self._operations.send(tensors[0], to, tag), tensors, None, call)

    def recv(self, tensors: list[Tensor], of: int, tag: int) -> PendingWork:
        call = _call("recv", tensors, of)
        return self.start(self._operations.receive(tensors[0], of, tag), tensors, None, call)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> PendingWork:
        call = _call("recv", tensors)
        return self.start(self._operations.receive(tensors[0], None, tag), tensors, None, call)

    def start(
        self, work: Coroutine[Any, Any, int | None], outputs: Sequence[Tensor], opts: Any, call: str
    ) -> PendingWork:
        """Begin it on the loop thread, after what was begun before. It ends at its deadline at the latest."""
        seconds = opts.timeout.total_seconds() if opts is not None else 0.0
        limit_s = seconds if seconds > 0 else self._timeout_s

        async def limited() -> int | None:
            try:
                async with asyncio.timeout(limit_s):
                    return await work
            except TimeoutError:
                raise GroupError(
                    f"{call}: Timed out after {limit_s:g} s. Not all ranks have called it, or they are slow"
                ) from None

        return PendingWork(self._job.thread.submit(limited()), list(outputs), call)


def _call(kind: str, tensors: Sequence[Tensor], root: int | None = None) -> str:
    """What members compare: `all_reduce(float32[3, 4])`."""
    shapes = ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors[:3])
    more = f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""
    return f"{kind}({shapes}{more}{'' if root is None else f', root {root}'})"
