"""Rooms that are forked from a zygote: what they have in common, and what is left when one is killed."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetlink.compute.worker.kernel import rooms
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.kernel.spawn import zygote_bootstrap
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.errors import WorkerUnavailable
from tests.compute.worker.conftest import BOOTSTRAP
from tests.compute.worker.test_process import is_there
from tests.light_rooms import HIDING

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="no room is forked on this system")

LIGHT = HIDING + BOOTSTRAP  # how zygotes begin and end does not depend on what they import


@pytest.fixture
async def here() -> AsyncIterator[rooms.RoomPool]:
    leave = rooms.use(LIGHT)
    found = rooms.here()
    assert found is not None
    yield found
    await leave()


@pytest.fixture
async def here_with_libraries() -> AsyncIterator[rooms.RoomPool]:
    leave = rooms.use(BOOTSTRAP)
    found = rooms.here()
    assert found is not None
    yield found
    await leave()


async def started(bootstrap: str = LIGHT) -> Room:
    return await Room.start(Limits(threads=2), handler="free", bootstrap=bootstrap)


async def gone(*pids: int) -> None:
    async with asyncio.timeout(60):
        while any(is_there(pid) for pid in pids):
            await asyncio.sleep(0.01)


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


async def test_rooms_are_forked_from_one_zygote_and_each_is_used_once(
    here_with_libraries: rooms.RoomPool,
) -> None:
    workers = [await started(BOOTSTRAP) for _ in range(3)]
    workers += await asyncio.gather(*(started(BOOTSTRAP) for _ in range(3)))
    assert len({worker.pid for worker in workers}) == 6
    assert {parent(worker.pid) for worker in workers} == {here_with_libraries.zygote_pid}
    # OpenMP's pool, torch's and that of Polars are made in the room, since the zygote has none of them
    source = "(__import__('torch').ones(200_000).exp().sum().item() > 0, __import__('polars')"
    source += ".DataFrame({'a': [1, 2]}).lazy().select(__import__('polars').col('a').sum()).collect().item())"
    found = await workers[0].call("evaluate", source.encode(), timeout_s=60)
    assert found.content == b"done: (True, 3)"
    # torch's optimisers bring its compiler along, which is imported by the zygote
    source = "'torch._dynamo' in __import__('sys').modules, str(__import__('torch').optim.SGD)"
    found = await workers[0].call("evaluate", source.encode(), timeout_s=60)
    assert found.content == b"done: (True, \"<class 'torch.optim.sgd.SGD'>\")"
    # what is random in one is not what is random in another
    source = "(__import__('os').urandom(16).hex(), __import__('duetlink.learning.dp.keystream', "
    source += "fromlist=['x']).Keystream().uniform(2).tolist())"
    drawn = [(await worker.call("evaluate", source.encode())).content for worker in workers]
    assert all(words.startswith(b"done: ") for words in drawn)
    assert len(set(drawn)) == 6
    for worker in workers:
        await worker.close()
    await gone(*(worker.pid for worker in workers))


async def test_a_room_that_is_killed_ends_alone(here: rooms.RoomPool) -> None:
    killed, other = await started(), await started()
    waiting = asyncio.ensure_future(killed.call("sleep", b"60"))
    await asyncio.sleep(0)
    os.kill(killed.pid, signal.SIGKILL)
    with pytest.raises(WorkerUnavailable):
        await waiting
    assert (await other.call("echo", b"on")).content == b"on"
    await other.close()


async def test_with_the_zygote_all_rooms_end_and_the_next_has_another(here: rooms.RoomPool) -> None:
    worker = await started()
    zygote = here.zygote_pid
    assert zygote is not None
    here.warm()
    waiting = asyncio.ensure_future(worker.call("sleep", b"60"))
    await asyncio.sleep(0)
    os.kill(zygote, signal.SIGKILL)
    with pytest.raises(WorkerUnavailable):
        await waiting
    await gone(zygote, worker.pid)
    following = await started()
    assert (await following.call("echo", b"on")).content == b"on"
    await following.close()


def test_when_the_owner_is_killed_zygote_and_rooms_end() -> None:
    program = f"""
import asyncio
from duetlink.compute.worker.kernel import rooms
from duetlink.compute.worker.kernel.process import Room
async def main():
    leave = rooms.use({LIGHT!r})
    worker = await Room.start(handler="probe", bootstrap={LIGHT!r})
    asyncio.ensure_future(worker.call("loop"))
    await asyncio.sleep(0.1)
    print(rooms.here().zygote_pid, worker.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    owner = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert owner.stdout is not None
    with owner, owner.stdout:
        pids = [int(word) for word in owner.stdout.readline().split()]
        assert len(pids) == 2
        owner.kill()
    deadline_s = time.monotonic() + 60
    while any(is_there(pid) for pid in pids) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not any(is_there(pid) for pid in pids)


async def test_a_hundred_rooms_leave_nothing_behind(here: rooms.RoomPool) -> None:
    await (await started()).close()
    await asyncio.sleep(0)
    zygote = here.zygote_pid
    before = len(os.listdir("/dev/fd")), len(os.listdir(f"/proc/{zygote}/task"))
    for _ in range(100):
        await (await started()).close()
    async with asyncio.timeout(60):  # a spare may be on its way
        while (len(os.listdir("/dev/fd")), len(os.listdir(f"/proc/{zygote}/task"))) > (
            before[0] + 8,
            before[1],
        ):
            await asyncio.sleep(0.01)
    assert here.zygote_pid == zygote


async def test_a_zygote_that_is_due_is_followed_by_another_and_ends_with_its_rooms(
    here: rooms.RoomPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    old = await started()
    before = here.zygote_pid
    assert before is not None
    monkeypatch.setattr(rooms.Zygote, "most_rooms", 1)
    async with asyncio.timeout(120):
        while here.zygote_pid == before:
            await (await started()).close()
    monkeypatch.undo()
    assert (await old.call("echo", b"on")).content == b"on"
    await old.close()
    await gone(before)


async def test_where_forks_cannot_compute_a_room_is_a_process_that_is_ready(
    here: rooms.RoomPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(bootstrap: str) -> str:
        failure = (
            "from duetlink.compute.worker.protocol import libraries\n"
            "libraries.run_parallel_regions = lambda loaded: 1 / 0"
        )
        return made(bootstrap).replace("main(int(", f"{failure}\nmain(int(")

    made = zygote_bootstrap
    monkeypatch.setattr(rooms, "zygote_bootstrap", failing)
    worker = await started()
    assert here.zygote_pid is None
    assert parent(worker.pid) == os.getpid()
    assert worker.isolation.enforced
    await worker.close()


async def test_rooms_are_closed_while_the_zygote_of_a_spare_one_starts() -> None:
    leave = rooms.use(LIGHT)
    rooms.warm()
    await asyncio.sleep(0)
    async with asyncio.timeout(60):
        await leave()
    assert rooms.here() is None
