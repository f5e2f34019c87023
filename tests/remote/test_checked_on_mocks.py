"""Programs are run alone on mocks beside their requests: honest work passes, what differs is an error."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import os
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

import duetlink
from duetlink import Mock, errors
from duetlink.compute.operations.allow_lists.allowed import ELEMENTWISE
from duetlink.compute.operations.steps.effects import worst_effect
from duetlink.compute.worker.kernel import runs
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol.memory import NAME
from duetlink.duet.answering.requests import Request
from duetlink.settings import Settings
from tests.remote.conftest import Bench

REAL = np.arange(6.0)
MOCK = REAL * 10
FRAME = pd.DataFrame({"town": ["Ulm", "Bonn", "Ulm", "Kiel"], "age": [20.0, 30, 40, 50]})


@contextmanager
def pair(directory: Path, **more: Any) -> Iterator[Bench]:
    """A pairing of its own, in which nothing has been recorded yet."""
    settings = Settings(
        audit_path=str(directory / "audit.jsonl"), budget_path=str(directory / "privacy.jsonl"), **more
    )
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("JUPYTER_RUNTIME_DIR", str(directory / "runtime"))
        owner = duetlink.launch(name="Olga", settings=settings)
        scientist = duetlink.join(str(owner.code), name="Sven", settings=settings)
    bench = Bench(owner, scientist)
    serving = threading.Thread(target=bench.serve, daemon=True)
    serving.start()
    try:
        yield bench
    finally:
        scientist.close()
        owner.close()
        serving.join(10)


def until(condition: Callable[[], bool]) -> None:
    for _ in range(1500):
        if condition():
            return
        threading.Event().wait(0.02)
    raise AssertionError("it did not come about")


class Rooms:
    """Those that were opened for checks, and none of the owner's."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.workers: list[Room] = []
        self.error: Exception | None = None
        monkeypatch.setattr("duetlink.duet.asking.mocks.rehearsal.runs", self)
        self.map_asset = runs.map_asset
        self.run: Callable[..., Awaitable[Any]] = runs.run

    @contextlib.asynccontextmanager
    async def room_for(self, limits: Any) -> AsyncIterator[Room]:
        if self.error is not None:
            raise self.error
        async with runs.room_for(limits) as room:
            self.workers.append(room)
            yield room


@pytest.fixture
def x(bench: Bench) -> Any:
    pointer = bench.share(REAL, "x", mock=MOCK)
    (pointer + 1).sum()  # which no result here needs: something is cut out of each program
    return pointer


@pytest.fixture
def rooms(monkeypatch: pytest.MonkeyPatch) -> Rooms:
    return Rooms(monkeypatch)


# -- honest work ---------------------------------------------------------------------------------------------


def written_in_place(x: Any) -> Any:
    y = x.copy()
    view = y[1:4]
    view[:] = view * 2
    y[0] = x.sum()
    return y


def written_by_a_view_of_the_object(x: Any) -> Any:
    x[:2][:] = 5.0
    return x * 1


def cumulated(x: Any) -> Any:
    total = x[0] * 0
    for index in range(1, 6):
        total = total + x[index]
    return total


ARRAYS: dict[str, Callable[[Any], Any]] = {
    "mean": lambda x: x.mean(),
    "elements": lambda x: np.sqrt(x) + 1,
    "in place": written_in_place,
    "cumulated": cumulated,
    "masked": lambda x: x[x > x.mean()],
    "sorted": lambda x: np.sort(x)[::-1],
    "several": lambda x: np.linalg.svd(x.reshape(2, 3), full_matrices=False)[1],
}


@pytest.mark.parametrize("name", ARRAYS)
def test_work_on_arrays_agrees(x: Any, name: str) -> None:
    np.testing.assert_allclose(ARRAYS[name](x).get(reason=name), ARRAYS[name](REAL.copy()))


def filled(frame: Any) -> Any:
    frame = frame.copy()
    frame["old"] = frame.age > 35
    frame.loc[frame.town == "Ulm", "age"] = 0.0
    return frame


FRAMES: dict[str, Callable[[Any], Any]] = {
    "groups": lambda frame: frame.groupby("town").age.mean(),
    "written": filled,
    "counted": lambda frame: frame.town.value_counts(),
    "described": lambda frame: frame.describe(),
    "joined": lambda frame: frame.merge(frame.groupby("town").age.max().reset_index(), on="town"),
}


@pytest.mark.parametrize("name", FRAMES)
def test_work_on_frames_agrees(bench: Bench, name: str) -> None:
    frame = bench.share(FRAME, "frame")
    frame.age.sum()
    made = FRAMES[name](frame).get(reason=name)
    assert made.equals(FRAMES[name](FRAME))


def test_rows_that_come_in_any_order_agree(bench: Bench) -> None:
    many = pl.DataFrame({"town": [f"t{number % 17}" for number in range(200)], "age": np.arange(200.0)})
    table = bench.share(
        many, "table", mock=many.select(pl.concat_str(pl.lit("m"), "town").alias("town"), pl.col("age") * 2)
    )
    table.sum()
    for _ in range(3):
        groups = table.group_by("town").agg(pl.col("age").sum())
        assert groups.get().sort("town").equals(many.group_by("town").agg(pl.col("age").sum()).sort("town"))
        assert len(groups["town"].get()) == 17


def test_trainings_agree(bench: Bench) -> None:
    images = bench.share(torch.randn(32, 4, generator=torch.Generator().manual_seed(1)), "images")
    wanted = bench.share((torch.arange(32) % 2).float(), "wanted", mock=Mock(bounds=(0, 1)))
    model = bench.scientist.remote(
        torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.ReLU(), torch.nn.Linear(8, 1))
    )
    optimiser = torch.optim.Adam(model.parameters(), lr=0.01)
    losses = []
    for _ in range(10):
        optimiser.zero_grad()
        loss = ((model(images).squeeze(1) - wanted) ** 2).mean()
        loss.backward()
        optimiser.step()
        losses.append(loss.detach())
        images.std()
    found = bench.scientist.fetch(losses)
    assert found[-1] < found[0]
    weight: Any = next(iter(model.parameters()))
    assert weight.detach().get().shape == (8, 4)


def test_what_draws_agrees_by_its_type_and_shape(bench: Bench) -> None:
    images = bench.share(torch.randn(32, 4), "images")
    images.mean()
    dropped: Any = torch.nn.functional.dropout(images, 0.5)
    chosen: Any = torch.rand_like(images) > 0.5
    assert dropped.get().shape == (32, 4)
    assert chosen.get().dtype == torch.bool
    assert images[torch.rand_like(images) > 0.5].get().dim() == 1
    frame = bench.share(FRAME, "frame")
    assert len(frame.sample(2).get()) == 2


# -- what differs --------------------------------------------------------------------------------------------


def test_a_mock_that_the_notebook_writes_into_is_found(bench: Bench, x: Any) -> None:
    x.mock[:] = 0
    words = (
        r"is 0\.0 in this session, and 300\.0 where its program runs alone .* mock of x, .* not as it came"
    )
    with pytest.raises(errors.ProgramDiffers, match=words):
        (x * 2).sum().get(reason="sum")


def test_a_view_of_a_mock_that_the_notebook_writes_into_is_found(bench: Bench, x: Any) -> None:
    middle = x.reshape(2, 3)[1]
    middle.mock[0] = 7
    with pytest.raises(errors.ProgramDiffers, match=r"is 7\.0 at \[0\] in this session, and 30\.0 at \[0\]"):
        (middle * 1).get(reason="view")


def test_a_tensor_that_the_notebook_writes_into_is_found(bench: Bench) -> None:
    tensor = bench.share(torch.ones(3), "tensor", mock=torch.arange(3.0))
    tensor.sum()
    tensor.mock[1] = 7
    with pytest.raises(errors.ProgramDiffers, match=r"7\.0 at \[1\] in this session, and 1\.0 at \[1\]"):
        (tensor * 1).get(reason="tensor")


def test_a_frame_that_the_notebook_writes_into_is_found(bench: Bench) -> None:
    frame = bench.share(FRAME, "frame", mock=pd.DataFrame({"town": list("abcd"), "age": [1.0, 2, 3, 4]}))
    frame.age.sum()
    frame.mock.loc[0, "town"] = "z"
    with pytest.raises(errors.ProgramDiffers, match=r"\['z', .* in this session, and \['a', .* alone"):
        frame[["town"]].get(reason="towns")


def test_it_is_found_while_the_owner_thinks_and_the_request_is_withdrawn(
    bench: Bench, x: Any, rooms: Rooms
) -> None:
    asked = threading.Event()
    bench.answer = lambda request: asked.set()

    async def later(*arguments: Any) -> Any:
        await asyncio.to_thread(asked.wait, 60)
        return await runs.run(*arguments)

    rooms.run = later
    x.mock[:] = 0
    pending = (x * 2).sum().request("sum")
    with pytest.raises(errors.ProgramDiffers):
        pending.result()
    assert pending.state == "failed"
    until(lambda: not bench.owner.requests.pending)
    assert bench.owner.requests[-1].state == "withdrawn"


def test_it_is_found_in_what_a_function_is_given(bench: Bench, x: Any) -> None:
    def plus_one(total: Any) -> Any:
        return total + 1

    doubled = x * 2
    added = bench.scientist.remote(plus_one)(doubled.sum())
    assert added.get(reason="added") == 31
    x.mock[:] = 0
    doubled = x * 2
    with pytest.raises(errors.ProgramDiffers, match=r"0\.0 in this session, and 300\.0"):
        bench.scientist.remote(plus_one)(doubled.sum()).get(reason="added")


@pytest.fixture
def wrong_lists(monkeypatch: pytest.MonkeyPatch) -> None:
    """The scientist's side takes an assignment for something that changes nothing."""

    def effects(operation: str) -> str:
        return ELEMENTWISE if operation == "operator.setitem" else worst_effect(operation)

    monkeypatch.setattr("duetlink.duet.asking.recording.program.worst_effect", effects)


@pytest.mark.usefixtures("wrong_lists")
def test_a_step_that_the_lists_are_wrong_about_is_an_error_and_no_wrong_number(tmp_path: Path) -> None:
    with pair(tmp_path) as bench:
        x = bench.share(REAL, "x", mock=MOCK)
        y = np.zeros_like(x)
        y[:] = x
        words = r"10\.0 at \[1\] in this session, and 0\.0 at \[1\] .* lists of operations do not say"
        with pytest.raises(errors.ProgramDiffers, match=words):
            (y + 0.0).get(reason="copy")


@pytest.mark.usefixtures("wrong_lists")
def test_a_step_that_fails_alone_is_an_error(tmp_path: Path) -> None:
    with pair(tmp_path) as bench:
        bench.answer = lambda request: None  # it fails at the owner as well, who could be heard first
        frame = bench.share(FRAME, "frame").copy()
        frame["old"] = frame.age > 35
        words = r"old.* is a pandas\.Series 4 rows, bool in this session; .* alone .* failed: KeyError: 'old'"
        with pytest.raises(errors.ProgramDiffers, match=words):
            frame["old"].get(reason="old")


# -- when it is not done -------------------------------------------------------------------------------------


def test_it_is_not_done_where_nothing_is_cut(tmp_path: Path, rooms: Rooms) -> None:
    with pair(tmp_path) as bench:
        x = bench.share(REAL, "x", mock=MOCK)
        total = (x * 2).sum()
        assert total.get() == 30
        assert rooms.workers == []
        assert (x + 1).mean().get() == 3.5
        assert len(rooms.workers) == 1


def test_it_is_done_where_what_was_cut_is_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("duetlink.duet.asking.recording.program._COMPACT_STEPS", 0)
    with pair(tmp_path) as bench:
        x = bench.share(REAL, "x", mock=MOCK)
        x + 1
        x.mock[:] = 0
        with pytest.raises(errors.ProgramDiffers):
            x.sum().get(reason="sum")


def test_it_is_not_done_where_the_settings_say_so(tmp_path: Path, rooms: Rooms) -> None:
    with pair(tmp_path, check_on_mocks=False) as bench:
        x = bench.share(REAL, "x", mock=MOCK)
        x.mock[:] = 0
        x + 1
        assert x.sum().get() == 15
        assert rooms.workers == []


def test_it_is_not_done_where_a_mock_could_not_be_kept(
    bench: Bench, rooms: Rooms, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("duetlink.duet.asking.pointers.remote_session.unaltered", lambda body: None)
    unkept = bench.share(REAL, "unkept", mock=MOCK)
    unkept.mock[:] = 0
    unkept + 1
    assert unkept.sum().get() == 15
    assert rooms.workers == []


def test_it_is_not_done_where_no_room_can_be_had(
    x: Any, rooms: Rooms, caplog: pytest.LogCaptureFixture
) -> None:
    rooms.error = errors.WorkerUnavailable("not on this machine")
    with caplog.at_level(logging.WARNING):
        assert [x.sum().get(), x.mean().get()] == [15, 2.5]
    words = "a result is taken without running its program on the mocks: not on this machine"
    assert [record.getMessage() for record in caplog.records] == [words]


def test_a_check_that_comes_to_no_end_is_given_up(
    tmp_path: Path, rooms: Rooms, caplog: pytest.LogCaptureFixture
) -> None:
    async def never(*arguments: Any) -> Any:
        await asyncio.Event().wait()

    rooms.run = never
    with pair(tmp_path, worker_timeout_s=1.0) as bench, caplog.at_level(logging.WARNING):
        x = bench.share(REAL, "x", mock=MOCK)
        x + 1
        assert x.sum().get() == 15
    assert "it took over 1 s" in caplog.text
    assert all(room.ended.done() for room in rooms.workers)


# -- how it is done ------------------------------------------------------------------------------------------


def test_a_value_is_held_back_until_its_program_agrees(bench: Bench, x: Any, rooms: Rooms) -> None:
    begun, may_run = threading.Event(), threading.Event()

    async def held(*arguments: Any) -> Any:
        begun.set()
        await asyncio.to_thread(may_run.wait, 60)
        return await runs.run(*arguments)

    rooms.run = held
    pending = x.sum().request("sum")
    assert begun.wait(60)
    until(lambda: bench.owner.requests[-1].state == "approved")
    with pytest.raises(errors.DuetError):
        pending.result(timeout_s=0.2)
    may_run.set()
    assert pending.result() == 15


def test_a_denial_is_told_at_once_and_ends_the_check(bench: Bench, x: Any, rooms: Rooms) -> None:
    async def never(*arguments: Any) -> Any:
        await asyncio.Event().wait()

    rooms.run = never

    def deny(request: Request) -> None:
        until(lambda: bool(rooms.workers))
        request.deny("no")

    bench.answer = deny
    with pytest.raises(errors.RequestDenied, match="no"):
        x.sum().get()
    assert [room.ended.done() for room in rooms.workers] == [True]


def test_no_room_is_left_where_the_duet_is_closed(tmp_path: Path, rooms: Rooms) -> None:
    begun = threading.Event()

    async def never(*arguments: Any) -> Any:
        begun.set()
        await asyncio.Event().wait()

    rooms.run = never
    with pair(tmp_path) as bench:
        bench.answer = lambda request: None
        x = bench.share(REAL, "x", mock=MOCK)
        x + 1
        pending = x.sum().request("sum")
        assert begun.wait(60)
        bench.scientist.close()
        assert [room.ended.done() for room in rooms.workers] == [True]
        with pytest.raises(errors.LinkClosed):
            pending.result()


def memories() -> int:
    """Descriptors of this process for memory that it has placed."""
    links = []
    for descriptor in os.listdir("/proc/self/fd"):
        with contextlib.suppress(OSError):  # it was the look itself
            links.append(os.readlink(f"/proc/self/fd/{descriptor}"))
    return sum(f"memfd:{NAME}" in link for link in links)


def test_a_large_mock_is_in_memory_that_is_shared_and_goes_with_its_revision(bench: Bench) -> None:
    before = memories()
    asset = bench.owner.share(np.ones(300_000), "large", mock=np.zeros(300_000))
    large: Any = bench.scientist.wait_object("large", 10)
    assert large.mock.flags.writeable
    large.mean()
    assert large.sum().get() == 300_000
    title = "mock of large, revision 1"
    held = {one.title: one for one in bench.scientist.status().held}
    assert held[title].descriptors == 1
    assert held[title].reasons == ("the peer shares it", "a pointer holds it")
    mock = large.mock
    asset.unshare()
    del large
    until(lambda: gc.collect() >= 0 and title not in {one.title for one in bench.scientist.status().held})
    until(lambda: memories() <= before)
    mock[:] = 1  # what was handed out stays
    assert mock.sum() == 300_000
