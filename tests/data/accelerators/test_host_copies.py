"""Host copies: complete before they are read, and written back in the order of the caller's stream."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
import torch

from duetlink.data.accelerators import host_copies
from duetlink.data.accelerators.host_copies import HostCopies, fetched
from duetlink.data.values import decode, encode
from duetlink.data.values.torch_ import HANDLER
from duetlink.data.values.writer import ObjectWriter
from tests.accelerator import DEVICES, GPUS, FakeDevice, FakeTensor, SimulatedCuda, installed, poisoned


@pytest.fixture(params=DEVICES, ids=lambda make: make.__name__)
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    return installed(request.param, monkeypatch)


@pytest.fixture(autouse=True)
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host_copies, "PIECE_BYTES", 16)


def test_the_fake_shows_poison_until_somebody_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    device = installed(FakeDevice, monkeypatch)
    copies = HostCopies()
    given = copies.to_host(device.tensor(torch.arange(3.0)))
    assert torch.equal(given, poisoned((3,), torch.float32))
    copies.wait_arrived()
    assert given.tolist() == [0.0, 1.0, 2.0]


def test_a_value_without_such_tensors_is_itself(device: Any) -> None:
    copies = HostCopies()
    value = {"a": [torch.ones(2), np.ones(2)], "b": (1, 2.0, "text")}
    assert copies.to_host(value) is value
    assert not copies


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.complex64, torch.bool, torch.uint8])
@pytest.mark.parametrize("shape", [(), (0,), (3, 0), (1,), (7,), (5, 9)])
async def test_any_shape_and_dtype_there_and_back(
    device: Any, shape: tuple[int, ...], dtype: torch.dtype
) -> None:
    content = (torch.rand(shape) * 2).to(dtype)
    tensor = device.tensor(content)
    copies = HostCopies()
    host = copies.to_host(tensor)
    copies.wait_arrived()
    assert host.dtype == dtype
    assert torch.equal(host, content)
    back = await copies.to_device(host.clone(), host)
    copies.join()
    assert torch.equal(device.read(back), content)


async def test_what_is_not_contiguous_is_copied_as_it_is_seen(device: Any) -> None:
    whole = device.tensor(torch.arange(24.0).view(4, 6))
    copies = HostCopies()
    given = copies.to_host([whole.narrow(1, 1, 2), whole.t()])
    await copies.arrived()
    assert given[0].tolist() == [[1.0, 2.0], [7.0, 8.0], [13.0, 14.0], [19.0, 20.0]]
    assert given[1].tolist() == torch.arange(24.0).view(4, 6).t().tolist()
    given[0].zero_()
    await copies.write(given[0])
    copies.join()
    assert device.read(whole)[:, :4].tolist() == [[6.0 * row, 0.0, 0.0, 6.0 * row + 3] for row in range(4)]


async def test_conjugates_are_resolved(device: Any) -> None:
    numbers = torch.tensor([1 + 2j, 3 - 4j])
    copies = HostCopies()
    given = copies.to_host(device.tensor(numbers).conj())
    await copies.arrived()
    assert given.tolist() == [1 - 2j, 3 + 4j]
    assert not given.is_conj()


async def test_copies_wait_for_the_callers_stream_and_it_for_them(device: Any) -> None:
    with device.own_stream():
        tensor, output = device.tensor(torch.zeros(9)), device.tensor(torch.zeros(9))
        device.later(tensor, torch.arange(9.0))
        device.later(output, torch.full((9,), -1.0))  # must not come after the result
        copies = HostCopies()
        given = copies.to_host(tensor)
        room = copies.to_host(output, fill=False)
        await copies.arrived()
        room.copy_(given * 2)
        await copies.write(room)
        made = await copies.to_device(given + 1, given)
        copies.join()
        assert device.read(made).tolist() == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
        assert device.read(output).tolist() == [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]


async def test_a_thread_that_joins_sees_the_results_and_so_does_the_callers_stream(device: Any) -> None:
    with device.own_stream():
        for who_reads in ("the thread", "the caller", "both"):
            copies, tensor = HostCopies(), device.tensor(torch.zeros(5))
            room = copies.to_host(tensor, fill=False)
            room.fill_(3.0)
            await copies.write(room)
            made = await copies.to_device(torch.ones(5))
            seen = []

            def other(copies: HostCopies = copies, read: bool = who_reads != "the caller") -> None:
                with device.own_stream():
                    copies.join()
                    if read:
                        seen.extend([device.read(tensor).tolist(), device.read(made).tolist()])  # noqa: B023

            thread = threading.Thread(target=other)
            thread.start()
            thread.join()
            if who_reads != "the thread":
                seen += [device.read(tensor).tolist(), device.read(made).tolist()]
            assert seen == [[3.0] * 5, [1.0] * 5] * (1 + (who_reads == "both"))


async def test_results_follow_the_tensors_of_the_caller(device: Any) -> None:
    value = {"here": torch.ones(2), "there": device.tensor(torch.ones(2)), "n": 1}
    copies = HostCopies()
    given = copies.to_host(value)
    await copies.arrived()
    found = {"here": torch.zeros(2), "there": torch.zeros(2), "n": 2}
    placed = await copies.to_device(found, given)
    copies.join()
    assert placed["here"] is found["here"]
    assert placed["n"] == 2
    assert device.read(placed["there"]).tolist() == [0.0, 0.0]
    assert (await copies.to_device(given, given)) is value
    (alone,) = await copies.to_device([torch.zeros(1)])  # nothing says where: the call's one accelerator
    copies.join()
    assert device.read(alone).tolist() == [0.0]


@pytest.mark.parametrize("shape", [(), (0, 2), (3,), (5, 9)])
def test_fetched_memory_is_complete_and_not_pinned(device: Any, shape: tuple[int, ...]) -> None:
    content = torch.rand(shape)
    tensor = device.tensor(torch.zeros(shape))
    with device.own_stream():
        device.later(tensor, content)
        found = fetched(tensor)
    assert torch.equal(found, content)
    assert not found.is_pinned()


def test_a_tensor_is_encoded_when_the_device_has_made_it(monkeypatch: pytest.MonkeyPatch) -> None:
    device = installed(SimulatedCuda, monkeypatch)
    for content in (torch.arange(24.0).view(2, 3, 2, 2), torch.tensor([True, False]), torch.zeros(0)):
        in_order = content.to(memory_format=torch.channels_last) if content.dim() == 4 else content
        tensor = device.tensor(torch.ones_like(in_order))
        device.later(tensor, in_order)
        writer = ObjectWriter(gather=True)
        with monkeypatch.context() as patch:
            patch.setattr(torch, "Tensor", FakeTensor)  # other subclasses do not travel
            HANDLER.write(tensor, writer)
        encoded = writer.encoded(*writer.finish(content, ""))
        found: Any = decode(b"".join(encoded.segments))
        assert torch.equal(found, content)
        assert found.stride() == in_order.stride()


def test_a_gpus_tensors_are_encoded_as_those_of_the_cpu() -> None:
    """Through `encode`, where there is a GPU."""
    content = torch.arange(24.0).view(2, 3, 2, 2)
    channels_last = content.to(memory_format=torch.channels_last)
    for make in GPUS:
        for each in (content, channels_last, content.to(torch.bool), torch.nn.Parameter(content)):
            found: Any = decode(b"".join(encode(make().tensor(each.detach())).segments))
            assert torch.equal(found, each.detach())


async def test_devices_errors_are_raised_where_the_copies_are_awaited(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    device = installed(FakeDevice, monkeypatch)
    copies = HostCopies()
    copies.to_host(device.tensor(torch.ones(2)))
    device.error = RuntimeError("an illegal memory access was encountered")
    with pytest.raises(RuntimeError, match="illegal memory access"):
        await copies.arrived()
