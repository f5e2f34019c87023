"""Operations begin on the thread that waits for them, where the loop has nothing else to do."""

from __future__ import annotations

import asyncio
import concurrent.futures
import queue
import signal
import socket
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

from duetlink.base.runtime.lent_loop import is_lent_here
from duetlink.base.runtime.loop import LoopShare, LoopThread
from duetlink.errors import LocalProtocolError

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="its loop has no selector")

TIMEOUT_S = 30.0


@pytest.fixture
def thread() -> Iterator[LoopThread]:
    made = LoopThread()
    yield made
    made.stop()


def wait_idle(thread: LoopThread) -> None:
    """Return when an operation has begun on this thread; the next one nearly always does too."""

    async def where() -> bool:
        return is_lent_here()

    while not thread.run(where(), here=True):
        pass


def test_an_operation_that_need_not_wait_runs_on_the_callers_thread(thread: LoopThread) -> None:
    async def name() -> tuple[str, bool]:
        async with asyncio.timeout(TIMEOUT_S):
            await asyncio.Lock().acquire()
        return threading.current_thread().name, asyncio.get_running_loop() is thread.loop

    while (found := thread.run(name(), here=True)) != (threading.current_thread().name, True):
        assert found == ("duetlink", True)
    with pytest.raises(RuntimeError):
        asyncio.get_running_loop()


def test_the_loop_goes_on_with_an_operation_that_waits(thread: LoopThread) -> None:
    async def names() -> list[str]:
        first = threading.current_thread().name
        await asyncio.sleep(0)
        second = threading.current_thread().name
        await asyncio.sleep(0.001)
        return [first, second, threading.current_thread().name]

    while (found := thread.run(names(), here=True))[0] != threading.current_thread().name:
        pass
    assert found[1:] == ["duetlink", "duetlink"]


def test_errors_and_cancellations_come_out(thread: LoopThread) -> None:
    async def fails(error: BaseException) -> None:
        raise error

    for _ in range(20):  # some on this thread, some on the loop's
        with pytest.raises(TimeoutError, match="of its own"):
            thread.run(fails(TimeoutError("of its own")), here=True)
        with pytest.raises(concurrent.futures.CancelledError):
            thread.submit(fails(asyncio.CancelledError()), here=True).result(TIMEOUT_S)
        ended = threading.Event()

        async def waits(ended: threading.Event = ended) -> None:
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

        future = thread.submit(waits(), here=True)
        future.cancel()
        assert ended.wait(TIMEOUT_S)


def test_what_was_passed_to_the_loop_earlier_runs_first(thread: LoopThread) -> None:
    order: list[int] = []

    async def note(number: int) -> None:
        order.append(number)

    for number in range(0, 2000, 2):
        thread.submit(note(number))
        thread.run(note(number + 1), here=True)
    assert order == list(range(2000))


def test_a_timer_of_the_first_step_fires_although_the_loop_waits(thread: LoopThread) -> None:
    for _ in range(20):
        fired = threading.Event()

        async def begin(fired: threading.Event = fired) -> None:
            asyncio.get_running_loop().call_later(0.001, fired.set)

        wait_idle(thread)
        thread.run(begin(), here=True)
        assert fired.wait(TIMEOUT_S)


def test_what_the_first_step_leaves_for_later_runs_in_its_order(thread: LoopThread) -> None:
    for _ in range(20):
        seen: list[int] = []
        ended = threading.Event()

        async def leave(seen: list[int] = seen, ended: threading.Event = ended) -> None:
            loop = asyncio.get_running_loop()
            loop.call_soon(seen.append, 1)
            loop.call_soon(seen.append, 2).cancel()
            loop.call_soon(lambda: loop.call_soon(ended.set))
            loop.call_soon(seen.append, 3)

        wait_idle(thread)
        thread.run(leave(), here=True)
        assert ended.wait(TIMEOUT_S)
        assert seen == [1, 3]


def test_one_thread_at_a_time_touches_the_loop(thread: LoopThread) -> None:
    inside = 0
    most = 0
    lock = asyncio.Lock()

    async def work() -> None:
        nonlocal inside, most
        async with lock:
            inside += 1
            most = max(most, inside)
            for _ in range(50):  # other threads get the GIL in here
                sum(range(50))
            inside -= 1
        await asyncio.sleep(0)

    def many() -> None:
        for _ in range(200):
            thread.run(work(), here=True)

    with ThreadPoolExecutor(4) as pool:
        for done in [pool.submit(many) for _ in range(4)]:
            done.result(TIMEOUT_S)
    assert (inside, most) == (0, 1)


def test_an_interrupt_comes_after_the_first_step(thread: LoopThread) -> None:
    seen: list[str] = []

    async def works() -> None:
        signal.raise_signal(signal.SIGINT)
        seen.append("went on")
        try:
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned")

    for _ in range(5):
        wait_idle(thread)
        with pytest.raises(KeyboardInterrupt):
            thread.run(works(), here=True)
        assert seen == ["went on", "cleaned"]
        seen.clear()
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_loop_of_the_calling_thread_runs_again_afterwards(thread: LoopThread) -> None:
    async def of_a_kernel() -> bool:
        hooks = sys.get_asyncgen_hooks()
        wait_idle(thread)
        return asyncio.get_running_loop() is kernel and sys.get_asyncgen_hooks() == hooks

    kernel = asyncio.new_event_loop()
    assert kernel.run_until_complete(of_a_kernel())
    kernel.close()


def test_a_long_first_step_is_told_to_go_the_loops_way(thread: LoopThread) -> None:
    async def both() -> tuple[bool, bool]:
        before = is_lent_here()
        deadline_s = time.monotonic() + 0.011
        while time.monotonic() < deadline_s:
            pass
        return before, is_lent_here()

    while (found := thread.run(both(), here=True)) != (True, False):
        assert found == (False, False)


def test_in_debug_mode_the_loop_runs_everything_itself(thread: LoopThread) -> None:
    async def name() -> str:
        return threading.current_thread().name

    thread.call(lambda: thread.loop.set_debug(True))
    assert [thread.run(name(), here=True) for _ in range(5)] == ["duetlink"] * 5


def test_a_reader_that_a_first_step_replaces_is_not_lost(thread: LoopThread) -> None:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    received = queue.SimpleQueue[bytes]()

    async def watch() -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(ours)
        loop.add_reader(ours, lambda: received.put(ours.recv(1)))

    async def end() -> None:
        asyncio.get_running_loop().remove_reader(ours)

    thread.run(watch())
    for _ in range(300):
        theirs.send(b"x")
        thread.run(watch(), here=True)
        assert received.get(timeout=TIMEOUT_S) == b"x"
    thread.run(end())
    ours.close()
    theirs.close()


def test_a_first_step_cannot_call_what_blocks(thread: LoopThread) -> None:
    async def nothing() -> None: ...

    async def blocks() -> None:
        thread.run(nothing())

    for _ in range(5):
        wait_idle(thread)
        with pytest.raises(LocalProtocolError, match="own loop thread"):
            thread.run(blocks(), here=True)


def test_a_share_that_stops_cancels_what_was_begun_here(thread: LoopThread) -> None:
    share = LoopShare(thread)
    ended = threading.Event()

    async def waits() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    wait_idle(thread)
    future = share.submit(waits(), here=True)
    share.stop()
    assert ended.wait(TIMEOUT_S)
    assert future.cancelled()
