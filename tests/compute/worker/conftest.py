"""Workers with the desks of `probe_desk.py`: started by a program of the tests' own."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from duetlink.base.runtime.loop import LoopThread
from duetlink.compute.worker.limits import Limits
from duetlink.compute.worker.process import Worker

StartWorker = Callable[..., Awaitable[Worker]]

BOOTSTRAP = f"""
import site, sys
for path in sys.argv[2:]:
    path in sys.path or site.addsitedir(path)
sys.path.insert(0, {str(Path(__file__).resolve().parents[3])!r})
from tests.compute.worker import probe_desk
from duetlink.compute.worker import desks
desks.DESKS.update(probe_desk.DESKS)
from duetlink.compute.worker.child import main
main(int(sys.argv[1]))
"""


@pytest.fixture
async def start_worker() -> AsyncIterator[StartWorker]:
    """`worker = await start_worker(Limits(...), desk="probe", libraries=(...))`; closed after the test."""
    started: list[Worker] = []

    async def start(limits: Limits | None = None, desk: str = "probe", **options: Any) -> Worker:
        options = {"bootstrap": BOOTSTRAP} | options
        started.append(await Worker.start(limits, desk=desk, **options))
        return started[-1]

    yield start
    for worker in started:
        await worker.close()


class Asked:
    """A worker that several tests ask things, from outside its loop."""

    def __init__(self, desk: str, libraries: tuple[str, ...], limits: Limits) -> None:
        self._thread = LoopThread("duetlink-test")
        self.worker = self._thread.run(
            Worker.start(limits, desk=desk, libraries=libraries, bootstrap=BOOTSTRAP)
        )

    def __call__(self, command: str, content: str | bytes = b"", timeout_s: float = 60.0) -> str:
        data = content.encode() if isinstance(content, str) else content
        return self._thread.run(self.worker.call(command, data, timeout_s=timeout_s)).content.decode()

    def close(self) -> None:
        self._thread.run(self.worker.close())
        self._thread.stop()
