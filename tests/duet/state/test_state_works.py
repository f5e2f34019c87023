"""What a pending request needs to be run after a restart: kept with its record, gone with its answer."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import pytest

from duetlink.compute.operations.lineage import Lineage
from duetlink.duet.answering.incoming import Incoming, utc_now
from duetlink.duet.answering.states import DENIED
from duetlink.duet.objects.asset import AssetInfo
from duetlink.duet.state.contents import Contents
from duetlink.duet.state.directory import StateDirectory
from duetlink.duet.state.listing import contents_of
from duetlink.duet.state.state import State
from duetlink.errors import StateUnavailable, ValueRefused

T = TypeVar("T")
BODY = bytes(range(256)) * 40


def asked(number: int) -> Incoming:
    """A request for something that has to be run first."""
    lineage = Lineage((("ages", 0),), ("mean",), 1, "ages.mean()", "v2:" + "0" * 64, "ages.mean()")
    info = AssetInfo("ages.mean()", 0, "", "not known", 0, lineage=lineage)
    return Incoming(number, info, None, "Sven", "why", utc_now(), None)


def in_a_state(tmp_path: Path, work: Callable[[State], Awaitable[T]], limit_bytes: int = 10**6) -> T:
    """Do something with the state, which is closed afterwards."""

    async def run() -> T:
        state = State.open(tmp_path, "default", work_limit_bytes=limit_bytes)
        try:
            return await work(state)
        finally:
            await state.close()

    return asyncio.run(run())


def files(tmp_path: Path) -> list[str]:
    return sorted(path.name for path in (tmp_path / "default" / "work").glob("*"))


def kept(tmp_path: Path) -> Contents:
    return contents_of(StateDirectory(tmp_path, "default"))


async def keep(state: State, number: int, *pieces: bytes | memoryview) -> Incoming:
    request = asked(number)
    state.keep_work(request, pieces)
    state.request(request)
    await state.written()
    return request


async def work_of(state: State, number: int) -> bytes | None:
    return await asyncio.to_thread(state.work, asked(number))


def test_it_is_there_for_the_next_kernel_as_it_was_given(tmp_path: Path) -> None:
    async def first(state: State) -> None:
        await keep(state, 0, BODY[:100], memoryview(BODY)[100:])
        await keep(state, 1)
        assert await work_of(state, 0) == BODY

    async def second(state: State) -> list[bytes | None]:
        return [await work_of(state, number) for number in (0, 1, 2)]

    in_a_state(tmp_path, first)
    assert in_a_state(tmp_path, second) == [BODY, b"", None]
    assert files(tmp_path) == ["0", "1"]


def test_only_its_owner_may_read_it(tmp_path: Path) -> None:
    in_a_state(tmp_path, lambda state: keep(state, 0, BODY))
    assert (tmp_path / "default" / "work").stat().st_mode & 0o777 == 0o700
    assert (tmp_path / "default" / "work" / "0").stat().st_mode & 0o777 == 0o600


def test_it_goes_when_its_request_has_ended(tmp_path: Path) -> None:
    async def first(state: State) -> None:
        request = await keep(state, 0, BODY)
        await keep(state, 1, BODY)
        request.settle(DENIED, "person", "no")
        state.request(request)
        state.drop_work(request)
        state.drop_work(request)
        await state.written()
        assert await work_of(state, 0) is None

    in_a_state(tmp_path, first)
    assert files(tmp_path) == ["1"]


def test_it_goes_with_the_next_kernel_where_no_pending_request_needs_it(tmp_path: Path) -> None:
    in_a_state(tmp_path, lambda state: keep(state, 0, BODY))
    directory = tmp_path / "default" / "work"
    for left in ("7", "0.new", "other"):
        (directory / left).write_bytes(b"left")

    async def nothing(state: State) -> None:
        pass

    in_a_state(tmp_path, nothing)
    assert files(tmp_path) == ["0"]


def test_what_is_damaged_is_none(tmp_path: Path) -> None:
    in_a_state(tmp_path, lambda state: keep(state, 0, BODY))
    path = tmp_path / "default" / "work" / "0"
    for damaged in (path.read_bytes()[:-1], b"", path.read_bytes()[:-1] + b"x", b"x" + path.read_bytes()[1:]):
        path.write_bytes(damaged)
        assert in_a_state(tmp_path, lambda state: work_of(state, 0)) is None


def test_all_that_wait_take_up_so_much_and_no_more(tmp_path: Path) -> None:
    async def first(state: State) -> None:
        request = await keep(state, 0, b"1234567")
        with pytest.raises(ValueRefused, match="may use 10 bytes of the owner's disk, and 7 are in use"):
            state.keep_work(asked(1), [b"1234"])
        state.keep_work(asked(1), [b"123"])
        state.drop_work(request)
        state.keep_work(asked(2), [b"1234567"])

    in_a_state(tmp_path, first, limit_bytes=10)


def test_where_it_cannot_be_written_its_record_is_not_and_both_are_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def first(state: State) -> None:
        with monkeypatch.context() as patch:
            patch.setattr("os.replace", lambda *paths: (_ for _ in ()).throw(OSError(28, "no space left")))
            with pytest.raises(StateUnavailable, match="no space left"):
                await keep(state, 0, BODY)
            assert kept(tmp_path).requests == []
        await state.written()

    in_a_state(tmp_path, first)
    assert [request.number for request in kept(tmp_path).requests] == [0]
    assert in_a_state(tmp_path, lambda state: work_of(state, 0)) == BODY


# Kernels, one after another, that keep a request and answer it. Each is killed at one of its calls to the
# system; they are forks, since what they import takes longer than all that they do.
CHILDREN = """
import asyncio, os, signal, sys
from pathlib import Path
from duetlink.duet.answering.states import DENIED
from duetlink.duet.state.file import StateFile
from duetlink.duet.state.state import State
from tests.duet.state.test_state_works import BODY, asked, keep

def dying(call):
    def counted(*arguments, **keywords):
        global left
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        made = call(*arguments, **keywords)
        left -= 1
        if left == 0:
            os.kill(os.getpid(), signal.SIGKILL)
        return made
    return counted

async def work(states):
    state = State.open(states, "default")
    for holder, name in (
        (os, "mkdir"), (os, "open"), (os, "write"), (os, "fsync"), (os, "replace"), (os, "unlink"),
        (StateFile, "write"),
    ):
        setattr(holder, name, dying(getattr(holder, name)))
    request = await keep(state, 0, BODY[:5000], BODY[5000:])
    print("kept", end=" ", flush=True)
    request.settle(DENIED, "person", "no")
    state.request(request)
    state.drop_work(request)
    await state.written()
    print("answered", end=" ", flush=True)
    await state.close()
    print("closed", end=" ", flush=True)

for line in sys.stdin:
    left = int(line)
    pid = os.fork()
    if pid == 0:
        asyncio.run(work(Path(sys.argv[1], line.strip())))
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
"""


@pytest.mark.skipif("sys.platform == 'win32'", reason="Windows has no forks")
def test_whenever_the_kernel_is_killed_a_pending_request_has_its_work(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CHILDREN, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as children:
        assert children.stdin is not None
        assert children.stdout is not None
        said: list[str] = []
        point = 0
        while "closed" not in said:
            point += 1
            assert point < 100
            print(point, file=children.stdin, flush=True)
            *said, status = children.stdout.readline().split()
            assert status in ("0", "-9")
            states = tmp_path / str(point)
            found = [(request.number, request.state) for request in kept(states).requests]
            work = in_a_state(states, lambda state: work_of(state, 0))
            if "answered" in said:
                assert found == [(0, "denied")]
            elif "kept" in said:
                assert found in ([(0, "pending")], [(0, "denied")])
            else:
                assert found in ([], [(0, "pending")])
            assert work == (BODY if found == [(0, "pending")] else None)
            assert files(states) == (["0"] if found == [(0, "pending")] else [])
        assert point > 10
