"""A time-out that counts only time in which an answer could arrive.

When a laptop wakes up after an hour, all its timers expire at once, before any code can notice that it slept.
So a deadline is counted in steps of a second, and a step that ends late counts only its own length.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

_STEP_S = 1.0


class Deadline:
    """`async with Deadline(time_s)` raises TimeoutError when `time_s` have been counted.

    Time in which this process sleeps or is blocked does not count, nor does time in which `stands_still()`,
    which is called once a second, returns True.
    """

    def __init__(self, time_s: float, stands_still: Callable[[], bool] = lambda: False) -> None:
        self._left_s = time_s
        self._stands_still = stands_still
        self._loop = asyncio.get_running_loop()
        self._timeout = asyncio.timeout(None)

    @property
    def left_s(self) -> float:
        """Seconds that have not been counted yet."""
        return max(0.0, self._left_s)

    async def __aenter__(self) -> None:
        await self._timeout.__aenter__()
        self._count()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        await self._timeout.__aexit__(kind, error, trace)

    def _count(self) -> None:
        step_s = min(_STEP_S, max(0.0, self._left_s))
        self._timer = self._loop.call_later(step_s, self._counted, step_s)

    def _counted(self, step_s: float) -> None:
        if not self._stands_still():
            self._left_s -= step_s
            if self._left_s <= 0:
                self._timeout.reschedule(self._loop.time())
                return
        self._count()
