"""Calls on threads of their own: how many at once, in which order, and what is left."""

from __future__ import annotations

import threading
from concurrent.futures import CancelledError

import pytest

from duetlink.base.runtime.own_threads import OwnThreads


def names() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "duetlink-test"]


def test_calls_run_at_once_up_to_the_limit_and_the_others_follow_in_order() -> None:
    pool, go, began = OwnThreads(2, "duetlink-test"), threading.Event(), threading.Barrier(3)
    order: list[int] = []

    def first() -> None:
        began.wait(10)
        go.wait(10)

    running = [pool.submit(first) for _ in range(2)]
    began.wait(10)
    waiting = [pool.submit(order.append, number) for number in range(5)]
    assert names() == ["duetlink-test"] * 2
    assert not any(future.done() for future in waiting)
    go.set()
    for future in (*running, *waiting):
        future.result(10)
    assert sorted(order) == [0, 1, 2, 3, 4]


def test_what_fails_fails_for_whoever_waits_and_the_next_one_runs() -> None:
    pool = OwnThreads(1, "duetlink-test")
    failing, next_ = pool.submit(int, "x"), pool.submit(int, "7")
    with pytest.raises(ValueError, match="'x'"):
        failing.result(10)
    assert next_.result(10) == 7


def test_after_shutdown_what_waits_is_not_made() -> None:
    pool, go = OwnThreads(1, "duetlink-test"), threading.Event()
    running, waiting = pool.submit(go.wait, 10), pool.submit(int)
    pool.shutdown()
    with pytest.raises(CancelledError):
        waiting.result(10)
    with pytest.raises(RuntimeError):
        pool.submit(int)
    go.set()
    assert running.result(10)
