"""One zygote for the duets of all tests of a process: its imports take five seconds of a processor.

In a notebook a zygote ends with the last duet, and the next duet has another. What zygotes do themselves is
tested where they are started: `tests/compute/worker/test_rooms.py` and `tests/system`.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Coroutine, Iterator, Sequence
from typing import Any, TypeVar

import pytest

from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.worker.kernel.calls import Reply
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.kernel.rooms import Zygote
from duetlink.compute.worker.kernel.spawn import BOOTSTRAP
from duetlink.compute.worker.protocol.memory import close_all
from duetlink.testing.faults import socket_of

T = TypeVar("T")


class SharedZygote:
    """Starts with the first room that a test wants, on a loop that outlives those of the duets."""

    def __init__(self) -> None:
        self._thread = LoopThread("tests-zygote")
        self._start = Zygote.start
        self._starting: asyncio.Task[Zygote] | None = None

    async def lend(self) -> Zygote:
        """One for the running loop, which forks by this one. Raises WorkerUnavailable."""
        zygote = await self.across(self._started())
        return Zygote(_Lent(self, zygote._worker))  # type: ignore[arg-type]

    async def across(self, work: Coroutine[Any, Any, T]) -> T:
        """What this work makes on the zygote's loop, where it ends even if who waits for it is cancelled."""
        return await asyncio.shield(asyncio.wrap_future(self._thread.submit(work)))

    async def _started(self) -> Zygote:
        if self._starting is None or (self._starting.done() and not self._is_there()):
            self._starting = asyncio.ensure_future(self._start(BOOTSTRAP))
        return await asyncio.shield(self._starting)

    def _is_there(self) -> bool:
        done = self._starting
        return done is not None and done.done() and done.exception() is None and not done.result().has_ended

    def descriptors(self) -> set[str]:
        """The sockets that it has in this process."""
        if self._starting is None or not self._is_there():
            return set()
        return {str(socket_of(self._starting.result()._worker).fileno())}

    def close(self) -> None:
        if self._starting is not None:
            with contextlib.suppress(Exception):
                self._thread.run(self._end())
        self._thread.stop()

    async def _end(self) -> None:
        assert self._starting is not None
        await (await self._starting).close()


class _Lent:
    """The room of a zygote as another loop sees it, which cannot end it."""

    def __init__(self, owner: SharedZygote, worker: Room) -> None:
        self._owner = owner
        self._worker = worker

    @property
    def pid(self) -> int:
        return self._worker.pid

    @property
    def has_ended(self) -> bool:
        return self._worker.has_ended

    async def call(self, command: str, fds: Sequence[int], timeout_s: float) -> Reply:
        own = [os.dup(fd) for fd in fds]  # the caller closes its own when it is cancelled
        return await self._owner.across(self._call(command, own, timeout_s))

    async def _call(self, command: str, fds: list[int], timeout_s: float) -> Reply:
        try:
            return await self._worker.call(command, fds=fds, timeout_s=timeout_s)
        finally:
            close_all(fds)

    def kill(self, why: str) -> None:
        """Others use it."""

    async def close(self) -> None:
        """Others use it."""


@contextlib.contextmanager
def sharing() -> Iterator[SharedZygote]:
    """Meanwhile, zygotes of the program that notebooks use are this one. A test's own program has its own."""
    shared = SharedZygote()
    start = Zygote.start

    async def lent(bootstrap: str) -> Zygote:
        return await (shared.lend() if bootstrap == BOOTSTRAP else start(bootstrap))

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Zygote, "start", lent)
        try:
            yield shared
        finally:
            shared.close()
