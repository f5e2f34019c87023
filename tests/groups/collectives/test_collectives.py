"""Every operation on every kind of value, against NumPy, for 2 to 9 members."""

from __future__ import annotations

import asyncio
import functools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import torch

from duetlink.errors import OperationMismatch, SettingError, UnsupportedValue
from duetlink.groups.collectives import averaging
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.execution.layout import Whole
from duetlink.groups.collectives.point_to_point import Received
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.schedules.algorithms import ALGORITHMS
from duetlink.groups.links.transport import Transport
from duetlink.testing.transports import MemoryNetwork, MemoryTransport, TransportContract
from tests.groups.collectives.conftest import MakeGroup

SIZES = range(2, 10)
REFERENCE: dict[str, Any] = {"sum": np.add, "min": np.minimum, "max": np.maximum, "prod": np.multiply}
REFERENCE |= {"and": np.bitwise_and, "or": np.bitwise_or, "xor": np.bitwise_xor}
FLOATS = ("float16", "float32", "float64", "complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


class TestMemoryTransport(TransportContract):
    async def connect(self, size: int) -> list[Transport]:
        self.network = MemoryNetwork(size)
        return list[Transport](self.network.transports)

    async def lose(self, rank: int) -> None:
        self.network.lose(rank)


def parts(size: int, shape: tuple[int, ...], dtype: str = "float32") -> list[np.ndarray]:
    """What each member gives: small integers, whose sums and products are exact in every kind of item."""
    random = np.random.default_rng(size)
    return [random.integers(0, 3, shape).astype(dtype) for _ in range(size)]


def reduced(arrays: list[np.ndarray], op: str) -> np.ndarray:
    if op == "mean":
        return np.asarray(functools.reduce(np.add, arrays) / arrays[0].dtype.type(len(arrays)))
    return np.asarray(functools.reduce(REFERENCE[op], arrays))


def same(found: object, expected: np.ndarray) -> bool:
    """Bit for bit, with shape and dtype."""
    assert isinstance(found, np.ndarray), found
    return (found.dtype, found.shape, found.tobytes()) == (expected.dtype, expected.shape, expected.tobytes())


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("algorithm", list(ALGORITHMS["all_reduce"]))
async def test_all_reduce_of_any_shape(make_group: MakeGroup, algorithm: str, size: int) -> None:
    group = make_group(size)
    for shape in ((), (0,), (1,), (7,), (2, 0, 3), (1031,)):
        arrays = parts(size, shape)
        found = await group.all(
            lambda m, a=arrays: m.all_reduce(a[m.rank], ReduceOptions(algorithm=algorithm))
        )
        assert all(same(each, reduced(arrays, "sum")) for each in found), shape


@pytest.mark.parametrize("dtype", [*FLOATS, *INTEGERS, "bool"])
async def test_all_reduce_of_any_kind_of_item_and_operation(make_group: MakeGroup, dtype: str) -> None:
    group = make_group(3)
    arrays = parts(3, (5, 3), dtype)
    for op in ("sum", "min", "max", "prod", "and", "or", "xor", "mean"):
        if op in ("and", "or", "xor") and dtype in FLOATS:
            continue
        if (op in ("min", "max") and dtype.startswith("complex")) or (op == "mean" and dtype not in FLOATS):
            continue
        found = await group.all(lambda m, op=op: m.all_reduce(arrays[m.rank], ReduceOptions(op)))
        assert all(same(each, reduced(arrays, op)) for each in found), op


async def test_what_has_no_meaning_is_refused_before_anything_is_sent(make_group: MakeGroup) -> None:
    group = make_group(2)
    for value, op in (
        (np.ones(3), "and"),
        (np.ones(3, complex), "min"),
        (np.ones(3, bool), "mean"),
        (np.array(["a"]), "sum"),
        (np.ones(3, "datetime64[s]"), "sum"),
        (torch.ones(3, dtype=torch.float8_e5m2), "sum"),
        (pa.array([1, None]), "sum"),
        ("text", "sum"),
        ({1: np.ones(3)}, "sum"),
        ([], "sum"),
        (2**70, "sum"),
    ):
        with pytest.raises(UnsupportedValue):
            await group.members[0].all_reduce(value, ReduceOptions(op))
    with pytest.raises(SettingError, match="no operation 'sub'; there are sum"):
        await group.members[0].all_reduce(np.ones(3), ReduceOptions("sub"))
    with pytest.raises(SettingError, match="no algorithm 'magic'; it has naive, butterfly"):
        await group.members[0].all_reduce(np.ones(3), ReduceOptions(algorithm="magic"))
    async with asyncio.timeout(10):  # and not after it has told the others something
        for call in (group.members[0].reduce, group.members[0].gather):
            with pytest.raises(SettingError, match="no rank 5 in a group of 2; ranks are 0 to 1"):
                await call(np.ones(3), root=5)
        for weight in (-1.0, np.nan, np.inf, "many"):
            with pytest.raises(SettingError, match="weight is"):
                await averaging.average(group.members[0], np.ones(3), weight, "")  # type: ignore[arg-type]
        for value in (np.ones(3, complex), torch.ones(3, dtype=torch.complex64), np.array(["a"]), {}, "text"):
            with pytest.raises(UnsupportedValue):
                await averaging.average(group.members[0], value, 2.0, "")
    assert await group.all(lambda m: m.all_reduce(m.rank)) == [1, 1]  # and the group goes on


@pytest.mark.parametrize("algorithm", list(ALGORITHMS["all_reduce"]))
@pytest.mark.parametrize("size", [2, 3, 5, 8])
async def test_all_members_have_the_same_bits(make_group: MakeGroup, algorithm: str, size: int) -> None:
    random = np.random.default_rng(3)
    arrays = [
        random.normal(size=1003).astype(np.float32) * 10.0 ** random.integers(-6, 6) for _ in range(size)
    ]
    arrays[0][:4] = (np.nan, np.inf, -0.0, 1e-42)
    arrays[1][:4] = (-np.nan, -np.inf, 0.0, 1e-42)
    group = make_group(size)
    for op in ("sum", "min", "prod", "mean"):
        found = await group.all(
            lambda m, op=op: m.all_reduce(arrays[m.rank], ReduceOptions(op, algorithm=algorithm))
        )
        with np.errstate(all="ignore"):
            exact = np.stack(arrays).astype(np.float64)
            expected = {
                "sum": exact.sum(0),
                "mean": exact.mean(0),
                "min": exact.min(0),
                "prod": exact.prod(0),
            }
        assert all(same(each, np.asarray(found[0])) for each in found)
        # each of size - 1 roundings is off by half a unit of the largest partial sum at most
        bound = (
            2.0**-24 * size * np.abs(exact).sum(0) if op in ("sum", "mean") else 1e-5 * np.abs(expected[op])
        )
        with np.errstate(all="ignore"):
            apart = np.abs(np.asarray(found[0], np.float64) - expected[op])[4:]
        assert (apart <= bound[4:] + 1e-37).all(), op


async def test_a_large_array_goes_in_parts(make_group: MakeGroup) -> None:
    group = make_group(3)
    arrays = parts(3, (3_000_001,), "int64")
    expected = reduced(arrays, "sum")
    for algorithm in ("ring", "butterfly"):
        found = await group.all(
            lambda m, a=algorithm: m.all_reduce(arrays[m.rank], ReduceOptions(algorithm=a))
        )
        assert all(same(each, expected) for each in found)
    assert Whole.of(3_000_001, 8, 3).parts == 16  # 24 MB in parts of three frames of 512 KiB
    assert Whole.of(3_000_001, 8, 1).parts == 46  # in parts of one


async def test_what_is_not_contiguous_or_of_the_other_byte_order(make_group: MakeGroup) -> None:
    group = make_group(2)
    base = np.arange(60, dtype=np.float32).reshape(6, 10)
    for array in (base[::2, 1::3], base.T, base[::-1], base.astype(">f4")):
        found = await group.all(lambda m, a=array: m.all_reduce(a))
        assert all(same(each, np.ascontiguousarray(array, "<f4") * 2) for each in found)
        mine = [array.copy("K") for _ in range(2)]
        back = await group.all(lambda m, a=mine: m.all_reduce(a[m.rank], ReduceOptions(in_place=True)))
        assert back[0] is mine[0]
        assert all((each == array * 2).all() for each in mine)
    strided = [np.ones((4, 4)) for _ in range(2)]
    await group.all(lambda m: m.all_reduce(strided[m.rank][::2, ::2], ReduceOptions(in_place=True)))
    assert strided[0].tolist() == [[2, 1, 2, 1], [1, 1, 1, 1]] * 2


async def test_in_place_and_not(make_group: MakeGroup) -> None:
    group = make_group(3)
    given = [np.full(4, rank, np.float32) for rank in range(3)]
    found = await group.all(lambda m: m.all_reduce(given[m.rank]))
    assert [each.tolist() for each in given] == [[0] * 4, [1] * 4, [2] * 4]
    assert all(same(each, np.full(4, 3, np.float32)) for each in found)
    back = await group.all(lambda m: m.all_reduce(given[m.rank], ReduceOptions(in_place=True)))
    assert all(each is mine for each, mine in zip(back, given, strict=True))
    assert [each.tolist() for each in given] == [[3] * 4] * 3
    with pytest.raises(UnsupportedValue, match="cannot be changed in place"):
        await group.members[0].all_reduce(1.0, ReduceOptions(in_place=True))


async def test_numbers_arrow_and_trees(make_group: MakeGroup) -> None:
    group = make_group(2)
    assert await group.all(lambda m: m.all_reduce(m.rank + 1)) == [3, 3]
    assert await group.all(lambda m: m.all_reduce(m.rank + 0.5, ReduceOptions("mean"))) == [1.0, 1.0]
    found = await group.all(lambda m: m.all_reduce(pa.array([1, m.rank], pa.int16())))
    assert found == [pa.array([2, 1], pa.int16())] * 2

    def tree(rank: int) -> dict[str, object]:
        return {"a": np.full(2, rank, np.float32), "b": [(rank, np.arange(3)), {}], "c": np.float32(rank)}

    for each in await group.all(lambda m: m.all_reduce(tree(m.rank))):
        assert isinstance(each, dict)
        assert (each["a"].tolist(), each["c"]) == ([1, 1], 1)
        assert each["b"][0][0] == 1
        assert each["b"][0][1].tolist() == [0, 2, 4]
        assert each["b"][1] == {}


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.float32, torch.int64, torch.bool])
async def test_tensors(make_group: MakeGroup, dtype: torch.dtype) -> None:
    group = make_group(3)
    tensors = [torch.tensor([[1, 0, 2], [rank, 3, 1]]).to(dtype) for rank in range(3)]
    expected = functools.reduce(torch.add, tensors)
    for each in await group.all(lambda m: m.all_reduce(tensors[m.rank])):
        assert isinstance(each, torch.Tensor)
        assert each.dtype == dtype
        assert each.equal(expected)
    mine = [tensor.clone() for tensor in tensors]
    await group.all(lambda m: m.all_reduce(mine[m.rank].t(), ReduceOptions(in_place=True)))
    assert all(each.equal(expected) for each in mine)


async def test_the_mean_of_a_state_dict(make_group: MakeGroup) -> None:
    group = make_group(3)
    models = [torch.nn.Sequential(torch.nn.Linear(3, 2), torch.nn.BatchNorm1d(2)) for _ in range(3)]
    for rank, model in enumerate(models):
        for value in model.state_dict().values():
            value.fill_(rank + 1 if value.is_floating_point() else 2**62 * (rank > 1) + rank)
    await group.all(lambda m: m.all_reduce(models[m.rank].state_dict(), ReduceOptions("mean", in_place=True)))
    for model in models:
        for name, value in model.state_dict().items():
            # (0 + 1 + 2**62 + 2) / 3, rounded to the nearest
            expected = 1537228672809129302 if name.endswith("num_batches_tracked") else 2
            assert (value == expected).all(), name


async def test_a_mean_of_small_integers_does_not_wrap(make_group: MakeGroup) -> None:
    group = make_group(3)
    for each in await group.all(
        lambda m: m.all_reduce(np.array([100, -100, m.rank], np.int8), ReduceOptions("mean"))
    ):
        assert same(each, np.array([100, -100, 1], np.int8))


@pytest.mark.parametrize("size", SIZES)
async def test_the_other_operations(make_group: MakeGroup, size: int) -> None:
    group = make_group(size)
    root = size - 2
    arrays = parts(size, (13,))
    total = reduced(arrays, "sum")

    for algorithm in ALGORITHMS["reduce"]:
        found = await group.all(lambda m, a=algorithm: m.reduce(arrays[m.rank], root, algorithm=a))
        assert same(found[root], total)
        assert found[:root] + found[root + 1 :] == [None] * (size - 1)

    found = await group.all(lambda m: m.broadcast(arrays[root] if m.rank == root else None, root))
    assert all(same(each, arrays[root]) for each in found)

    rows = await group.all(lambda m: m.all_gather(np.arange(m.rank, dtype=np.int16)))
    for row in rows:
        assert isinstance(row, list)
        assert all(same(each, np.arange(rank, dtype=np.int16)) for rank, each in enumerate(row))

    gathered = await group.all(lambda m: m.gather({"rank": m.rank}, root))
    assert gathered[root] == [{"rank": rank} for rank in range(size)]
    assert gathered[:root] + gathered[root + 1 :] == [None] * (size - 1)

    values = [np.full(rank, rank, np.float64) for rank in range(size)]
    found = await group.all(lambda m: m.scatter(values if m.rank == root else None, root))
    assert all(same(each, values[rank]) for rank, each in enumerate(found))

    for algorithm in ALGORITHMS["reduce_scatter"]:
        found = await group.all(
            lambda m, a=algorithm: m.reduce_scatter(
                [np.full(block, m.rank, np.int32) for block in range(size)], algorithm=a
            )
        )
        expected = size * (size - 1) // 2
        assert all(same(each, np.full(rank, expected, np.int32)) for rank, each in enumerate(found))

    rows = await group.all(lambda m: m.all_to_all([np.full(m.rank + to, m.rank) for to in range(size)]))
    for rank, row in enumerate(rows):
        assert isinstance(row, list)
        assert [each.tolist() for each in row] == [[of] * (of + rank) for of in range(size)]

    assert await group.all(lambda m: m.barrier()) == [None] * size


async def test_a_barrier_waits_for_the_last(make_group: MakeGroup) -> None:
    import asyncio

    group = make_group(4)
    early = [asyncio.ensure_future(member.barrier()) for member in group.members[:3]]
    done, _ = await asyncio.wait(early, timeout=0.1)
    assert not done
    await asyncio.gather(group.members[3].barrier(), *early)


async def test_broadcast_in_place(make_group: MakeGroup) -> None:
    group = make_group(3)
    arrays = [np.full((2, 2), rank, np.float32) for rank in range(3)]
    found = await group.all(lambda m: m.broadcast(arrays[m.rank], 1, in_place=True))
    assert all(each is mine for each, mine in zip(found, arrays, strict=True))
    assert all((each == 1).all() for each in arrays)


async def test_a_broadcast_into_another_form_fails_everywhere(make_group: MakeGroup) -> None:
    group = make_group(2)
    arrays = [np.ones(3), np.full(4, 7.0)]
    found = await group.all(lambda m: m.broadcast(arrays[m.rank], 0, in_place=True, call="a.py:1"))
    text = "rank 0 (member 0) broadcasts float64[3]; rank 1 (member 1) has float64[4] to be written at a.py:1"
    assert [isinstance(each, OperationMismatch) for each in found] == [False, True]  # the root only sends
    assert str(found[1]) == text
    found = await group.all(lambda m: m.barrier())
    assert [str(each) for each in found] == [text] * 2
    assert (arrays[1] == 7).all()


async def test_bytes_of_any_length(make_group: MakeGroup) -> None:
    group = make_group(3)
    for length in (0, 5, 1024, 1025, 70_000):
        data = bytes(index % 251 for index in range(length))
        found = await group.all(lambda m, d=data: m.broadcast_bytes(d if m.rank == 2 else None, 2))
        assert found == [data] * 3
        lists = await group.all(lambda m, d=data: m.all_gather_bytes(d[m.rank :]))
        assert lists == [[data, data[1:], data[2:]]] * 3


async def test_messages_from_one_to_one(make_group: MakeGroup) -> None:
    group = make_group(3)
    large = np.arange(1_000_003, dtype=np.int64)

    async def talk(member: Collectives) -> object:
        if member.rank == 0:
            await member.send({"first": 1}, 2, tag=5)
            await member.send(2.5, 2)
            await member.send(large, 2, tag=7)
            return None
        if member.rank == 1:
            await member.send(np.arange(3), 2, tag=6)
            return None
        last = await member.recv(0, tag=7)
        second = await member.recv(0)
        first = await member.recv(tag=5)
        other = await member.recv(tag=6)
        return last, second, first, other

    found = (await group.all(talk))[2]
    assert isinstance(found, tuple), found
    last, second, first, other = found
    assert same(last.value, large)
    assert second == Received(2.5, 0, 0)
    assert first == Received({"first": 1}, 0, 5)
    assert (other.rank, other.tag, other.value.tolist()) == (1, 6, [0, 1, 2])


async def test_messages_pass_beside_operations(make_group: MakeGroup) -> None:
    import asyncio

    group = make_group(2)
    summing = asyncio.ensure_future(group.members[0].all_reduce(np.ones(5)))
    await group.members[0].send(1, 1)
    assert (await group.members[1].recv()).value == 1
    total = await group.members[1].all_reduce(np.ones(5))
    assert isinstance(total, np.ndarray)
    assert total.tolist() == [2] * 5
    await summing


async def test_operations_run_in_the_order_of_the_calls(make_group: MakeGroup) -> None:
    import asyncio

    group = make_group(3)

    async def many(member: Collectives) -> list[object]:
        calls: list[asyncio.Future[Any]] = []
        for index in range(8):
            calls.append(asyncio.ensure_future(member.all_gather(np.full(index, member.rank))))
            calls.append(asyncio.ensure_future(member.all_reduce(index)))
        return list(await asyncio.gather(*calls))

    for found in await group.all(many):
        assert isinstance(found, list)
        assert found[1::2] == [3 * index for index in range(8)]
        assert [[len(each) for each in row] for row in found[::2]] == [[index] * 3 for index in range(8)]


def test_transports_of_memory_are_transports() -> None:
    transport: Transport = MemoryTransport(MemoryNetwork(2), 0)
    assert transport.size == 2
