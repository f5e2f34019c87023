"""The interval at which threads take turns: short while duetlink has a thread, and what it was afterwards."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Iterator

import pytest

from duetlink.base.runtime import loop
from duetlink.base.runtime.loop import LoopThread
from duetlink.base.runtime.turns import Turns


@pytest.fixture(autouse=True)
def usual(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """As where nothing of duetlink's has begun: the zygote of the tests has a thread of its own."""
    monkeypatch.setattr(loop, "turns", Turns())
    before = sys.getswitchinterval()
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(before)


def test_it_is_short_until_the_last_one_leaves() -> None:
    turns = Turns()
    with turns.quick():
        with turns.quick():
            pass
        assert sys.getswitchinterval() == pytest.approx(0.0002, rel=0.02)
    assert sys.getswitchinterval() == pytest.approx(0.005, rel=0.02)


def test_what_somebody_sets_meanwhile_stays() -> None:
    with Turns().quick():
        sys.setswitchinterval(0.02)
    assert sys.getswitchinterval() == pytest.approx(0.02, rel=0.02)


def test_one_that_is_shorter_is_left_alone() -> None:
    sys.setswitchinterval(0.0001)
    with Turns().quick():
        assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.02)
    assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.02)


def test_a_thread_of_ours_leaves_it_as_it_was() -> None:
    thread = LoopThread()
    assert sys.getswitchinterval() == pytest.approx(0.0002, rel=0.02)
    thread.stop()
    assert sys.getswitchinterval() == pytest.approx(0.005, rel=0.02)


def test_a_cell_that_lets_go_every_millisecond_leaves_turns_to_others() -> None:
    """With Python's own interval a thread that waits here gets one turn in a thousand or so."""

    async def hops() -> None:
        for _ in range(50):
            await asyncio.sleep(0.001)

    thread = LoopThread()
    done = thread.submit(hops())
    rounds = 0
    while not done.done() and rounds < 3000:
        os.path.exists("/")
        sum(range(100_000))
        rounds += 1
    thread.stop()
    assert rounds < 1000
