"""What the ranks of a torch job do where something fails or waits: run in processes of their own, since what
is tested here used to end them. Each case runs on all ranks; the outcomes are files.

The group of all is gloo's, so that the ranks can meet after a failure of duetlink's groups.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import Tensor, nn

from duetlink.errors import DuetError, GroupError, OperationMismatch, PeerLost

SIZE = 3
LATE_S = 3.0  # the time-out of operations to which somebody does not come

CASES: dict[str, Callable[[], None]] = {}


def case(function: Callable[[], None]) -> Callable[[], None]:
    CASES[function.__name__] = function
    return function


def new_group(ranks: list[int] | None = None) -> Any:
    return dist.new_group(ranks, backend="duetlink", timeout=timedelta(seconds=60))


def expect_late(group: Any) -> None:
    """From here on somebody does not come."""
    group.set_timeout(timedelta(seconds=LATE_S))


@contextlib.contextmanager
def before_rank_1() -> Iterator[None]:
    """Rank 1 skips the block, and goes on when the others have ended it, well or not."""
    try:
        yield
    finally:
        dist.barrier()


def parallel(group: Any, **options: Any) -> nn.parallel.DistributedDataParallel:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 4))
    return nn.parallel.DistributedDataParallel(model, process_group=group, **options)


def step(model: nn.Module) -> None:
    dtype = next(model.parameters()).dtype
    model(torch.ones(2, 8, dtype=dtype) * (1 + dist.get_rank())).sum().backward()


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


def everybody_has(tensor: Tensor) -> None:
    everybody = [torch.empty_like(tensor) for _ in range(SIZE)]
    dist.all_gather(everybody, tensor)
    assert all(torch.equal(tensor, other) for other in everybody)


def a_rank_is_late(ranks: list[int], hook: Callable[..., Any] | None = None) -> None:
    group = new_group(ranks)
    rank = dist.get_rank()
    if rank in ranks:
        model = parallel(group)
        if hook is not None:
            model.register_comm_hook(group, hook)
        step(model)
        step(model)  # until here DDP looks which gradients come first, and tells all
        expect_late(group)
    with before_rank_1():
        if rank in ranks and rank != 1:
            with pytest.raises(RuntimeError, match="Timed out after 3 s") as found:
                step(model)
            assert type(found.value) is RuntimeError
            assert type(group.last_error).__name__ in str(found.value)
            assert str(group.last_error) in str(found.value)
            assert "rank 1 has not called it" in str(group.last_error)
    if rank == 1:
        while group.collectives.broken is None:  # the others' word of it may still be on its way
            threading.Event().wait(0.01)
        with pytest.raises(GroupError, match="rank 1 has not called it"):  # the forward meets no other rank
            dist.barrier(group=group)
        assert isinstance(group.last_error, GroupError)


@case
def ddp_of_two_says_that_a_rank_is_late() -> None:
    a_rank_is_late([0, 1])


@case
def ddp_of_three_says_that_a_rank_is_late() -> None:
    a_rank_is_late([0, 1, 2])


@case
def ddp_with_a_hook_says_that_a_rank_is_late() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks.default_hooks import allreduce_hook

    a_rank_is_late([0, 1], allreduce_hook)


@case
def ddp_whose_ranks_have_other_dtypes_says_so() -> None:
    group = new_group()
    model = parallel(group, init_sync=False)
    if dist.get_rank() == 1:
        model = nn.parallel.DistributedDataParallel(
            model.module.double(), process_group=group, init_sync=False
        )
    else:
        model = nn.parallel.DistributedDataParallel(model.module, process_group=group, init_sync=False)
    with pytest.raises(RuntimeError, match=r"OperationMismatch: .*float(32|64).*float(32|64)"):
        step(model)
    assert isinstance(group.last_error, OperationMismatch)


@case
def ddp_whose_rank_raises_tells_the_others() -> None:
    class Raises(torch.autograd.Function):
        @staticmethod
        def forward(_: Any, x: Tensor) -> Tensor:
            return x.clone()

        @staticmethod
        def backward(_: Any, *gradients: Any) -> Any:
            if dist.get_rank() == 1:
                raise ValueError("no gradient here")
            return gradients[0]

    group = new_group()
    model = parallel(group)
    expect_late(group)
    with pytest.raises((RuntimeError, ValueError)) as found:
        Raises.apply(model(torch.ones(2, 8))).sum().backward()  # type: ignore[no-untyped-call]
    if dist.get_rank() == 1:
        assert type(found.value) is ValueError
    else:
        assert str(group.last_error) in str(found.value)
        assert "rank 1" in str(group.last_error)


@case
def works_and_zero_raise_the_typed_error() -> None:
    from torch.distributed.optim import ZeroRedundancyOptimizer

    group = new_group()
    model = parallel(group)
    optimizer = ZeroRedundancyOptimizer(model.parameters(), torch.optim.SGD, process_group=group, lr=0.1)
    step(model)
    expect_late(group)
    with before_rank_1():
        if dist.get_rank() != 1:
            with pytest.raises(DuetError, match="rank 1"):
                optimizer.step()
            work = dist.all_reduce(torch.ones(3), group=group, async_op=True)
            with pytest.raises(DuetError):
                work.wait()
            with pytest.raises(RuntimeError, match=type(group.last_error).__name__):
                work.get_future().wait()
            with pytest.raises(RuntimeError, match=type(group.last_error).__name__):
                torch.futures.collect_all([work.get_future()]).wait()
            assert isinstance(work.exception(), DuetError)
            assert not work.is_success()


@case
def fsdp_raises_the_typed_error() -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    group = new_group()
    model = nn.Linear(12, 24)
    fully_shard(model, mesh=DeviceMesh.from_group(group, "cpu"))
    model(torch.ones(2, 12)).sum().backward()
    expect_late(group)
    with before_rank_1():
        if dist.get_rank() != 1:
            with pytest.raises(DuetError, match="rank 1"):
                model(torch.ones(2, 12)).sum().backward()


@case
def callbacks_may_wait_for_other_sums() -> None:
    group = new_group()
    outside = dist.all_reduce(torch.ones(2), group=group, async_op=True).get_future()
    first = torch.ones(3)

    def another(done: torch.futures.Future[list[Tensor]]) -> Tensor:
        """Waits for a sum that it has begun, and for one that was begun after the one that it follows."""
        inner = done.value()[0].clone()
        work = dist.all_reduce(inner, group=group, async_op=True)
        found: Tensor = work.get_future().wait()[0]
        return torch.as_tensor(found + later[0].wait()[0] + outside.wait()[0].sum())

    later: list[Any] = []
    begun = dist.all_reduce(first, group=group, async_op=True)
    later.append(dist.all_reduce(torch.ones(3), group=group, async_op=True).get_future())
    assert begun.get_future().then(another).wait().tolist() == [9.0 + 3.0 + 6.0] * 3


@case
def callbacks_run_in_the_order_of_the_operations() -> None:
    group = new_group()
    order: list[int] = []
    futures = []
    for at in range(50):
        future = dist.all_reduce(torch.ones(2), group=group, async_op=True).get_future()
        futures.append(future.then(lambda done, at=at: order.append(at)))
        futures.append(future.then(lambda done, at=at: order.append(at)))
    torch.futures.wait_all(futures)
    assert order == [at for at in range(50) for _ in (1, 2)]


@case
def power_sgd_of_torch_trains() -> None:
    from torch.distributed.algorithms.ddp_comm_hooks import powerSGD_hook as power

    group = new_group()
    torch.manual_seed(1)
    model = nn.parallel.DistributedDataParallel(
        nn.Sequential(nn.Linear(64, 64), nn.ReLU(), nn.Linear(64, 10)), process_group=group
    )
    state = power.PowerSGDState(group, matrix_approximation_rank=1, start_powerSGD_iter=2)
    model.register_comm_hook(state, power.powerSGD_hook)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.05)
    for at in range(5):
        optimizer.zero_grad()
        model(torch.full((4, 64), 0.1 * (at + dist.get_rank()))).square().sum().backward()
        optimizer.step()
    everybody_has(weights(model))


@case
def a_message_to_oneself_is_refused() -> None:
    group = new_group()
    rank = dist.get_rank()
    with pytest.raises(DuetError, match=f"rank {rank} is this member; a message goes to another one"):
        dist.isend(torch.ones(2), rank, group=group)
    with pytest.raises(DuetError, match=f"rank {rank} is this member; a message goes to another one"):
        dist.irecv(torch.ones(2), rank, group=group)


@case
def a_root_whose_broadcast_nobody_takes_is_told() -> None:
    group = new_group()
    dist.barrier(group=group)
    expect_late(group)
    with before_rank_1():
        if dist.get_rank() == 0:
            with pytest.raises(GroupError, match=r"broadcast.*Timed out after 3 s.*rank 1"):
                dist.broadcast(torch.ones(4), 0, group=group)


def one_is_killed(rank: int) -> None:
    """The last one: rank 1 is gone then. Whoever is left hears that it was rank 1, and nobody else."""
    group = new_group()
    model = parallel(group)
    step(model)
    step(model)
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    with pytest.raises(RuntimeError, match="PeerLost: rank 1 is gone"):
        step(model)
    assert isinstance(group.last_error, PeerLost)
    assert (group.last_error.rank, group.last_error.name) == (1, "rank 1")


def rank_main(rank: int, directory: str, names: tuple[str, ...]) -> None:
    import duetlink.groups.torch

    assert duetlink.groups.torch
    torch.set_num_threads(1)
    place = Path(directory)

    def tell(name: str, run: Callable[[], None]) -> None:
        try:
            run()
            outcome = "right"
        except BaseException:
            outcome = traceback.format_exc()
        (place / f"{name}-{rank}").write_text(outcome, encoding="utf-8")

    dist.init_process_group("gloo", init_method=f"file://{place}/store", rank=rank, world_size=SIZE)
    for name in names:
        tell(name, CASES[name])
        dist.barrier()
    tell("killed", lambda: one_is_killed(rank))
    os._exit(0)  # gloo's group of all has lost a rank


def run(directory: Path, names: tuple[str, ...]) -> None:
    """These cases on all ranks, and then one is killed."""
    context = multiprocessing.get_context("spawn")
    ranks = [context.Process(target=rank_main, args=(rank, str(directory), names)) for rank in range(SIZE)]
    for process in ranks:
        process.start()
    for process in ranks:
        process.join()
