"""A real server on the loopback with a clock that tests move, and a check that nothing is left behind."""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from duetlink.net.signaling.server import MailboxServer

DESCRIPTORS = Path("/proc/self/fd")


class Clock:
    def __init__(self) -> None:
        self.now_s = 1000.0

    def __call__(self) -> float:
        return self.now_s


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def server(clock: Clock) -> AsyncIterator[MailboxServer]:
    server = MailboxServer(clock=clock)
    yield server
    await server.stop()


@pytest.fixture
async def url(server: MailboxServer) -> str:
    host, port = await server.start()
    return f"ws://{host}:{port}"


@pytest.fixture(autouse=True)
async def nothing_left_behind() -> AsyncIterator[None]:
    tasks_before = asyncio.all_tasks()
    descriptors_before = _descriptors()
    yield
    async with asyncio.timeout(60):
        while left := asyncio.all_tasks() - tasks_before - {asyncio.current_task()}:
            await asyncio.wait(left, timeout=0.01)
        # a transport closes its socket a turn later, and nothing announces it
        while _descriptors() > descriptors_before:
            await asyncio.sleep(0)


def _descriptors() -> int:
    return len(os.listdir(DESCRIPTORS)) if DESCRIPTORS.exists() else 0
