"""Members on one host: operations in memory that all of them map, with the same results and errors."""

from __future__ import annotations

import asyncio
import json
import os
import tracemalloc
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.base.runtime import shared_memory
from duetlink.errors import OperationAborted, OperationMismatch, PeerLost
from duetlink.groups.collectives.collectives import Collectives
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.groups.collectives.same_host import shared
from duetlink.groups.collectives.same_host.host_memory import Memory, OwnMemory, open_others
from duetlink.groups.links.transport import Message
from duetlink.testing.faults import set_constants
from duetlink.testing.transports import MemoryNetwork
from tests.groups.collectives.conftest import Group, MakeGroup

DATA_BYTES = 64 * 1024  # so that some KB go in several chunks


@pytest.fixture
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shared, "DATA_BYTES", DATA_BYTES)
    set_constants(monkeypatch, shared, SMALL_BYTES=4096)


async def agreed(make_group: MakeGroup, size: int) -> Group:
    """A group whose members have found that they share a host, and how many bytes of arrays they send."""
    group = make_group(size)
    assert await group.all(lambda m: m.agree()) == [None] * size
    assert {member.explain("all_reduce", 1).chosen.algorithm for member in group.members} == {"shared"}
    return group


def forbid_sockets(group: Group) -> None:
    def watch(of: int, to: int, message: Message) -> Message:
        raise AssertionError(f"a message of {len(message.body)} bytes")

    group.network.on_send = watch


@pytest.mark.usefixtures("small_chunks")
@pytest.mark.parametrize("size", [2, 3, 4, 9])
async def test_operations_in_shared_memory_send_nothing(make_group: MakeGroup, size: int) -> None:
    group = await agreed(make_group, size)
    forbid_sockets(group)
    root = size - 1
    for count in (0, 1, 7, 1500, 40_001):
        given = [
            np.random.default_rng(rank).integers(0, 99, count).astype(np.float32) for rank in range(size)
        ]
        values = [each[: count // (rank + 1)] for rank, each in enumerate(given)]
        total = np.sum(given, axis=0, dtype=np.float32)
        for each in await group.all(lambda m, a=given: m.all_reduce(a[m.rank])):
            np.testing.assert_array_equal(each, total, strict=True)
        found = await group.all(lambda m, a=given: m.reduce(a[m.rank], root))
        np.testing.assert_array_equal(found[root], total, strict=True)
        assert found[:root] == [None] * root
        for each in await group.all(lambda m, a=given: m.broadcast(a[root], root)):
            np.testing.assert_array_equal(each, given[root], strict=True)
        rows = await group.all(lambda m, v=values: m.all_gather(v[m.rank]))
        for row in rows:
            assert isinstance(row, list)
            for rank, each in enumerate(row):
                np.testing.assert_array_equal(each, given[rank][: count // (rank + 1)], strict=True)
        gathered = (await group.all(lambda m, a=given: m.gather(a[m.rank], root)))[root]
        assert isinstance(gathered, list)
        np.testing.assert_array_equal(gathered, given)
        found = await group.all(lambda m, v=values: m.scatter(v if m.rank == root else None, root))
        for each, value in zip(found, values, strict=True):
            np.testing.assert_array_equal(each, value, strict=True)
        found = await group.all(lambda m, v=values: m.reduce_scatter([x + m.rank for x in v]))
        for each, value in zip(found, values, strict=True):
            np.testing.assert_array_equal(each, value * size + size * (size - 1) // 2, strict=True)
    assert await group.all(lambda m: m.barrier()) == [None] * size


async def test_all_have_the_same_bits_in_the_order_of_the_ranks(make_group: MakeGroup) -> None:
    group = await agreed(make_group, 4)
    given = [np.random.default_rng(rank).normal(size=50_000).astype(np.float32) for rank in range(4)]
    expected = ((given[0] + given[1]) + given[2]) + given[3]
    for each in await group.all(lambda m: m.all_reduce(given[m.rank])):
        assert isinstance(each, np.ndarray)
        assert each.tobytes() == expected.tobytes()
    tensors = [torch.from_numpy(each).to(torch.bfloat16) for each in given]
    for each in await group.all(lambda m: m.all_reduce(tensors[m.rank])):
        assert isinstance(each, torch.Tensor)
        assert each.equal(((tensors[0] + tensors[1]) + tensors[2]) + tensors[3])


async def test_what_cannot_go_through_memory_goes_through_the_network(make_group: MakeGroup) -> None:
    group = await agreed(make_group, 3)
    rows = await group.all(lambda m: m.all_to_all([10 * m.rank + to for to in range(3)]))
    assert rows == [[0, 10, 20], [1, 11, 21], [2, 12, 22]]
    for each in await group.all(lambda m: m.all_reduce(np.ones(9), ReduceOptions(algorithm="ring"))):
        np.testing.assert_array_equal(each, np.full(9, 3.0))


async def test_different_calls_meet_in_memory_and_beside_it(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "WAIT_S", 0.05)
    monkeypatch.setattr("duetlink.groups.collectives.execution.engine.WAIT_S", 0.05)
    for other in (
        lambda m: m.all_reduce(np.ones(3), ReduceOptions("max"), call="b.py:2"),
        lambda m: m.barrier(call="b.py:2"),
        lambda m: m.all_reduce(np.ones(3), ReduceOptions(algorithm="ring"), call="b.py:2"),
        lambda m: m.all_to_all([1, 2, 3], call="b.py:2"),
    ):
        group = await agreed(make_group, 3)

        async def call(member: Collectives, other: Any = other) -> object:
            if member.rank == 1:
                return await other(member)
            return await member.all_reduce(np.ones(3), call="a.py:1")

        for each in await group.all(call):
            assert isinstance(each, OperationMismatch)
            assert "a.py:1" in str(each)
            assert "b.py:2" in str(each)


@pytest.mark.usefixtures("small_chunks")
async def test_a_loss_in_the_middle_restores_what_was_given(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = await agreed(make_group, 3)
    arrived: set[int] = set()
    arrive = Memory.arrive

    def note(memory: Memory, chunk: int) -> None:
        arrived.add(chunk)
        arrive(memory, chunk)

    monkeypatch.setattr(Memory, "arrive", note)
    given = [np.full(100_000, rank, np.float32) for rank in range(3)]
    tasks = [
        asyncio.ensure_future(group.members[r].all_reduce(given[r], ReduceOptions(in_place=True)))
        for r in range(3)
    ]
    while 2 not in arrived:
        await asyncio.sleep(0)
    group.network.lose(1)
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [PeerLost] * 3
    assert [(each.min(), each.max()) for each in given] == [(rank, rank) for rank in range(3)]


async def test_a_sum_copies_neither_its_argument_nor_its_result(make_group: MakeGroup) -> None:
    """By default it makes one array, the result; in place without a backup it makes none."""
    group = await agreed(make_group, 2)
    given = [np.full(2_000_000, rank + 1.0) for rank in range(2)]
    scratch_bytes = 2 * 300_000  # blocks in which the members add
    tracemalloc.start()
    try:
        found = await group.all(lambda m: m.all_reduce(given[m.rank]))
        assert 2 * given[0].nbytes <= tracemalloc.get_traced_memory()[1] < 2 * given[0].nbytes + scratch_bytes
        assert [each[0] for each in given] == [1.0, 2.0]
        assert {float(each[at]) for each in found for at in (0, -1)} == {3.0}
        before, _ = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        await group.all(lambda m: m.all_reduce(given[m.rank], ReduceOptions(in_place=True), restore=False))
        assert tracemalloc.get_traced_memory()[1] - before < scratch_bytes
        assert {float(each[at]) for each in given for at in (0, -1)} == {3.0}
    finally:
        tracemalloc.stop()


async def test_an_interrupt_is_told_to_those_who_wait_in_memory(make_group: MakeGroup) -> None:
    group = await agreed(make_group, 3)
    tasks = [asyncio.ensure_future(group.members[rank].barrier(call="x.py:1")) for rank in (0, 1)]
    await asyncio.sleep(0.01)
    tasks[0].cancel()
    found = await asyncio.gather(*tasks, return_exceptions=True)
    assert [type(each) for each in found] == [asyncio.CancelledError, OperationAborted]
    assert "rank 0 (member 0) gave up barrier(uint8[0], shared) at x.py:1" in str(found[1])


async def test_a_member_that_must_not_share_keeps_to_messages() -> None:
    network = MemoryNetwork(2)
    members = [
        Collectives(transport, may_share=rank == 0) for rank, transport in enumerate(network.transports)
    ]
    await asyncio.gather(*(member.agree() for member in members))
    assert [member.explain("all_reduce", 1).chosen.algorithm for member in members] == ["butterfly"] * 2
    assert await asyncio.gather(*(member.all_reduce(1) for member in members)) == [2, 2]
    for member in members:
        await member.close()


def test_only_memory_of_that_name_that_is_sealed_and_labelled_is_mapped() -> None:
    own = OwnMemory()
    pid, fd, label = json.loads(own.address)
    found = open_others([own.address, b""], 1)
    assert found[0] is not None
    with pytest.raises(ValueError, match="read-only"):
        found[0].data(0)[0] = 1
    found[0].close()
    other = shared_memory.create(f"duetlink-group-{label}")  # neither sealed nor of that size
    plain = os.open("/dev/zero", os.O_RDONLY)
    for told in (
        b"",
        b"[",
        b"[1]",
        b'["1", 2, "aa"]',
        json.dumps([pid, fd, "00" * 16]).encode(),
        json.dumps([pid, other, label]).encode(),
        json.dumps([pid, plain, label]).encode(),
        json.dumps([2**22 + 1, fd, label]).encode(),
    ):
        assert open_others([told, b""], 1) == [None, None]
    os.close(other)
    os.close(plain)
    own.hide()
    assert open_others([own.address, b""], 1) == [None, None]
    own.memory.close()


def test_memory_is_unmapped_with_the_last_view_of_it_although_its_owner_lives_on() -> None:
    own = OwnMemory()
    own.hide()
    name = own.memory.label.hex()
    view = own.memory.data(0)
    own.memory.close()
    assert name in "".join(map(_target, os.listdir("/proc/self/fd")))
    del view
    assert name not in "".join(map(_target, os.listdir("/proc/self/fd")))
    own.memory.close()


def _target(descriptor: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{descriptor}")
    except FileNotFoundError:  # that of the list itself
        return ""
