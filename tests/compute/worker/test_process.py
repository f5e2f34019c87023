"""A room as its kernel uses it: commands, memory, limits of time, and every way to end."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import struct
import subprocess
import sys
import time
from pathlib import Path

import pytest

from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol.frames import head
from duetlink.compute.worker.protocol.limits import Limits
from duetlink.compute.worker.protocol.memory import map_sealed, place
from duetlink.errors import (
    LimitExceeded,
    OperationFailed,
    RemoteFailure,
    RemoteProtocolError,
    SettingError,
    WorkerUnavailable,
    WorkLimit,
)
from duetlink.testing.faults import socket_of
from tests.compute.worker.conftest import BOOTSTRAP, StartWorker

MIB = 1024 * 1024

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="not known, or not done, on this system")


def is_there(pid: int) -> bool:
    """Whether a process is there that has not ended."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False
    return state != "Z"


# -- commands ------------------------------------------------------------------------------------------------


async def test_commands_are_done_in_the_order_they_were_sent(start_worker: StartWorker) -> None:
    worker = await start_worker()
    slow = asyncio.ensure_future(worker.call("sleep", b"0.2"))
    done: list[float] = []
    calls = [asyncio.ensure_future(worker.call("echo", b"%d" % number)) for number in range(50)]
    for call in (slow, *calls):
        call.add_done_callback(lambda call: done.append(float(call.result().content)))
    await asyncio.gather(slow, *calls)
    assert done == [0.2, *range(50)]


async def test_large_content_goes_both_ways(start_worker: StartWorker) -> None:
    worker = await start_worker()
    content = os.urandom(1 * MIB) * 20
    assert (await worker.call("echo", content)).content == content
    with pytest.raises(LimitExceeded, match="put them into shared memory"):
        await worker.call("echo", bytes(65 * MIB))
    assert (await worker.call("echo", b"on")).content == b"on"


async def test_errors_come_as_what_they_are_or_by_their_name_only(start_worker: StartWorker) -> None:
    worker = await start_worker()
    with pytest.raises(RemoteProtocolError, match="step 3 is malformed"):
        await worker.call("protocol_error")
    with pytest.raises(RemoteFailure, match=r"^KeyError in the room$"):
        await worker.call("boom")
    with pytest.raises(RemoteFailure, match=r"^SystemExit in the room$"):
        await worker.call("leave_by_exception")
    assert (await worker.call("echo", b"on")).content == b"on"


async def test_a_call_that_is_given_up_is_done_and_its_reply_thrown_away(start_worker: StartWorker) -> None:
    worker = await start_worker()
    before = len(os.listdir("/dev/fd"))
    calls = [
        asyncio.ensure_future(worker.call(*call, memory=True))
        for call in (("sleep", b"0.1"), ("place", b"abc"))
    ]
    await asyncio.sleep(0)
    for call in calls:
        call.cancel()
    assert (await worker.call("echo", b"on")).content == b"on"
    assert len(os.listdir("/dev/fd")) == before


async def test_events_are_told_before_the_reply_and_in_order(start_worker: StartWorker) -> None:
    events: list[tuple[str, bytes]] = []
    worker = await start_worker(on_event=lambda *event: events.append(event))
    await worker.call("emit", b"3")
    assert events == [("progress", b"0"), ("progress", b"1"), ("progress", b"2")]


async def test_events_are_bounded_in_size_and_rate(start_worker: StartWorker) -> None:
    events: list[tuple[str, bytes]] = []
    worker = await start_worker(on_event=lambda *event: events.append(event))
    await worker.call("emit_long")
    assert [(len(name), len(content)) for name, content in events] == [(100, 64 * 1024)]
    await worker.call("emit", b"10000")
    assert 100 < len(events) < 1000


async def test_an_event_that_nobody_can_take_stops_nothing(start_worker: StartWorker) -> None:
    def fail(name: str, content: bytes) -> None:
        raise ValueError("a display that fails")

    told: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: told.append(context["exception"]))
    worker = await start_worker(on_event=fail)
    await worker.call("emit", b"2")
    assert (await worker.call("echo", b"on")).content == b"on"
    assert [type(error) for error in told] == [ValueError, ValueError]


# -- memory --------------------------------------------------------------------------------------------------


async def test_an_asset_is_mapped_and_a_result_comes_back_sealed(start_worker: StartWorker) -> None:
    worker = await start_worker()
    fd = place([b"private"], 7)
    assert (await worker.call("map", b"7", [fd])).content == b"priv"
    assert (await worker.call("map_writable", b"7", [fd])).content == b"\xffriv"
    assert bytes(map_sealed(fd, 7)) == b"private"
    os.close(fd)
    reply = await worker.call("place", b"a result", memory=True)
    assert reply.content == b"in memory"
    assert bytes(map_sealed(reply.fds[0], 8)) == b"a result"
    os.close(reply.fds[0])


async def test_descriptors_stay_as_many_over_many_calls(start_worker: StartWorker) -> None:
    worker = await start_worker(Limits(result_bytes=1000))
    fd = place([b"private"], 7)
    before = len(os.listdir("/dev/fd")), (await worker.call("descriptors")).content
    for number in range(50):
        reply = await worker.call("place", b"%d" % number, memory=True)
        assert bytes(map_sealed(reply.fds[0], len(str(number)))) == b"%d" % number
        os.close(reply.fds[0])
        await worker.call("map", b"7", [fd] * 16)
        await worker.call("release")
        with pytest.raises(RemoteFailure):
            await worker.call("place_and_fail", b"x" * 600, memory=True)
        with pytest.raises(OperationFailed):
            await worker.call("place_zeros", b"1001", memory=True)
    assert (len(os.listdir("/dev/fd")), (await worker.call("descriptors")).content) == before
    os.close(fd)


async def test_a_result_over_the_limit_is_refused_and_the_worker_lives(start_worker: StartWorker) -> None:
    worker = await start_worker(Limits(result_bytes=1 * MIB))
    with pytest.raises(OperationFailed, match="result of 1,048,577 bytes is over the 1,048,576"):
        await worker.call("place_zeros", b"1048577", memory=True)
    os.close((await worker.call("place_zeros", b"1048576", memory=True)).fds[0])


@linux_only
async def test_memory_that_no_call_is_answered_with_ends_it(start_worker: StartWorker) -> None:
    worker = await start_worker()
    before = len(os.listdir("/dev/fd"))
    with pytest.raises(WorkerUnavailable, match="wants memory for nothing"):
        await worker.call("place", b"a result")
    await worker.close()
    assert len(os.listdir("/dev/fd")) < before


@linux_only
async def test_assets_do_not_count_against_the_limit_of_memory(start_worker: StartWorker) -> None:
    worker = await start_worker(Limits(memory_bytes=64 * MIB), libraries=("numpy",))
    fd = place([bytes(200 * MIB)], 200 * MIB)
    size = str(200 * MIB).encode()
    await worker.call("map", size, [fd])
    with pytest.raises(OperationFailed, match="cannot be mapped"):
        await worker.call("map_writable", size, [fd])
    await worker.call("map_writable", size, [fd], lasting=True)
    os.close(fd)
    await worker.call("allocate_array", str(20 * MIB).encode())
    with pytest.raises(OperationFailed, match="MemoryError"):
        await worker.call("allocate_array", str(700 * MIB).encode())


@linux_only
async def test_a_result_that_the_worker_can_still_change_ends_it(start_worker: StartWorker) -> None:
    worker = await start_worker()
    with pytest.raises(WorkerUnavailable, match="cannot be sealed"):
        await worker.call("place_and_keep_writable", b"x" * 5000, memory=True)


@linux_only
async def test_what_it_takes_up_is_known(start_worker: StartWorker) -> None:
    worker = await start_worker()
    memory_bytes, cpu_s = worker.memory_bytes(), worker.cpu_s()
    assert memory_bytes is not None
    assert cpu_s is not None
    assert 5 * MIB < memory_bytes < 500 * MIB
    assert 0 < cpu_s < 60
    await worker.close()
    assert worker.memory_bytes() is None
    assert worker.cpu_s() is None


# -- limits of time ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("command", ["loop", "hold_interpreter"])
async def test_an_endless_command_is_ended_and_the_loop_stays_responsive(
    start_worker: StartWorker, command: str
) -> None:
    worker = await start_worker(Limits(wall_s=1.0))
    waiting = [asyncio.ensure_future(worker.call(*call)) for call in ((command,), ("echo", b"after it"))]
    turns = 0
    while not waiting[0].done():
        await asyncio.sleep(0.005)
        turns += 1
    for call in waiting:
        with pytest.raises(WorkLimit, match="over 1 s"):
            await call
    assert turns > 3  # else, the loop stood still with it for the whole second
    with pytest.raises(WorkLimit):
        await worker.call("echo")
    assert await worker.ended == "a command took over 1 s, and the room was ended"
    assert not is_there(worker.pid)


async def test_the_time_of_a_command_begins_when_it_is_its_turn(start_worker: StartWorker) -> None:
    worker = await start_worker(Limits(wall_s=1.2))
    await asyncio.gather(*(worker.call("sleep", b"0.2") for _ in range(7)))
    with pytest.raises(WorkLimit, match=r"over 0\.1 s"):
        await worker.call("sleep", b"5", timeout_s=0.1)


async def test_a_reply_that_came_while_the_loop_stood_still_counts(start_worker: StartWorker) -> None:
    worker = await start_worker()
    call = asyncio.ensure_future(worker.call("echo", b"in time", timeout_s=0.2))
    await asyncio.sleep(0)
    # the notebook's own thread takes the interpreter, until the reply is there and its time is over
    select.select([socket_of(worker)], [], [], 60)
    time.sleep(0.25)  # noqa: ASYNC251
    assert (await call).content == b"in time"


@linux_only
async def test_processor_time_is_limited(start_worker: StartWorker) -> None:
    worker = await start_worker(Limits(cpu_s=0.1))
    with pytest.raises(WorkLimit, match=r"over 0\.1 s of processor time"):
        await worker.call("loop")


# -- endings -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "content", "words"),
    [
        ("leave", b"7", "ended by itself, with status 7"),
        ("leave", b"0", "ended by itself, with status 0"),
        ("crash", b"", r"crashed \(SIG(SEGV|BUS)\)"),
        ("signal_itself", b"11", r"crashed \(SIGSEGV\)"),
        ("signal_itself", b"15", r"crashed \(SIGTERM\)"),
    ],
)
async def test_a_worker_that_ends_by_itself_says_how(
    start_worker: StartWorker, command: str, content: bytes, words: str
) -> None:
    worker = await start_worker()
    waiting = [asyncio.ensure_future(worker.call(*call)) for call in ((command, content), ("echo",))]
    for call in waiting:
        with pytest.raises(WorkerUnavailable, match=words) as caught:
            await call
        assert type(caught.value) is WorkerUnavailable
    assert "the room" in await worker.ended


async def test_one_that_the_system_kills_has_met_a_limit(start_worker: StartWorker) -> None:
    worker = await start_worker()
    waiting = asyncio.ensure_future(worker.call("sleep", b"60"))
    await asyncio.sleep(0)
    os.kill(worker.pid, signal.SIGKILL)
    with pytest.raises(WorkLimit, match="most likely memory ran out"):
        await waiting


async def test_one_that_gives_up_for_memory_has_met_a_limit(start_worker: StartWorker) -> None:
    worker = await start_worker()
    await worker.call("say", b"memory allocation of 99 bytes failed\n")  # Rust's last words
    with pytest.raises(WorkLimit, match="more than its 4,294,967,296 bytes of memory"):
        await worker.call("signal_itself", b"6")


async def test_its_last_words_are_kept_for_the_owner_and_in_no_error(start_worker: StartWorker) -> None:
    worker = await start_worker()
    await worker.call("say", b"x" * 50_000 + b"the secret\n")
    with pytest.raises(WorkerUnavailable) as caught:
        await worker.call("leave", b"1")
    assert "secret" not in str(caught.value)
    assert "secret" not in await worker.ended
    assert worker.last_words.endswith("the secret\n")
    assert len(worker.last_words) <= 8 * 1024


async def test_closing_ends_it_and_all_that_wait(start_worker: StartWorker) -> None:
    worker = await start_worker()
    waiting = asyncio.ensure_future(worker.call("hold_interpreter"))
    await asyncio.sleep(0)
    await worker.close()
    assert not is_there(worker.pid)
    with pytest.raises(WorkerUnavailable, match="this side has closed the room"):
        await waiting
    await worker.close()
    with pytest.raises(WorkerUnavailable, match="this side has closed the room"):
        await worker.call("echo")


async def test_killing_tells_why(start_worker: StartWorker) -> None:
    worker = await start_worker()
    waiting = asyncio.ensure_future(worker.call("loop"))
    await asyncio.sleep(0)
    worker.kill("the owner has stopped the peer's work")
    with pytest.raises(WorkerUnavailable, match="the owner has stopped"):
        await waiting
    assert await worker.ended == "the owner has stopped the peer's work"


@linux_only
@pytest.mark.parametrize("command", ["loop", "hold_interpreter"])
def test_it_ends_with_its_kernel_however_that_ends(command: str) -> None:
    program = f"""
import asyncio
from duetlink.compute.worker.kernel.process import Room
async def main():
    worker = await Room.start(handler="probe", bootstrap={BOOTSTRAP!r})
    asyncio.ensure_future(worker.call({command!r}))
    await worker.call("echo") if not {command!r} else await asyncio.sleep(0.1)
    print(worker.pid, flush=True)
    await asyncio.sleep(60)
asyncio.run(main())
"""
    kernel = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True)
    assert kernel.stdout is not None
    with kernel, kernel.stdout:
        pid = int(kernel.stdout.readline())
        assert is_there(pid)
        kernel.kill()
    deadline_s = time.monotonic() + 60
    while is_there(pid) and time.monotonic() < deadline_s:
        time.sleep(0.01)
    assert not is_there(pid)


# -- a room that is not what it was ------------------------------------------------------------------------


def reply(number: int, **fields: object) -> bytes:
    return head({"reply": number, "rooms": []} | fields)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"\xff" * 100, "over"),
        (head({}), "a command that it was not working on"),
        (reply(2), "a command that it was not working on"),
        (reply(1) + reply(1), "a command that it was not working on"),
        (reply(1, rooms=[1]), "memory that it was not given"),
        (reply(1, rooms="1"), "which memory"),
        (head({"failure": 1, "kind": "SystemExit", "text": "x"}), "error of an unknown class"),
        (head({"failure": 1, "kind": "OperationFailed", "text": 5}), "error of an unknown class"),
        (head({"want": "1", "size_bytes": 1}), "no size"),
        (head({"want": 1, "size_bytes": 1}) * 2, "number that is in use"),
        (head({"want": 1, "size_bytes": -1}), "of no size"),
        (head({"event": "x" * 101}), "event"),
        (head({"event": 5}), "event"),
        (head({"ready": {}}), "a command that it was not working on"),
        (struct.pack("!IIB", 2, 0, 1) + b"{}", "1 descriptors are over 0"),
        (struct.pack("!IIB", 2, 0xFFFFFFFF, 0) + b"{}", "bytes of content are over"),
    ],
)
async def test_a_worker_that_breaks_the_protocol_is_ended(
    start_worker: StartWorker, content: bytes, words: str
) -> None:
    worker = await start_worker(handler="wrong")
    before = len(os.listdir("/dev/fd"))
    calls = [asyncio.ensure_future(worker.call("send", content, memory=True)) for _ in range(2)]
    outcomes = await asyncio.gather(*calls, return_exceptions=True)
    assert type(outcomes[1]) is WorkerUnavailable
    assert "the room broke its protocol" in str(outcomes[1])
    assert words in await worker.ended
    assert not is_there(worker.pid)
    assert len(os.listdir("/dev/fd")) <= before


async def test_a_descriptor_that_it_sends_is_not_taken(start_worker: StartWorker) -> None:
    worker = await start_worker(handler="wrong")
    before = set(os.listdir("/dev/fd"))
    with pytest.raises(WorkerUnavailable, match="it sent descriptors"):
        await worker.call("send_descriptor")
    await worker.ended
    assert set(os.listdir("/dev/fd")) <= before


async def test_one_that_floods_with_events_is_ended(start_worker: StartWorker) -> None:
    events: list[str] = []
    worker = await start_worker(handler="wrong", on_event=lambda name, content: events.append(name))
    with pytest.raises(WorkerUnavailable, match="sends too many events"):
        await worker.call("flood", timeout_s=30)
    assert len(events) < 1000


async def test_one_that_hangs_up_and_lives_on_is_ended(start_worker: StartWorker) -> None:
    worker = await start_worker(handler="wrong")
    with pytest.raises(WorkerUnavailable, match=r"closed its end|status 0"):
        await worker.call("close")
    await worker.ended
    assert not is_there(worker.pid)


# -- starting ------------------------------------------------------------------------------------------------


async def test_only_what_there_is_can_be_asked_for() -> None:
    with pytest.raises(SettingError, match="no os; there are"):
        await Room.start(libraries=("os",))
    with pytest.raises(SettingError, match="no command handler 'probe'; there are program, job"):
        await Room.start(handler="probe")


@pytest.mark.parametrize(
    "limits",
    [
        {"memory_bytes": 1000},
        {"result_bytes": 0},
        {"wall_s": 0.0},
        {"wall_s": float("nan")},
        {"cpu_s": float("inf")},
        {"threads": 0},
    ],
)
def test_limits_that_make_no_sense_are_refused(limits: dict[str, float]) -> None:
    with pytest.raises(SettingError, match=next(iter(limits))):
        Limits(**limits)  # type: ignore[arg-type]


async def test_one_that_does_not_come_up_is_ended_in_time() -> None:
    with pytest.raises(WorkerUnavailable, match=r"not ready after 0\.3 s"):
        await Room.start(handler="probe", bootstrap="import time; time.sleep(60)", timeout_s=0.3)


async def test_one_that_fails_to_start_tells_the_owner_why() -> None:
    with pytest.raises(WorkerUnavailable, match="ended by itself, with status 1") as caught:
        await Room.start(handler="probe", bootstrap="raise ValueError('no such thing')")
    assert "ValueError: no such thing" in caught.value.__notes__[0]
    with pytest.raises(WorkerUnavailable, match=r"could not start \(ModuleNotFoundError\)") as caught:
        await Room.start(handler="probe", bootstrap=with_modules(numpy="numpy.nothing"))
    assert "numpy.nothing" in caught.value.__notes__[0]


async def test_a_library_that_cannot_be_imported_is_left_out(start_worker: StartWorker) -> None:
    bootstrap = with_modules(numpy="numpy", pyarrow="pyarrow.nothing")
    worker = await start_worker(bootstrap=bootstrap, libraries=("numpy", "pyarrow"))
    assert worker.libraries == ("numpy",)
    await worker.close()
    assert "pyarrow.nothing" in worker.last_words


def with_modules(**modules: str) -> str:
    """The tests' program of a room, where these are the modules of libraries."""
    listed = {library: (module,) for library, module in modules.items()}
    change = f"from duetlink.compute.worker.protocol import libraries; libraries.LIBRARIES = {listed!r}"
    return BOOTSTRAP.replace("main(int(", f"{change}\nmain(int(")


async def test_a_start_that_is_cancelled_leaves_no_process() -> None:
    before = set(_children())
    starting = asyncio.ensure_future(Room.start(handler="probe", bootstrap=BOOTSTRAP))
    while not set(_children()) - before:
        await asyncio.sleep(0.001)
    starting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await starting
    assert set(_children()) <= before


def _children() -> list[str]:
    children = Path(f"/proc/self/task/{os.getpid()}/children")
    return children.read_text().split() if children.exists() else []
