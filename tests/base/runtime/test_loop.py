from __future__ import annotations

import asyncio
import signal
import threading

import pytest

from duetlink.base.runtime.loop import LoopShare, LoopThread
from duetlink.base.runtime.meters import RateMeter, RoundTripMeter
from duetlink.errors import LinkClosed, LocalProtocolError


def test_runs_a_coroutine_and_returns_its_result() -> None:
    thread = LoopThread()

    async def where() -> str:
        return threading.current_thread().name

    assert thread.run(where()) == "duetlink"
    thread.stop()


def test_a_timeout_error_of_the_coroutine_comes_out() -> None:
    thread = LoopThread()

    async def late() -> None:
        raise TimeoutError("of its own")

    with pytest.raises(TimeoutError, match="of its own"):
        thread.run(late())
    thread.stop()


def test_an_interrupt_cancels_the_coroutine_and_its_cleanup_runs_first() -> None:
    thread = LoopThread()
    seen: list[str] = []

    async def work() -> None:
        try:
            signal.raise_signal(signal.SIGINT)
            await asyncio.Event().wait()
        finally:
            seen.append("cleaned")

    with pytest.raises(KeyboardInterrupt):
        thread.run(work())
    assert seen == ["cleaned"]
    thread.stop()


def test_a_stopped_loop_refuses_with_a_typed_error() -> None:
    thread = LoopThread()
    thread.stop()
    thread.stop()

    async def nothing() -> None:
        pass

    with pytest.raises(LinkClosed, match="closed"):
        thread.run(nothing())


def test_blocking_on_the_loop_thread_is_refused() -> None:
    thread = LoopThread()

    async def inner() -> None:
        pass

    async def outer() -> None:
        thread.run(inner())

    with pytest.raises(LocalProtocolError, match="loop thread"):
        thread.run(outer())
    thread.stop()


def test_stopping_cancels_what_runs() -> None:
    thread = LoopThread()
    started, seen = threading.Event(), threading.Event()

    async def work() -> None:
        try:
            started.set()
            await asyncio.Event().wait()
        finally:
            seen.set()

    future = thread.submit(work())
    assert started.wait(60)
    thread.stop()
    assert seen.is_set()
    assert future.cancelled()


def test_a_rate_meter_forgets() -> None:
    meter = RateMeter(0.0, tau_s=2.0)
    meter.add(2000, 0.0)
    assert meter.rate_bytes_per_s(0.0) == 1000.0
    assert meter.rate_bytes_per_s(2.0) == pytest.approx(367.88, abs=0.01)  # 1000 / e
    assert meter.rate_bytes_per_s(4.0) > 0
    assert meter.rate_bytes_per_s(4.1) == 0.0  # what has ended is not shown as going on
    assert meter.total_bytes == 2000
    meter.add(2000, 100.0)
    assert meter.rate_bytes_per_s(100.0) == 1000.0


def test_a_steady_stream_reads_as_its_rate() -> None:
    meter = RateMeter(0.0, tau_s=2.0)
    for tick in range(200):
        meter.add(100, tick * 0.1)
    # a discrete sum is off its integral by half a step: 0.1 s / (2 * 2 s)
    assert meter.rate_bytes_per_s(19.9) == pytest.approx(1000.0, rel=0.03)


def test_one_slow_round_trip_does_not_count() -> None:
    meter = RoundTripMeter()
    assert meter.typical_s is None
    for sample_s in (0.9, 0.001, 0.002):
        meter.add(sample_s)
    assert meter.typical_s == 0.002
    for _ in range(9):
        meter.add(0.003)
    assert meter.typical_s == 0.003


def test_a_share_that_stops_cancels_its_own_and_the_loop_goes_on() -> None:
    whole = LoopThread()
    stopped: list[str] = []
    one, other = (LoopShare(whole, lambda name=name: stopped.append(name)) for name in ("one", "other"))  # type: ignore[misc]
    hers, his = one.submit(asyncio.Event().wait()), other.submit(asyncio.Event().wait())
    one.stop()
    one.stop()
    assert stopped == ["one"]
    assert one.stopped
    assert hers.cancelled()
    assert not his.done()
    with pytest.raises(LinkClosed, match="closed"):
        one.run(asyncio.sleep(0))
    other.run(asyncio.sleep(0))
    other.stop()
    assert his.cancelled()
    assert not whole.stopped
    whole.stop()
