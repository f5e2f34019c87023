"""Descriptors as a budget: what may wait is refused near the end, what must go on has some of its own."""

from __future__ import annotations

import asyncio
import os
import threading

import pytest

from duetlink.base.runtime import descriptors
from duetlink.base.runtime.descriptors import Reserve
from duetlink.errors import DescriptorsShort


def opened(target: str = os.devnull) -> int:
    """How many descriptors of this process lead there."""
    count = 0
    for fd in os.listdir("/proc/self/fd"):
        try:
            count += os.readlink(f"/proc/self/fd/{fd}") == target
        except OSError:
            continue
    return count


@pytest.mark.parametrize(
    ("open_", "limit", "refused"),
    [
        (959, 1024, False),
        (960, 1024, True),
        (111, 128, False),
        (112, 128, True),
        (5000, None, False),
        (None, 1024, False),
    ],
)
def test_the_last_ones_are_not_for_what_may_wait(
    monkeypatch: pytest.MonkeyPatch, open_: int | None, limit: int | None, refused: bool
) -> None:
    monkeypatch.setattr(descriptors, "used", lambda: open_)
    monkeypatch.setattr(descriptors, "limit", lambda: limit)
    if not refused:
        descriptors.check_room("'x' is not shared")
        return
    with pytest.raises(DescriptorsShort, match=f"^'x' is not shared: {open_} of the {limit:,} descriptors"):
        descriptors.check_room("'x' is not shared")


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc")
def test_they_are_counted() -> None:
    before = descriptors.used()
    assert before is not None
    fd = os.open(os.devnull, os.O_RDONLY)
    assert descriptors.used() == before + 1
    os.close(fd)


@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts descriptors through /proc")
def test_a_reserve_is_free_while_it_is_lent_and_taken_back_after() -> None:
    before = opened()
    reserve = Reserve(3)
    assert opened() == before + 3
    with reserve.lent():
        assert opened() == before
        with reserve.lent():
            pass
        assert opened() == before
    assert opened() == before + 3
    reserve.close()
    reserve.close()
    assert opened() == before
    with reserve.lent():
        pass
    assert opened() == before


async def test_what_another_thread_opens_is_closed_after_the_block() -> None:
    before = opened()
    async with descriptors.opened_by(lambda: os.open(os.devnull, os.O_RDONLY)) as fd:
        assert os.readlink(f"/proc/self/fd/{fd}") == os.devnull
    assert opened() == before


@pytest.mark.parametrize("fails", [False, True])
async def test_what_another_thread_opens_for_a_cancelled_caller_is_closed(fails: bool) -> None:
    before, begun, may_open, is_open = opened(), asyncio.Event(), threading.Event(), asyncio.Event()
    loop = asyncio.get_running_loop()

    def make() -> int:
        loop.call_soon_threadsafe(begun.set)
        assert may_open.wait(10)
        if fails:
            raise OSError("no descriptor is left")
        fd = os.open(os.devnull, os.O_RDONLY)
        assert opened() == before + 1
        loop.call_soon_threadsafe(is_open.set)
        return fd

    async def use() -> None:
        async with descriptors.opened_by(make):
            raise AssertionError("the caller was cancelled")

    using = asyncio.ensure_future(use())
    async with asyncio.timeout(20):
        await begun.wait()
        using.cancel()
        with pytest.raises(asyncio.CancelledError):
            await using
        may_open.set()
        if not fails:
            await is_open.wait()
        while opened() != before:
            await asyncio.sleep(0)
