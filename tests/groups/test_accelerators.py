"""Tensors on accelerators in a group's operations, with the device's work for them still to be done."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.errors import CallTimeout, OperationAborted, UnsupportedValue
from duetlink.groups.api.group import Group
from tests.accelerator import DEVICES, FakeDevice, SimulatedCuda, installed

from .conftest import MakeGroup, together, while_it_waits


@pytest.fixture(params=DEVICES, ids=lambda make: make.__name__)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return installed(request.param, monkeypatch)


def later(device: Any, *content: float) -> Any:
    found = device.tensor(torch.full((len(content),), -7.0))
    device.later(found, torch.tensor(content))
    return found


def on_streams(groups: list[Group], device: Any, call: Callable[[Group, int], Any]) -> None:
    """Call it at all members, each on a stream of its own."""

    def one(group: Group) -> None:
        with device.own_stream():
            call(group, group.rank or 0)

    assert together(groups, one) == [None] * len(groups)


def test_every_operation(make_group: MakeGroup, device: Any) -> None:
    groups = make_group(3)

    def reductions(group: Group, rank: int) -> None:
        found = group.all_reduce({"there": later(device, rank, 1.0), "here": torch.ones(1), "n": 2})
        assert device.read(found["there"]).tolist() == [3.0, 3.0]
        assert (found["here"].tolist(), found["n"]) == ([3.0], 6)
        placed = [later(device, rank), np.ones(1), later(device, 1.0, 1.0)]
        assert group.all_reduce(placed, in_place=True) is placed
        assert [device.read(placed[at]).tolist() for at in (0, 2)] == [[3.0], [3.0, 3.0]]
        assert placed[1].tolist() == [3.0]
        tensor = later(device, 2.0)
        assert group.all_reduce(tensor, "max", in_place=True) is tensor
        made = group.all_reduce(lambda rank, size: later(device, rank, size))
        assert device.read(made).tolist() == [3.0, 9.0]
        secure = group.all_reduce(later(device, rank), secure=True)
        assert device.read(secure).tolist() == pytest.approx([3.0], abs=1e-3)
        at_1 = group.reduce(later(device, rank), 1)
        assert at_1 is None if rank != 1 else device.read(at_1).tolist() == [3.0]
        part = group.reduce_scatter([later(device, to) for to in range(3)])
        assert device.read(part).tolist() == [3.0 * rank]

    def copies(group: Group, rank: int) -> None:
        given = later(device, 4.0) if rank == 2 else None
        found = group.broadcast(given, 2)
        assert found is given if rank == 2 else found.tolist() == [4.0]  # on the CPU: nothing says where
        place = later(device, rank)
        assert group.broadcast(place, 1, in_place=True) is place
        assert device.read(place).tolist() == [1.0]
        values = group.all_gather((later(device, rank), torch.ones(1)))
        assert [device.read(there).tolist() for there, _ in values] == [[0.0], [1.0], [2.0]]
        assert {here.device.type for _, here in values} == {"cpu"}
        at_0: Any = group.gather(later(device, rank), 0)
        assert at_0 is None if rank else [device.read(each).item() for each in at_0] == [0.0, 1.0, 2.0]
        scattered = group.scatter([later(device, to) for to in range(3)] if rank == 0 else None)
        assert (device.read(scattered) if rank == 0 else scattered).tolist() == [rank]
        swapped = group.all_to_all([later(device, rank, to) for to in range(3)])
        assert [device.read(each).tolist() for each in swapped] == [[of, rank] for of in range(3)]
        if rank == 0:
            group.send(later(device, 5.0), 1)
        elif rank == 1:
            assert group.recv(0).value.tolist() == [5.0]

    on_streams(groups, device, reductions)
    on_streams(groups, device, copies)


def test_means_and_common_states(make_group: MakeGroup, device: Any) -> None:
    groups = make_group(3)

    def model(value: float) -> Any:
        linear = torch.nn.Linear(2, 1)
        for parameter in linear.parameters():
            content = torch.full(parameter.shape, value)
            there = device.tensor(torch.full(parameter.shape, -7.0))
            device.later(there, content)
            parameter_there = torch.nn.Parameter(there)
            linear.register_parameter(
                "weight" if len(content) < 2 and content.dim() > 1 else "bias", parameter_there
            )
        return linear

    def state(linear: Any) -> list[float]:
        return [device.read(tensor).view(-1)[0].item() for tensor in linear.state_dict().values()]

    def call(group: Group, rank: int) -> None:
        means = group.average({"a": later(device, rank), "b": np.float64(rank)}, weight=rank)
        assert device.read(means["a"]).tolist() == pytest.approx([5 / 3])
        linear = model(float(rank))
        assert group.average(linear) is linear
        assert state(linear) == [1.0, 1.0]
        secure = model(float(rank))
        assert group.average(secure, secure=True) is secure
        assert state(secure) == pytest.approx([1.0, 1.0], abs=1e-3)
        most = model(4.0 if rank else 9.0)
        assert group.sync(most) is most
        assert state(most) == [4.0, 4.0]
        arrays = group.sync({"a": later(device, 1.0 if rank else 2.0), "b": np.ones(1)})
        assert device.read(arrays["a"]).tolist() == [1.0]

    on_streams(groups, device, call)


def test_awaited_operations(make_group: MakeGroup, device: Any) -> None:
    def call(group: Group, rank: int) -> None:
        async def both() -> None:
            one = group.awaitable.all_reduce(later(device, rank))
            two = group.awaitable.all_reduce(later(device, 1.0))
            assert [device.read(found).tolist() for found in (await two, await one)] == [[3.0], [3.0]]

        asyncio.run(both())

    on_streams(make_group(3), device, call)


def test_an_error_of_the_device_ends_the_call_at_all_members(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = installed(FakeDevice, monkeypatch)
    groups = make_group(2)
    device.error = RuntimeError("an illegal memory access was encountered")
    given = [device.tensor(torch.ones(2)), torch.ones(2)]
    found = while_it_waits(
        groups[1], lambda group: group.all_reduce(given[1]), lambda: groups[0].all_reduce(given[0])
    )
    assert isinstance(found[0], OperationAborted)
    assert "illegal" not in str(found[0])
    assert str(found[1]) == "an illegal memory access was encountered"


def test_a_device_that_does_not_end_its_work_holds_nobody_up_beyond_the_time(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    device = installed(SimulatedCuda, monkeypatch)
    groups = make_group(2)
    given = [device.tensor(torch.ones(2)), torch.ones(2)]
    device.released.clear()
    try:
        found = together(groups, lambda group: group.all_reduce(given[group.rank or 0], timeout_s=0.3))
    finally:
        device.released.set()
    assert isinstance(found[0], CallTimeout)
    assert isinstance(found[1], CallTimeout | OperationAborted)
    assert device.read(given[0]).tolist() == [1.0, 1.0]


def test_a_tensor_on_the_meta_device_is_refused(make_group: MakeGroup) -> None:
    group = make_group(2)[0]
    with pytest.raises(UnsupportedValue, match="a tensor on the meta device has no data"):
        group.all_reduce(torch.empty(3, device="meta"))
