"""When answers leave that wait for a run: in the order of the asks, and on a grid of times."""

from __future__ import annotations

import asyncio
import heapq
import itertools

import pytest

from duetlink.duet.answering.pace import Pace
from duetlink.errors import SettingError
from duetlink.settings import Settings


class Clock:
    """Time that goes on when everybody waits."""

    def __init__(self) -> None:
        self.now_s = 0.0
        self._waiting: list[tuple[float, int, asyncio.Event]] = []
        self._numbers = itertools.count()

    def now(self) -> float:
        return self.now_s

    async def sleep(self, wait_s: float) -> None:
        reached = asyncio.Event()
        heapq.heappush(self._waiting, (self.now_s + wait_s, next(self._numbers), reached))
        await reached.wait()

    async def run(self, *tasks: asyncio.Task[None]) -> None:
        while not all(task.done() for task in tasks):
            for _ in range(20):
                await asyncio.sleep(0)
            if self._waiting:
                self.now_s, _, reached = heapq.heappop(self._waiting)
                reached.set()


def answered(grid_s: float, *runs: tuple[float, float]) -> list[tuple[int, float]]:
    """Which run is answered when; of each, when it is asked for and how long it takes."""
    clock, left = Clock(), []
    pace = Pace(grid_s, clock.now, clock.sleep)

    async def one(number: int, asked_s: float, takes_s: float) -> None:
        await clock.sleep(asked_s)
        turn = pace.begin()
        await clock.sleep(takes_s)
        await pace.wait(turn)
        left.append((number, clock.now_s))
        pace.end(turn)

    async def all_of_them() -> None:
        await clock.run(*(asyncio.ensure_future(one(number, *run)) for number, run in enumerate(runs)))

    asyncio.run(all_of_them())
    return left


def test_without_a_grid_an_answer_leaves_when_it_is_there() -> None:
    assert answered(0, (0, 3.25)) == [(0, 3.25)]


@pytest.mark.parametrize(
    ("takes_s", "leaves_s"),
    [(0, 2), (0.001, 2), (2, 2), (2.001, 4), (4, 4), (5, 8), (8.5, 16), (500, 512), (600, 1024)],
)
def test_an_answer_leaves_at_the_next_doubling_of_the_grid(takes_s: float, leaves_s: float) -> None:
    assert answered(2, (10, takes_s)) == [(0, 10 + leaves_s)]


def test_answers_leave_in_the_order_of_the_asks() -> None:
    assert answered(0, (0, 9), (1, 1), (2, 20), (3, 0)) == [(0, 9), (1, 9), (2, 22), (3, 22)]


def test_what_has_waited_for_its_turn_leaves_on_its_own_grid() -> None:
    assert answered(1, (0, 3), (0.5, 0.1)) == [(0, 4), (1, 4.5)]


def test_what_is_never_answered_lets_the_next_one_leave() -> None:
    async def two() -> None:
        pace = Pace(0)
        first, second = pace.begin(), pace.begin()
        waiting = asyncio.ensure_future(pace.wait(second))
        await asyncio.sleep(0)
        assert not waiting.done()
        pace.end(first)
        await asyncio.wait_for(waiting, 10)

    asyncio.run(two())


def test_a_grid_is_off_or_so_many_seconds() -> None:
    assert Settings().answer_grid_s == 0
    assert Settings.from_environment({"DUETLINK_ANSWER_GRID_S": "0.5"}).answer_grid_s == 0.5
    with pytest.raises(SettingError, match="answer_grid_s must be positive, got -1"):
        Settings(answer_grid_s=-1)
