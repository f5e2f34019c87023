"""`Face`: the methods that c10d, torch's communication layer, calls on a process group.

torch has two base classes for backends in Python: `ProcessGroup` up to 2.13, and `Backend` from 2.14 on.
Their methods have the same names and arguments. duetlink's class for each combines `Face` with torch's base.
"""

from __future__ import annotations

import datetime
import weakref
from collections.abc import Sequence
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from duetlink.data.accelerators.host_copies import HostCopies
from duetlink.errors import DuetError, GroupError
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution.deadline import within
from duetlink.groups.collectives.execution.elements import Array
from duetlink.groups.collectives.values.operands import checked_rank
from duetlink.groups.torch.job import TorchJob
from duetlink.groups.torch.monitored import monitored_barrier, seconds
from duetlink.groups.torch.operations import CalledOperation, TorchOperations
from duetlink.groups.torch.reconfiguring import Reconfigure, handle, ordered
from duetlink.groups.torch.work import PendingWork


class Face:
    """A process group: some ranks of a job, this process among them."""

    allow_pickle: bool
    collectives: Collectives
    # the error of the latest operation that failed, since DDP's backward can raise only RuntimeError
    last_error: DuetError | None = None

    def _begin(self, job: TorchJob, options: Any, ranks: Sequence[int], *, allow_pickle: bool) -> None:
        """Connect the ranks; all of them call it. Raises GroupError if some have not come in time."""
        self.allow_pickle = allow_pickle
        faces.add(self)
        self._job = job
        self._timeout_s = options.timeout.total_seconds()
        self._first_name = str(options.group_id)
        self._uuids: set[int] = set()
        self._enter(self._first_name, list(ranks), self._timeout_s)

    def _enter(self, name: str, ranks: list[int], timeout_s: float) -> None:
        self.collectives = self._job.thread.run(self._job.enter(name, ranks, timeout_s))
        self._ranks = ranks
        self._rank, self._size = ranks.index(self._job.rank), len(ranks)
        self._own_name = name
        self._barriers = 0
        self._operations = TorchOperations(self.collectives, self._rank, self._size)

    # -- properties that torch reads -----------------------------------------------------------------------

    def getBackendName(self) -> str:  # noqa: N802 - torch's
        return "duetlink"

    def getRank(self) -> int:  # noqa: N802
        return self._rank

    def getSize(self) -> int:  # noqa: N802
        return self._size

    def rank(self) -> int:
        return self._rank

    def size(self) -> int:
        return self._size

    def name(self) -> str:
        return "duetlink"

    @property
    def _device_types(self) -> list[torch.device]:
        """The devices of the group's tensors. torch uses the first one to load a state from rank 0."""
        return [torch.device(kind) for kind in ("cpu", "cuda") if kind == "cpu" or torch.cuda.is_available()]

    def _get_backend(self, device: torch.device) -> Face:
        """Return the backend for the tensors of a device, which torch asks for each of `_device_types`."""
        return self

    def set_timeout(self, timeout: datetime.timedelta) -> None:
        self._timeout_s = timeout.total_seconds()

    _set_default_timeout = set_timeout

    # -- the end -------------------------------------------------------------------------------------------

    def abort(self) -> None:
        """End the running operations with an error at every rank. `reconfigure` can follow."""
        self._end(at_once=True, last=False)

    def shutdown(self) -> None:
        """Leave the group. Sent bytes still arrive, and ranks that end a moment later are served."""
        self._end(at_once=self.collectives.broken is not None, last=True)

    def _end(self, *, at_once: bool, last: bool) -> None:
        if not self._job.thread.stopped:
            self._job.thread.run(self.collectives.close())
        self._job.leave(self._own_name, at_once=at_once, last=last)

    # -- reconfiguration -----------------------------------------------------------------------------------

    @property
    def supports_reconfigure(self) -> bool:
        return True

    def get_reconfigure_handle(self) -> str:
        """Return the text that names this process in `reconfigure`, at any rank of the job."""
        return handle(self._job.generation, self._job.rank)

    def reconfigure(self, opts: Reconfigure) -> PendingWork:
        """Go on with other ranks of the job. All ranks of the new group call this.

        Args:
            opts: torch's `ReconfigureOptions`, or `Reconfigure`. `handles` are those of all ranks that take
                part: a list gives the new ranks by its order, a set keeps the order of the job. `uuid` is
                used once.

        Running operations end with an error. A process that is not a rank of the job cannot take part.

        Raises:
            GroupError: the `uuid` was used before, handles are invalid, or some ranks have not come in time.
                Then there is no group until another call of this.
        """
        if opts.uuid in self._uuids:
            raise GroupError(f"uuid {opts.uuid} was already used: every reconfiguration takes a new one")
        ranks = ordered(opts.handles, self._job.generation, self._job.size)
        if self._job.rank not in ranks:
            raise GroupError(
                f"the handle of this process, {self.get_reconfigure_handle()}, is not among those"
            )
        self._uuids.add(opts.uuid)
        self._end(at_once=self.collectives.broken is not None, last=False)
        timeout_s = self._timeout_s if opts.timeout is None else opts.timeout.total_seconds()
        self._enter(f"{self._first_name}/{opts.uuid}", ranks, timeout_s)
        return self.start(CalledOperation(_nothing(), HostCopies()), [], None, "reconfigure")

    # -- operations ----------------------------------------------------------------------------------------

    def broadcast(self, tensors: list[Tensor], opts: Any) -> PendingWork:
        call = _call("broadcast", tensors, opts.rootRank)
        return self.start(self._operations.broadcast(tensors, opts.rootRank, call), tensors, opts, call)

    def allreduce(self, tensors: list[Tensor], opts: Any = None) -> PendingWork:
        opts = dist.AllreduceOptions() if opts is None else opts
        call = _call("all_reduce", tensors)
        return self.start(self._operations.all_reduce(tensors, opts.reduceOp, call), tensors, opts, call)

    allreduce_coalesced = allreduce

    def all_reduce_by(self, codec: str, tensor: Tensor, memory: Array | None = None) -> PendingWork:
        """Sum all ranks' tensors in place, by a codec of `group.all_reduce`.

        `memory` is a flat array of the values that the codec left out before. It is overwritten with those
        that it leaves out now.
        """
        call = _call(f"all_reduce by {codec}", [tensor])
        work = self._operations.all_reduce_by(codec, tensor, memory, call)
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
        """Gather `inputs`; `outputs` has a list of tensors like the inputs for each rank."""
        call = _call("all_gather_coalesced", inputs)
        work = self._operations.all_gather_coalesced(outputs, inputs, call)
        return self.start(work, [tensor for of_rank in outputs for tensor in of_rank], opts, call)

    def all_gather_single(self, output: Tensor, mine: Tensor, opts: Any = None) -> PendingWork:
        return self.all_gather_single_coalesced([output], [mine], opts)

    _allgather_base = all_gather_single

    def all_gather_single_coalesced(
        self, outputs: list[Tensor], inputs: list[Tensor], opts: Any = None
    ) -> PendingWork:
        call = _call("all_gather_single", inputs)
        work = self._operations.all_gather_single(outputs, inputs, call)
        return self.start(work, outputs, opts, call)

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
        work = self._operations.reduce_scatter_single(outputs, inputs, opts.reduceOp, call)
        return self.start(work, outputs, opts, call)

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
        checked_rank(to, self._size, but=self._rank)  # at once: a caller of `isend` may never wait
        call = _call("send", tensors, to)
        lateness = f"rank {to} has not asked for it"
        return self.start(self._operations.send(tensors[0], to, tag), tensors, None, call, lateness)

    def recv(self, tensors: list[Tensor], of: int, tag: int) -> PendingWork:
        checked_rank(of, self._size, but=self._rank)
        call = _call("recv", tensors, of)
        lateness = f"rank {of} has sent nothing with tag {tag}"
        return self.start(self._operations.receive(tensors[0], of, tag), tensors, None, call, lateness)

    def recv_anysource(self, tensors: list[Tensor], tag: int) -> PendingWork:
        call = _call("recv", tensors)
        lateness = f"no rank has sent anything with tag {tag}"
        return self.start(self._operations.receive(tensors[0], None, tag), tensors, None, call, lateness)

    def monitored_barrier(self, timeout: Any = None, wait_all_ranks: bool = False) -> None:
        """Run a monitored barrier (`monitored.py`). torch passes a time, from 2.14 on BarrierOptions."""
        given = getattr(timeout, "timeout", timeout)
        timeout_s = self._timeout_s if given is None else seconds(given)
        number, self._barriers = self._barriers, self._barriers + 1
        waiting = monitored_barrier(self.collectives, number, timeout_s, wait_all_ranks=wait_all_ranks)
        self._job.thread.run(waiting)

    def start(
        self,
        work: CalledOperation,
        outputs: Sequence[Tensor],
        opts: Any,
        call: str,
        lateness: str = "",
    ) -> PendingWork:
        """Begin an operation on the loop thread, after those that were begun before.

        It ends at the timeout of `opts`, or of the group, at the latest. `lateness` is the reason in the
        text of that error; for a collective operation, the error names the ranks that have not called it.
        """
        seconds = opts.timeout.total_seconds() if opts is not None else 0.0
        limit_s = seconds if seconds > 0 else self._timeout_s

        async def limited() -> int | None:
            try:
                return await within(self.collectives.engine, limit_s, work.work, call, lateness)
            except DuetError as error:
                self.last_error = error
                raise

        # the caller of a synchronous operation waits for it anyway, so its thread runs the first step
        is_awaited = not getattr(opts, "asyncOp", True)
        done = self._job.thread.submit(limited(), here=is_awaited)
        return PendingWork(done, list(outputs), call, work.copies)


# The process groups of this process that are in use.
faces: weakref.WeakSet[Face] = weakref.WeakSet()


async def _nothing() -> None:
    return None


def _call(kind: str, tensors: Sequence[Tensor], root: int | None = None) -> str:
    """Return the text of a call that ranks compare, such as `all_reduce(float32[3, 4])`."""
    shapes = ", ".join(f"{str(t.dtype).removeprefix('torch.')}{list(t.shape)}" for t in tensors[:3])
    more = f" and {len(tensors) - 3} more" if len(tensors) > 3 else ""
    return f"{kind}({shapes}{more}{'' if root is None else f', root {root}'})"
