"""Workers with the handlers of `probe_handler.py`: started by a program of the tests' own."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest

from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.worker.kernel import rooms
from duetlink.compute.worker.kernel.process import Room
from duetlink.compute.worker.protocol.limits import Limits

T = TypeVar("T")
StartWorker = Callable[..., Awaitable[Room]]

BOOTSTRAP = f"""
import site, sys
for path in sys.argv[2:]:
    path in sys.path or site.addsitedir(path)
sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
from tests.compute.worker import probe_handler, raw_calls
from duetlink.compute.worker.protocol import handlers
handlers.HANDLERS.update(probe_handler.HANDLERS)
from duetlink.compute.worker.room.child import main
main(int(sys.argv[1]))
"""


@pytest.fixture
async def start_worker() -> AsyncIterator[StartWorker]:
    """`worker = await start_worker(Limits(...), handler="probe", libraries=(...))`; closed after the test."""
    started: list[Room] = []

    async def start(limits: Limits | None = None, handler: str = "probe", **options: Any) -> Room:
        options = {"bootstrap": BOOTSTRAP} | options
        started.append(await Room.start(limits, handler=handler, **options))
        return started[-1]

    yield start
    for worker in started:
        await worker.close()


class Place:
    """A loop on which rooms are forked from a zygote, or processes of their own."""

    def __init__(self, kind: str) -> None:
        self.is_forked = kind == "forked"
        self._thread = LoopThread("duetlink-test")
        # a spare room that is forked amid the next test would look like a descriptor that it has left behind
        self._spare_s, rooms.SPARE_S = rooms.SPARE_S, 3600.0
        self._leave = self.run(self._use()) if self.is_forked else None

    def run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._thread.run(work)

    @property
    def zygote_pid(self) -> int | None:
        return self.run(self._zygote())

    def close(self) -> None:
        if self._leave is not None:
            self.run(self._left(self._leave))
        self._thread.stop()
        rooms.SPARE_S = self._spare_s

    async def _use(self) -> Callable[[], Awaitable[None]]:
        leave = rooms.use(BOOTSTRAP)
        await (
            await Room.start(handler="probe", bootstrap=BOOTSTRAP)
        ).close()  # its zygote is there from now on
        return leave

    async def _left(self, leave: Callable[[], Awaitable[None]]) -> None:
        await leave()

    async def _zygote(self) -> int | None:
        found = rooms.here()
        return found.zygote_pid if found is not None else None


@pytest.fixture(scope="module", params=["spawned", "forked"])
def place(request: pytest.FixtureRequest) -> Iterator[Place]:
    """Tests of the sandbox are done on both kinds of rooms."""
    if request.param == "forked" and sys.platform != "linux":
        pytest.skip("no room is forked on this system")
    made = Place(request.param)
    yield made
    made.close()


class Asked:
    """A room that several tests ask things, from outside its loop."""

    def __init__(self, place: Place, handler: str, libraries: tuple[str, ...], limits: Limits) -> None:
        self.place = place
        self.worker = place.run(Room.start(limits, handler=handler, libraries=libraries, bootstrap=BOOTSTRAP))

    def __call__(self, command: str, content: str | bytes = b"", timeout_s: float = 60.0) -> str:
        data = content.encode() if isinstance(content, str) else content
        return self.place.run(self.worker.call(command, data, timeout_s=timeout_s)).content.decode()

    def close(self) -> None:
        self.place.run(self.worker.close())
