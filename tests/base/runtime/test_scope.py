"""A stretch of a task that others may end."""

from __future__ import annotations

import asyncio

import pytest

from duetlink.base.runtime.scope import Scope


class Told(Exception):
    """What the block is to raise."""


async def test_what_runs_inside_is_cancelled_and_its_clean_up_has_run_when_the_error_is_raised() -> None:
    cleaned: list[bool] = []
    scope = Scope()

    async def inside() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    asyncio.get_running_loop().call_soon(scope.leave, Told("why"))
    with pytest.raises(Told, match="why"):
        async with scope:
            await inside()
    assert cleaned == [True]
    await asyncio.sleep(0)  # the task itself was not cancelled


async def test_an_end_that_comes_with_the_last_step_counts() -> None:
    with pytest.raises(Told):
        async with Scope() as scope:
            scope.leave(Told())


async def test_outside_and_twice_it_has_no_effect() -> None:
    scope = Scope()
    scope.leave(Told("early"))
    with pytest.raises(Told, match="first"):
        async with scope:
            scope.leave(Told("first"))
            scope.leave(Told("second"))
            await asyncio.Event().wait()
    scope.leave(Told("late"))


async def test_errors_and_cancellations_of_others_pass() -> None:
    with pytest.raises(TimeoutError, match="its own"):
        async with Scope():
            raise TimeoutError("its own")

    async def wait() -> None:
        async with Scope():
            await asyncio.Event().wait()

    task = asyncio.ensure_future(wait())
    await asyncio.sleep(0)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_of_two_that_end_at_once_the_outer_one_wins() -> None:
    with pytest.raises(Told, match="outer"):
        async with Scope() as outer, Scope() as inner:
            inner.leave(Told("inner"))
            outer.leave(Told("outer"))
            await asyncio.Event().wait()
