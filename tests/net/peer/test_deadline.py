"""Deadlines that count only time in which an answer could come."""

from __future__ import annotations

import asyncio
import threading

import pytest

from duetlink.net.peer import deadline
from duetlink.net.peer.deadline import Deadline
from duetlink.testing.faults import set_constants


async def expired(limit: Deadline, work: asyncio.Future[None]) -> bool:
    try:
        async with limit:
            await work
    except TimeoutError:
        return True
    return False


async def test_it_ends_what_takes_too_long() -> None:
    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert await expired(Deadline(0.01), never)
    assert never.cancelled()


async def test_what_is_in_time_is_left_alone() -> None:
    done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asyncio.get_running_loop().call_soon(done.set_result, None)
    assert not await expired(Deadline(30), done)


async def test_it_stands_still_as_long_as_it_is_told_to() -> None:
    asked: list[int] = []

    def stands_still() -> bool:
        asked.append(len(asked))
        return len(asked) < 4

    never: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    assert await expired(Deadline(0.01, stands_still), never)
    assert asked == [0, 1, 2, 3]


async def test_time_in_which_the_process_slept_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    set_constants(monkeypatch, deadline, STEP_S=0.05)
    answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    waiting = asyncio.ensure_future(expired(Deadline(0.2), answer))
    await asyncio.sleep(0)
    threading.Event().wait(0.3)  # as where nothing of this process runs
    for _ in range(5):
        await asyncio.sleep(0)
    answer.set_result(None)
    assert not await waiting


async def test_errors_of_the_work_come_through() -> None:
    with pytest.raises(LookupError):
        async with Deadline(30):
            raise LookupError
