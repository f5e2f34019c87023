"""The helper process from its kernel's side, and what it does when that is gone or does not listen."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from typing import Any

import psutil
import pytest

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.configuration import Configuration
from duetlink.net.carrier.helper import child as carrier_child
from duetlink.net.carrier.helper.child import Child
from duetlink.net.carrier.helper.console import Console
from duetlink.settings import IceServer
from duetlink.testing.faults import deliver_event, helper_pid, set_constants


def configuration(rung: str = "udp", **fields: Any) -> Configuration:
    values: dict[str, Any] = {"ice_servers": (), "map_port": False, "flight_port": 1} | fields
    return Configuration(rung=rung, controlling=True, key=bytes(range(32)), **values)


Start = Callable[..., Any]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """`child, signals = await start(configuration)`."""
    made: list[Child] = []

    async def start(told: Configuration) -> tuple[Child, asyncio.Queue[bytes]]:
        signals: asyncio.Queue[bytes] = asyncio.Queue()
        made.append(Child(signals.put_nowait))
        await made[-1].start(told)
        return made[-1], signals

    yield start
    for child in made:
        await child.close()


def test_a_configuration_survives_its_pipe_and_hides_its_key() -> None:
    servers = (IceServer(("turn:a", "turns:b"), "u", "p"), IceServer(("stun:c",)))
    told = configuration(ice_servers=servers, map_port=True)
    assert Configuration.from_json(told.to_json()) == told
    assert "key" not in repr(told)


async def test_two_helpers_find_each_other_by_their_signals(start: Start) -> None:
    (one, to_other), (other, to_one) = (
        await start(configuration()),
        await start(Configuration("udp", False, bytes(range(32)), (), False, 1)),
    )

    async def relay(signals: asyncio.Queue[bytes], child: Child) -> None:
        while True:
            child.signal(await signals.get())

    relays = [asyncio.ensure_future(relay(to_other, other)), asyncio.ensure_future(relay(to_one, one))]
    async with asyncio.timeout(60):
        ports = [await one.up, await other.up]
    assert all(0 < port < 65536 for port in ports)
    assert one.description.startswith("UDP, ")
    await other.close()
    assert "other side" in await one.ended
    for task in relays:
        task.cancel()


async def test_a_defect_is_told_with_its_last_words(start: Start) -> None:
    child, _ = await start(configuration("pigeon"))
    with pytest.raises(PathUnavailable, match=r"ended with status 1: .*KeyError: 'pigeon'"):
        await child.up
    assert "KeyError" in await child.ended


async def test_closing_ends_the_process_at_any_time(start: Start) -> None:
    for delay_s in (0.0, 0.05, 0.2):
        child, _ = await start(configuration())
        process = psutil.Process(helper_pid(child))
        await asyncio.sleep(delay_s)
        async with asyncio.timeout(60):
            await child.close()
            await child.close()
        assert not process.is_running()


async def test_a_process_that_hangs_is_killed(start: Start) -> None:
    child, signals = await start(configuration())
    await signals.get()
    os.kill(helper_pid(child), signal.SIGSTOP)
    async with asyncio.timeout(60):
        await child.close()
    assert "ended by signal 9" in await child.ended


async def test_a_name_server_that_does_not_answer_holds_up_no_end(
    start: Start, tmp_path: Any, monkeypatch: Any
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import socket, time\nsocket.getaddrinfo = lambda *_, **__: time.sleep(1000)"
    )
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    child, signals = await start(
        configuration("relay", ice_servers=(IceServer(("turn:a.example",), "u", "p"),))
    )
    await signals.get()
    set_constants(monkeypatch, carrier_child, CLOSE_TIMEOUT_S=60.0)  # before it would be killed
    await child.close()
    assert "ended with status 0" in await child.ended


async def test_lines_that_are_no_events_do_not_harm(start: Start, tmp_path: Any, monkeypatch: Any) -> None:
    (tmp_path / "sitecustomize.py").write_text("print('Welcome to this site')")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    _, signals = await start(configuration())
    async with asyncio.timeout(60):
        assert b"ufrag" in await signals.get()


def test_a_helper_does_not_outlive_a_kernel_that_is_killed() -> None:
    program = """
import asyncio
from duetlink.net.carrier.helper.child import Child
from duetlink.net.carrier.configuration import Configuration

async def main():
    child = Child(lambda payload: print(child._process.pid, flush=True))
    await child.start(Configuration("udp", True, bytes(32), (), False, 1))
    await child.ended

asyncio.run(main())
"""
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE) as kernel:
        assert kernel.stdout is not None
        helper = psutil.Process(int(kernel.stdout.readline()))
        kernel.kill()
    psutil.wait_procs([helper], timeout=60)
    assert not helper.is_running() or helper.status() == psutil.STATUS_ZOMBIE


def test_a_helper_whose_loop_hangs_does_not_outlive_its_kernel_either() -> None:
    program = """
import asyncio, threading
from duetlink.net.carrier.helper import console

async def main():
    console._GRACE_S = 0.1
    console.Console().read(print, print)
    threading.Event().wait()

asyncio.run(main())
"""
    helper = subprocess.run([sys.executable, "-c", program], stdin=subprocess.DEVNULL, timeout=60)
    assert helper.returncode == 1


# -- the pipes -----------------------------------------------------------------------------------------------


async def test_a_kernel_that_does_not_read_holds_nothing_up() -> None:
    commands, kernel_writes = os.pipe()
    kernel_reads, events = os.pipe()
    console = Console(commands, events)
    for _ in range(5000):
        console.tell(words="x" * 1000)
    os.set_blocking(kernel_reads, False)
    received = b""
    while received.count(b"\n") < 1000:
        try:
            received += os.read(kernel_reads, 1 << 20)
        except BlockingIOError:
            await asyncio.sleep(0.01)
    assert json.loads(received.split(b"\n")[0]) == {"words": "x" * 1000}
    console.close()
    for fd in (commands, kernel_writes, kernel_reads, events):
        os.close(fd)


async def test_commands_come_line_by_line_however_they_are_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "duetlink.net.carrier.helper.console._GRACE_S", 60.0
    )  # after which it would end the tests
    commands, kernel_writes = os.pipe()
    kernel_reads, events = os.pipe()
    console = Console(commands, events)
    lines: asyncio.Queue[bytes] = asyncio.Queue()
    ended = asyncio.Event()
    console.read(lines.put_nowait, ended.set)
    for piece in (b'{"a', b'": 1}', b'\n{"b": 2}\n{', b"}\n"):
        os.write(kernel_writes, piece)
    assert [await lines.get() for _ in range(3)] == [b'{"a": 1}', b'{"b": 2}', b"{}"]
    os.close(kernel_writes)
    await ended.wait()
    console.close()
    for fd in (commands, kernel_reads, events):
        os.close(fd)


async def test_loss_is_that_of_the_last_seconds_and_unknown_where_few_was_sent() -> None:
    child = Child(lambda payload: None)
    seen: list[float | None] = [child.loss]

    def second(sent: int, lost: int) -> None:
        deliver_event(child, {"datagrams": [sent, lost]})
        seen.append(child.loss)

    for sent, lost in ((0, 0), (0, 0), (40, 8), *((1000, 20) for _ in range(6))):
        second(sent, lost)
    assert seen == [None, None, None, None, *[0.02] * 4, 0.0125, None]
    second(2000, 1500)
    assert seen[-1] == 1.0  # found lost later than sent
