"""What the ranks of a torch job do in the tests: each check runs on all of them, and says what went wrong.

The group of all is gloo's, and a second group of the same ranks is duetlink's: each operation is compared
with gloo's own result, bit for bit.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
import io
import re
import time
import traceback
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
import torch.distributed as dist
import torch.multiprocessing as multiprocessing
from torch import Tensor, nn

from duetlink.errors import GroupError, OperationMismatch, UnsupportedValue
from duetlink.learning import DpSgd
from tests.accelerator import DEVICES, GPUS, FakeDevice, installed
from tests.free_port import free_port
from tests.groups import torch_cases

SIZE = 3
MESSAGES = 150  # of 60 KB: more than a path takes at once

CHECKS: dict[str, Callable[[Any], None]] = {}


def check(function: Callable[[Any], None]) -> Callable[[Any], None]:
    CHECKS[function.__name__] = function
    return function


MET: dict[str, Callable[[Path], None]] = {}


def met(function: Callable[[Path], None]) -> Callable[[Path], None]:
    """As `check`, in a job whose ranks met by a code. In this order; the last one ends the job at rank 0."""
    MET[function.__name__] = function
    return function


def mine(shape: tuple[int, ...] = (5, 3), dtype: torch.dtype = torch.float32, seed: int = 0) -> Tensor:
    """Numbers that differ from rank to rank."""
    generator = torch.Generator().manual_seed(100 * seed + dist.get_rank())
    if dtype == torch.bool:
        return torch.rand(shape, generator=generator) < 0.5
    if not dtype.is_floating_point:
        return torch.randint(0, 50, shape, generator=generator).to(dtype)
    return torch.randn(shape, generator=generator).to(dtype)


def same(left: Tensor, right: Tensor) -> None:
    assert left.dtype == right.dtype
    assert left.shape == right.shape
    assert torch.equal(left, right), (left, right)


def on_both(group: Any, run: Callable[[Any], Any]) -> None:
    """Run it on gloo's group and on ours; all tensors that it returns are equal."""
    ours, theirs = run(group), run(None)
    for left, right in zip(ours, theirs, strict=True):
        same(left, right)


@check
def all_reduce(group: Any) -> None:
    for op in (dist.ReduceOp.MIN, dist.ReduceOp.MAX, dist.ReduceOp.SUM, dist.ReduceOp.PRODUCT):
        for dtype in (torch.int32, torch.int64, torch.uint8):

            def run(chosen: Any, op: Any = op, dtype: torch.dtype = dtype) -> list[Tensor]:
                tensor = mine(dtype=dtype)
                dist.all_reduce(tensor, op, group=chosen)
                return [tensor]

            on_both(group, run)


@check
def all_reduce_of_floats_has_the_same_bits_on_all_ranks(group: Any) -> None:
    for shape in ((1,), (7, 5), (100_003,)):
        tensor = mine(shape)
        exact = sum(
            torch.randn(shape, generator=torch.Generator().manual_seed(rank)).double() for rank in range(SIZE)
        )
        dist.all_reduce(tensor, group=group)
        torch.testing.assert_close(tensor.double(), exact, rtol=1e-5, atol=1e-5)
        everybody = [torch.empty_like(tensor) for _ in range(SIZE)]
        dist.all_gather(everybody, tensor)
        assert all(torch.equal(tensor, other) for other in everybody)


@check
def all_reduce_of_bits_and_a_mean(group: Any) -> None:
    for op in (dist.ReduceOp.BAND, dist.ReduceOp.BOR, dist.ReduceOp.BXOR):

        def run(chosen: Any, op: Any = op) -> list[Tensor]:
            tensor = mine(dtype=torch.int32)
            dist.all_reduce(tensor, op, group=chosen)
            return [tensor]

        on_both(group, run)
    tensor = torch.full((4,), float(dist.get_rank()))
    dist.all_reduce(tensor, dist.ReduceOp.AVG, group=group)
    assert tensor.tolist() == [1.0] * 4


@check
def all_reduce_of_a_part_of_a_tensor(group: Any) -> None:
    def run(chosen: Any) -> list[Tensor]:
        tensor = mine((6, 6), torch.int64)
        dist.all_reduce(tensor[:, 1:3], group=chosen) if chosen is not None else tensor[:, 1:3].copy_(
            summed(tensor[:, 1:3])
        )
        return [tensor]

    on_both(group, run)


def summed(tensor: Tensor) -> Tensor:
    whole = tensor.contiguous()
    dist.all_reduce(whole)
    return whole


@check
def bfloat16_and_float16(group: Any) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        tensor = torch.full((9,), 1.0 + dist.get_rank(), dtype=dtype)
        dist.all_reduce(tensor, group=group)
        assert tensor.dtype == dtype
        assert tensor.tolist() == [6.0] * 9


@check
def coalesced(group: Any) -> None:
    tensors = [torch.full((2,), 1.0 + dist.get_rank()), torch.full((3, 2), 10.0)]
    dist.all_reduce_coalesced(tensors, group=group)
    assert tensors[0].tolist() == [6.0, 6.0]
    assert tensors[1].tolist() == [[30.0, 30.0]] * 3


@check
def broadcast(group: Any) -> None:
    for root in range(SIZE):

        def run(chosen: Any, root: int = root) -> list[Tensor]:
            tensor = mine()
            dist.broadcast(tensor, root, group=chosen)
            return [tensor]

        on_both(group, run)


@check
def reduce(group: Any) -> None:
    for root in range(SIZE):

        def run(chosen: Any, root: int = root) -> list[Tensor]:
            tensor = mine(dtype=torch.int64)
            dist.reduce(tensor, root, group=chosen)
            return [tensor] if dist.get_rank() == root else []

        on_both(group, run)


@check
def all_gather_gather_and_scatter(group: Any) -> None:
    def run(chosen: Any) -> list[Tensor]:
        found = [torch.zeros(5, 3) for _ in range(SIZE)]
        dist.all_gather(found, mine(), group=chosen)
        at_root = [torch.zeros(5, 3) for _ in range(SIZE)] if dist.get_rank() == 2 else None
        dist.gather(mine(seed=1), at_root, dst=2, group=chosen)
        part = torch.zeros(5, 3)
        dist.scatter(part, [mine(seed=s) for s in range(SIZE)] if dist.get_rank() == 1 else None, 1, chosen)
        single = torch.zeros(SIZE * 5, 3)
        dist.all_gather_into_tensor(single, mine(seed=2), group=chosen)
        return [*found, *(at_root or []), part, single]

    on_both(group, run)


@check
def reduce_scatter(group: Any) -> None:
    output = torch.zeros(4, dtype=torch.int64)
    dist.reduce_scatter(output, [torch.full((4,), rank + 1) for rank in range(SIZE)], group=group)
    assert output.tolist() == [SIZE * (dist.get_rank() + 1)] * 4
    flat = torch.zeros(2, dtype=torch.int64)
    dist.reduce_scatter_tensor(flat, torch.arange(2 * SIZE), group=group)
    assert flat.tolist() == [SIZE * 2 * dist.get_rank(), SIZE * (2 * dist.get_rank() + 1)]


@check
def all_to_all(group: Any) -> None:
    rank = dist.get_rank()
    outputs = [torch.zeros(2) for _ in range(SIZE)]
    dist.all_to_all(outputs, [torch.full((2,), 10.0 * rank + to) for to in range(SIZE)], group=group)
    assert [output[0].item() for output in outputs] == [10.0 * of + rank for of in range(SIZE)]
    sizes = [(rank + to) % SIZE for to in range(SIZE)]  # none for some

    def run(chosen: Any) -> list[Tensor]:
        output = torch.zeros(sum(sizes), 2)
        dist.all_to_all_single(output, mine((sum(sizes), 2)), sizes, sizes, group=chosen)
        return [output]

    on_both(group, run)


@check
def messages(group: Any) -> None:
    rank = dist.get_rank()
    if rank == 0:
        dist.send(torch.tensor([1.0]), 1, group=group, tag=5)
        dist.send(torch.tensor([2.0]), 1, group=group, tag=6)
        late: Any = dist.isend(torch.ones(100_000), 1, group=group)
        late.wait()
    elif rank == 1:
        first, second, large = torch.zeros(1), torch.zeros(1), torch.zeros(100_000)
        dist.recv(second, 0, group=group, tag=6)  # by tag, not in order
        dist.recv(first, 0, group=group, tag=5)
        assert (first.item(), second.item()) == (1.0, 2.0)
        coming: Any = dist.irecv(large, 0, group=group)
        coming.wait()
        assert large.sum().item() == 100_000
    else:
        dist.send(torch.tensor([7.0]), 0, group=group, tag=1)
    if rank == 0:
        anybody = torch.zeros(1)
        assert dist.recv(anybody, group=group, tag=1) == 2
        assert anybody.item() == 7.0


@check
def a_sparse_sum(group: Any) -> None:
    rank = dist.get_rank()
    tensor = torch.sparse_coo_tensor(torch.tensor([[rank, 5]]), torch.tensor([1.0 + rank, 1.0]), (8,))
    dist.all_reduce(tensor, group=group)
    assert tensor.to_dense().tolist() == [1.0, 2.0, 3.0, 0.0, 0.0, 3.0, 0.0, 0.0]


@check
def many_at_once(group: Any) -> None:
    tensors = [torch.full((1000,), float(at)) for at in range(20)]
    works = [dist.all_reduce(tensor, group=group, async_op=True) for tensor in tensors]
    done = works[-1].get_future().then(lambda future: future.value()[0].sum().item())
    for work in works:
        work.wait()
    assert [tensor[0].item() for tensor in tensors] == [SIZE * at for at in range(20)]
    assert done.wait() == 1000.0 * SIZE * 19
    assert works[0].is_completed()
    assert works[0].is_success()


@check
def a_smaller_group(group: Any) -> None:
    pair = dist.new_group([0, 2], backend="duetlink")
    if dist.get_rank() != 1:
        tensor = torch.tensor([1.0 + dist.get_rank()])
        dist.all_reduce(tensor, group=pair)
        assert tensor.item() == 4.0
        assert dist.get_group_rank(pair, 2) == 1
        assert pair.collectives.explain("all_reduce", 1).chosen.algorithm == "shared"


@check
def ranks_of_one_host_sum_in_shared_memory(group: Any) -> None:
    tensor = torch.full((3_000_000,), 1.0 + dist.get_rank())
    before = group.collectives.engine.sent_bytes
    dist.all_reduce(tensor, group=group)
    assert (tensor.min().item(), tensor.max().item()) == (6.0, 6.0)
    assert group.collectives.engine.sent_bytes == before


@check
def objects_are_refused(group: Any) -> None:
    with pytest.raises(RuntimeError, match="allow_pickle"):
        dist.all_gather_object([None] * SIZE, {"a": 1}, group=group)
    if dist.get_rank() == 0:  # who sends is refused before anything has left
        with pytest.raises(RuntimeError, match="allow_pickle"):
            dist.broadcast_object_list([{"a": 1}], 0, group=group)


@check
def objects_where_all_ranks_are_trusted(group: Any) -> None:
    import duetlink.groups.torch

    options = duetlink.groups.torch.Options(allow_pickle=True)
    trusting = dist.new_group(backend="duetlink", pg_options=options)
    found: list[Any] = [None] * SIZE
    dist.all_gather_object(found, {"rank": dist.get_rank()}, group=trusting)
    assert found == [{"rank": 0}, {"rank": 1}, {"rank": 2}]


@check
def different_calls_are_told_to_all(group: Any) -> None:
    other = dist.new_group(backend="duetlink")
    with pytest.raises(OperationMismatch) as found:
        if dist.get_rank() == 0:
            dist.broadcast(torch.zeros(3), 0, group=other)  # who sends may be through before it is known
            dist.barrier(group=other)
        else:
            dist.all_reduce(torch.zeros(3), group=other)
    assert "broadcast(float32[3]" in str(found.value)
    assert "all_reduce(float32[3]" in str(found.value)


@check
def an_operation_that_others_do_not_call_ends_in_time(group: Any) -> None:
    other = dist.new_group(backend="duetlink", timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        with pytest.raises(RuntimeError, match="barrier: Timed out after 1 s"):
            dist.barrier(group=other)


@check
def ddp_learns_the_same_bits_as_with_gloo(group: Any) -> None:
    pair_ours = dist.new_group([0, 1], backend="duetlink")
    pair_theirs = dist.new_group([0, 1])
    if dist.get_rank() == 2:
        return
    learnt = []
    for chosen in (pair_ours, pair_theirs):
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
        parallel = nn.parallel.DistributedDataParallel(model, process_group=chosen)
        optimizer = torch.optim.SGD(parallel.parameters(), lr=0.1, momentum=0.9)
        for step in range(5):
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(parallel(mine((16, 20), seed=step)), torch.arange(16) % 5)
            loss.backward()
            optimizer.step()
        learnt.append([p.detach().clone() for p in model.parameters()])
    for left, right in zip(*learnt, strict=True):
        same(left, right)


@check
def private_training_learns_what_one_alone_would(group: Any) -> None:
    """At sigma 0, by gloo's sums and by ours; one rank has no row in the second step."""
    x, y = torch.randn(12, 20, generator=torch.Generator().manual_seed(3)), torch.arange(12) % 5
    parts = [[range(5), range(5, 7), range(7, 9)], [range(9, 11), range(0), range(11, 12)]]

    def make(chosen: Any) -> tuple[DpSgd, nn.Module]:
        torch.manual_seed(1)
        model = nn.Sequential(nn.Linear(20, 64), nn.ReLU(), nn.Linear(64, 5))
        optimizer, loss = torch.optim.SGD(model.parameters(), lr=0.1), nn.CrossEntropyLoss(reduction="none")
        settings: dict[str, Any] = {"rows": 12, "batch": 6, "clip": 0.5, "noise": 0.0}
        return DpSgd(model, optimizer, loss, group=chosen, trust="leader", **settings), model

    alone, expected = make(None)
    for step in parts:
        rows = [row for part in step for row in part]
        alone.step(x[rows], y[rows])
    for chosen in (group, dist.group.WORLD):
        training, model = make(chosen)
        for step in parts:
            rows = list(step[dist.get_rank()])
            training.step(x[rows], y[rows])
        for found, one in zip(model.parameters(), expected.parameters(), strict=True):
            torch.testing.assert_close(found, one, rtol=1e-6, atol=1e-6)
    with pytest.raises(ValueError, match="makes no secure sums"):
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        DpSgd(model, optimizer, nn.MSELoss(), rows=1, batch=1, clip=1.0, noise=0.0, group=group)


@functools.cache
def digits() -> tuple[Tensor, Tensor]:
    """scikit-learn's, without importing it, which takes longer than these checks."""
    spec = importlib.util.find_spec("sklearn")
    assert spec is not None
    assert spec.origin is not None
    table = np.loadtxt(Path(spec.origin).parent / "datasets/data/digits.csv.gz", np.float32, delimiter=",")
    return torch.from_numpy(table[:, :-1]) / 16.0, torch.from_numpy(table[:, -1]).long()


def trained(parallel: nn.Module, steps: int, lr: float = 0.1) -> float:
    """The share of digits that it knows, after some steps on this rank's part of them."""
    pictures, labels = digits()
    optimizer = torch.optim.SGD(parallel.parameters(), lr=lr)
    for step in range(steps):
        chosen = torch.arange(step * 128 + dist.get_rank(), step * 128 + 128, SIZE) % 1500
        optimizer.zero_grad()
        nn.functional.cross_entropy(parallel(pictures[chosen]), labels[chosen]).backward()
        optimizer.step()
    with torch.no_grad():
        return float((parallel(pictures[1500:]).argmax(1) == labels[1500:]).float().mean())


def parallel_model(group: Any) -> nn.parallel.DistributedDataParallel:
    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    return nn.parallel.DistributedDataParallel(model, process_group=group)


def weights(model: nn.Module) -> Tensor:
    return torch.cat([parameter.detach().reshape(-1) for parameter in model.parameters()])


@check
def ddp_with_sums_by_a_lossless_codec_learns_the_same(group: Any) -> None:
    from duetlink.groups.torch import hooks

    plain = parallel_model(group)
    trained(plain, 3)
    for codec in ("sparse", "union"):
        hooked = parallel_model(group)
        hooked.register_comm_hook(hooks.Summed(codec, process_group=group), hooks.summed)
        trained(hooked, 3)
        # a union is summed by messages, in another order than in shared memory
        torch.testing.assert_close(weights(hooked), weights(plain), rtol=0, atol=1e-6)


@check
def ddp_learns_digits_from_the_rows_that_all_agree_on(group: Any) -> None:
    from duetlink.groups.torch import hooks

    model = parallel_model(group)
    state = hooks.Summed("agreed:0.2", process_group=group)
    model.register_comm_hook(state, hooks.summed)
    share = trained(model, 25, lr=0.5)
    assert share > 0.5, share
    everybody_has(weights(model))


@check
def ddp_learns_digits_from_compressed_gradients(group: Any) -> None:
    from duetlink.codecs import gradients
    from duetlink.groups.torch import hooks

    ways = {
        "block8": gradients.Quantised("block8"),
        "top-k": gradients.TopK(0.1, value="natural"),
        "dgc": gradients.Dgc(0.1, momentum=0.5, workers=SIZE),
        "random-k": gradients.RandomK(0.25),
        "power-sgd": gradients.PowerSgd(2),
    }
    for name, compressor in ways.items():
        state = hooks.Compressed(compressor, process_group=group)
        model = parallel_model(group)
        model.register_comm_hook(state, hooks.compressed)
        share = trained(model, 25, lr=0.5)
        assert share > 0.6, (name, share)
        assert state.sent_bytes < 0.6 * state.plain_bytes, name
        everybody_has(weights(model))


def everybody_has(tensor: Tensor) -> None:
    everybody = [torch.empty_like(tensor) for _ in range(SIZE)]
    dist.all_gather(everybody, tensor)
    assert all(torch.equal(tensor, other) for other in everybody)


@check
def gradients_go_by_every_lossy_codec(group: Any) -> None:
    from duetlink.data.codecs import codecs
    from duetlink.data.codecs.element import FLOAT32
    from duetlink.groups.torch import hooks

    names = [codec.name for codec in codecs() if codec.accepts(FLOAT32) and not codec.lossless]
    assert {"block4", "natural", "qsgd", "bfloat16", "float16", "low_rank", "random_subset"} <= set(names)
    for name in names:
        state = hooks.Compressed(name, process_group=group)
        model = parallel_model(group)
        before = weights(model)
        model.register_comm_hook(state, hooks.compressed)
        trained(model, 1)
        assert not torch.equal(weights(model), before), name
        everybody_has(weights(model))


@check
def a_rank_without_gradients_is_named_to_all(group: Any) -> None:
    from duetlink.groups.torch import hooks

    state = hooks.Compressed("block8", process_group=group)
    model = parallel_model(group)
    model.register_comm_hook(state, hooks.compressed)
    trained(model, 1)
    before = state.compressor.state_dict()
    inputs = torch.full((1, 64), float("nan") if dist.get_rank() == 1 else 1.0)
    with pytest.raises(RuntimeError, match=r"rank 1 has no gradients for this step: .* not finite"):
        model(inputs).sum().backward()
    after = state.compressor.state_dict()
    assert before.keys() == after.keys()
    assert all(np.array_equal(after[name], before[name]) for name in before)


@contextlib.contextmanager
def accelerator(kind: Callable[[], Any]) -> Iterator[Any]:
    with pytest.MonkeyPatch.context() as patch:
        yield installed(kind, patch)


@check
def tensors_on_an_accelerator(group: Any) -> None:
    """Every operation, called before the device has done the work that makes its tensors."""
    rank, everybody = dist.get_rank(), range(SIZE)
    for kind in DEVICES:
        with accelerator(kind) as device, device.own_stream():

            def later(content: Tensor, device: Any = device) -> Any:
                found = device.tensor(torch.full_like(content, -7))
                device.later(found, content)
                return found

            def filled(value: float, *shape: int) -> Tensor:
                return torch.full(shape or (5,), float(value))

            def check_all(tensors: list[Any], expected: list[Tensor], device: Any = device) -> None:
                for tensor, content in zip(tensors, expected, strict=True):
                    same(device.read(tensor), content)

            summed = later(filled(rank + 1))
            dist.all_reduce(summed, group=group)
            two = [later(filled(rank)), later(filled(1, 2, 3))]
            dist.all_reduce_coalesced(two, group=group)
            check_all([summed, *two], [filled(6), filled(3), filled(3, 2, 3)])
            part = later(filled(rank, 4, 3))
            dist.all_reduce(part.t(), dist.ReduceOp.MAX, group=group)
            check_all([part], [filled(2, 4, 3)])
            from_1 = later(filled(rank))
            dist.broadcast(from_1, 1, group=group)
            at_2 = later(filled(rank))
            dist.reduce(at_2, 2, group=group)
            check_all([from_1, at_2], [filled(1), filled(3 if rank == 2 else rank)])
            gathered = [later(filled(-1)) for _ in everybody]
            dist.all_gather(gathered, later(filled(rank)), group=group)
            at_0 = [later(filled(-1)) for _ in everybody] if rank == 0 else None
            dist.gather(later(filled(rank)), at_0, 0, group=group)
            check_all(
                [*gathered, *(at_0 or [])], [*map(filled, everybody), *map(filled, everybody if at_0 else [])]
            )
            given = [later(filled(10 * to)) for to in everybody] if rank == 1 else None
            scattered = later(filled(-1))
            dist.scatter(scattered, given, 1, group=group)
            mine_of = later(filled(-1))
            dist.reduce_scatter(mine_of, [later(filled(to)) for to in everybody], group=group)
            check_all([scattered, mine_of], [filled(10 * rank), filled(SIZE * rank)])
            single = later(filled(-1, 2 * SIZE))
            dist.all_gather_into_tensor(single, later(filled(rank, 2)), group=group)
            flat = later(filled(-1, 2))
            dist.reduce_scatter_tensor(flat, later(torch.arange(2.0 * SIZE)), group=group)
            check_all(
                [single, flat], [torch.tensor([0.0, 0, 1, 1, 2, 2]), SIZE * torch.arange(2.0) + 6 * rank]
            )
            swapped = [later(filled(-1)) for _ in everybody]
            dist.all_to_all(swapped, [later(filled(10 * rank + to)) for to in everybody], group=group)
            rows = later(filled(-1, SIZE, 2))
            dist.all_to_all_single(rows, later(filled(rank, SIZE, 2)), group=group)
            check_all(swapped, [filled(10 * of + rank) for of in everybody])
            check_all([rows], [torch.arange(3.0).view(3, 1).expand(3, 2)])
            if rank == 0:
                dist.send(later(filled(8)), 1, group=group)
            elif rank == 1:
                received = later(filled(-1))
                assert dist.recv(received, 0, group=group) == 0
                check_all([received], [filled(8)])
            works = [dist.all_reduce(later(filled(at)), group=group, async_op=True) for at in range(4)]
            assert [work.wait() for work in works] == [True] * 4
            check_all([works[3].result()[0]], [filled(9)])
            mixed = [filled(1), later(filled(2))]
            dist.all_reduce_coalesced(mixed, group=group)
            assert mixed[0].tolist() == [3.0] * 5
            check_all(mixed[1:], [filled(6)])
            empty = later(filled(0, 0, 3))
            dist.all_reduce(empty, group=group)
            check_all([empty], [filled(0, 0, 3)])


@check
def hooks_take_gradients_on_an_accelerator(group: Any) -> None:
    from duetlink.groups.torch import hooks

    for kind in (FakeDevice, *GPUS):  # torch makes no futures of a simulated one
        with accelerator(kind) as device, device.own_stream():
            gradient = device.tensor(torch.zeros(64))
            parameter = torch.nn.Parameter(torch.zeros(64))
            bucket: Any = SimpleNamespace(
                gradients=lambda gradient=gradient: [gradient],
                buffer=lambda gradient=gradient: gradient,
                parameters=lambda parameter=parameter: [parameter],
            )
            device.later(gradient, torch.full((64,), 3.0 * dist.get_rank()))
            mean = hooks.compressed(hooks.Compressed("float16", process_group=group), bucket).wait()
            assert device.read(mean).tolist() == [3.0] * 64
            device.later(gradient, torch.full((64,), 1.0))
            summed = hooks.summed(hooks.Summed("sparse", process_group=group), bucket).wait()
            assert device.read(summed).tolist() == [1.0] * 64


@check
def what_has_no_host_copy_is_refused(group: Any) -> None:
    with pytest.raises(UnsupportedValue, match=r"on meta: this backend takes tensors on the CPU, and dense"):
        dist.all_reduce(torch.empty(3, device="meta"), group=group)
    assert group._device_types[0] == torch.device("cpu")


@check
def a_backend_for_each_device_is_duetlinks(group: Any) -> None:
    """In torch up to 2.13, a `ProcessGroup` in Python is the group of all devices."""
    mixed = dist.new_group(backend="cpu:duetlink,cuda:nccl")
    assert dist.get_world_size(mixed) == SIZE
    for kind in DEVICES:
        with accelerator(kind) as device:
            tensors = [torch.ones(2), device.tensor(torch.ones(2))]
            for tensor in tensors:
                dist.all_reduce(tensor, group=mixed)
            assert [tensors[0].tolist(), device.read(tensors[1]).tolist()] == [[3.0, 3.0]] * 2


@check
def dtensors_are_multiplied_and_laid_out_anew(group: Any) -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.tensor import Replicate, Shard, distribute_tensor

    mesh = DeviceMesh.from_group(group, "cpu")
    whole = torch.arange(36.0).reshape(6, 6)
    rows = distribute_tensor(whole, mesh, [Shard(0)])
    assert rows.to_local().tolist() == whole[2 * dist.get_rank() :][:2].tolist()
    columns = rows.redistribute(mesh, [Shard(1)])
    assert columns.to_local().tolist() == whole[:, 2 * dist.get_rank() :][:, :2].tolist()
    products: list[Any] = [rows @ distribute_tensor(whole, mesh, [Replicate()]), columns @ rows]
    for product in products:
        same(product.full_tensor(), whole @ whole)


@check
def a_monitored_barrier_names_who_has_not_come(group: Any) -> None:
    from duetlink.groups.torch import monitored_barrier

    watched = dist.new_group(backend="duetlink")
    rank = dist.get_rank()
    monitored_barrier(watched, timedelta(seconds=60))
    if rank == 0:
        with pytest.raises(GroupError, match="Ranks 1, 2 failed to pass monitoredBarrier in 50 ms"):
            monitored_barrier(watched, 0.05, wait_all_ranks=True)
    watched = dist.new_group(backend="duetlink")
    if rank == 0:
        with pytest.raises(GroupError, match="Rank 1 failed to pass monitoredBarrier in 300 ms"):
            monitored_barrier(watched, 0.3)
    elif rank == 2:
        with pytest.raises(GroupError, match="Rank 2 successfully reached monitoredBarrier, but"):
            monitored_barrier(watched, 1.0)
    dist.barrier()


@check
def a_group_is_reconfigured(group: Any) -> None:
    """torch's contract: a list fixes ranks, a set leaves them open, a uuid is used once."""
    from duetlink.groups.torch import Reconfigure

    here = dist.new_group(backend="duetlink")
    rank = dist.get_rank()

    def handles() -> list[str]:
        text = here.get_reconfigure_handle().encode()
        found = [torch.zeros(len(text), dtype=torch.uint8) for _ in range(SIZE)]
        dist.all_gather(found, torch.frombuffer(bytearray(text), dtype=torch.uint8))
        return [bytes(each.tolist()).decode() for each in found]

    def summed() -> float:
        tensor = torch.tensor([1.0 + here.rank()])
        here.allreduce([tensor]).wait()
        return tensor.item()

    every = handles()
    assert here.reconfigure(Reconfigure(1, every[::-1])).wait()
    assert (here.rank(), here.size(), summed()) == (2 - rank, 3, 6.0)
    assert here.collectives.explain("all_reduce", 1).chosen.algorithm == "shared"
    if rank != 1:  # a middle rank stays away
        here.reconfigure(Reconfigure(2, [every[0], every[2]])).wait()
        assert (here.rank(), here.size(), summed()) == (rank // 2, 2, 3.0)
    dist.barrier()
    here.reconfigure(Reconfigure(10 + rank, [every[rank]])).wait()
    assert (here.rank(), here.size(), summed()) == (0, 1, 1.0)
    here.abort()
    here.reconfigure(Reconfigure(3, frozenset(every), timedelta(seconds=60), {"any": "hint"})).wait()
    assert (here.rank(), here.size(), summed()) == (rank, 3, 6.0)
    with pytest.raises(GroupError, match="uuid 3 was already used"):
        here.reconfigure(Reconfigure(3, every))
    for wrong in (
        [],
        [every[rank], every[rank]],
        [*every, "duetlink:0:99"],
        every[:rank] + every[rank + 1 :],
    ):
        with pytest.raises(GroupError):
            here.reconfigure(Reconfigure(4, wrong))
    assert summed() == 6.0  # what was refused has changed nothing


@check
def a_backend_written_in_python_is_for_a_later_torch(group: Any) -> None:
    import duetlink.groups.torch

    options = duetlink.groups.torch.Options(as_backend=True)
    with pytest.raises(GroupError, match=r"takes no Backend that is written in Python, 2\.14 does"):
        dist.new_group(backend="duetlink", pg_options=options)


@check
def fsdp_shards_and_trains(group: Any) -> None:
    from torch.distributed.device_mesh import DeviceMesh
    from torch.distributed.fsdp import fully_shard

    torch.manual_seed(1)
    model = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
    alone = nn.Sequential(nn.Linear(12, 24), nn.ReLU(), nn.Linear(24, 3))
    alone.load_state_dict(model.state_dict())
    mesh = DeviceMesh.from_group(group, "cpu")
    for layer in model:
        if isinstance(layer, nn.Linear):
            fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    inputs = torch.arange(48.0).reshape(4, 12) / 48.0
    for each in (model, alone):
        optimizer = torch.optim.SGD(each.parameters(), lr=0.1)
        for _ in range(3):
            optimizer.zero_grad()
            each(inputs).square().sum().backward()
            optimizer.step()
    for sharded, whole in zip(model.parameters(), alone.parameters(), strict=True):
        part: Any = sharded
        torch.testing.assert_close(part.full_tensor(), whole.detach(), rtol=1e-5, atol=1e-6)


@met
def the_store_is_one_for_all_ranks(place: Path) -> None:
    store = dist.distributed_c10d._get_default_store()
    rank = dist.get_rank()
    if rank == 1:
        store.set("greeting", "from 1")
    assert store.get("greeting") == b"from 1"
    assert store.add("count", 1 + rank) >= 1 + rank
    dist.barrier()
    assert store.get("count") == b"6"
    store.wait(["count", "greeting"])
    assert not store.check(["count", "nobody sets this"])
    assert store.compare_set("greeting", "from 1", "changed") == b"changed"
    dist.barrier()
    if rank == 2:
        assert store.delete_key("greeting")
    with pytest.raises(RuntimeError, match=r"Timed out after .* no rank has set"):
        store.wait(["nobody sets this"], timedelta(milliseconds=50))


@met
def ranks_that_met_by_a_code_reduce_and_make_groups(place: Path) -> None:
    assert dist.get_backend() == "duetlink"
    assert dist.get_world_size() == SIZE
    tensor = torch.tensor([1.0 + dist.get_rank()])
    dist.all_reduce(tensor)
    assert tensor.item() == 6.0
    pair = dist.new_group([0, 1])
    if dist.get_rank() < 2:
        dist.all_reduce(tensor, group=pair)
        assert tensor.item() == 12.0


@met
def who_leaves_right_after_a_send_is_still_heard(place: Path) -> None:
    """Rank 0 sends and ends its job; the others ask for what it sent when it has gone."""
    rank = dist.get_rank()
    if rank == 0:
        for number in range(MESSAGES):
            for to in (1, 2):
                dist.send(torch.full((15_000,), float(number)), to)
        dist.destroy_process_group()
        (place / "gone").write_text("", encoding="utf-8")
        return
    while not (place / "gone").exists():
        time.sleep(0.01)
    tensor = torch.zeros(15_000)
    for number in range(MESSAGES):
        dist.recv(tensor, 0)
        assert tensor.unique().tolist() == [number]


def meet(rank: int, place: Path) -> None:
    """The ranks meet by the line that rank 0 is shown, as a person would pass it on."""
    line = place / "line"
    if rank == 0:

        class Shown(io.StringIO):
            def write(self, text: str) -> int:
                if "init_process_group" in text:
                    line.with_suffix(".new").write_text(text, encoding="utf-8")
                    line.with_suffix(".new").rename(line)
                return len(text)

        with contextlib.redirect_stdout(Shown()):
            dist.init_process_group("duetlink", init_method=f"duetlink://?size={SIZE}")
        return
    while not line.exists():
        time.sleep(0.01)
    (command,) = re.findall(r"torch\.distributed\.init_process_group\(.*\)", line.read_text(encoding="utf-8"))
    exec(command, {"torch": torch})  # this test's own line


def rank_main(
    rank: int, directory: str, port: int, names: tuple[str, ...], met_names: tuple[str, ...]
) -> None:
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
    group = dist.new_group(backend="duetlink")
    for name in names:
        tell(name, functools.partial(CHECKS[name], group))
        dist.barrier()
    tell("end", dist.destroy_process_group)
    tell("meet", functools.partial(meet, rank, place))
    for name in met_names:
        tell(name, functools.partial(MET[name], place))
    if dist.is_initialized():
        dist.destroy_process_group()
    theirs = torch_cases.Cases(rank, directory, port)
    for name in torch_cases.IN_CI:
        (place / f"{name}-{rank}").write_text(theirs.run(name), encoding="utf-8")


def run(directory: Path) -> None:
    """All checks on all ranks; the outcomes are files in the directory."""
    port = free_port()
    multiprocessing.spawn(rank_main, (str(directory), port, tuple(CHECKS), tuple(MET)), nprocs=SIZE)
