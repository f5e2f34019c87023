"""A block of a task that other code may end with an error of its choice."""

from __future__ import annotations

import asyncio
from types import TracebackType
from typing import Self


class Scope:
    """`async with Scope() as scope: ...`, and elsewhere on the loop `scope.leave(error)`.

    The block is then cancelled, and raises `error` once its clean-up has run. `leave` has no effect after the
    block.
    """

    def __init__(self) -> None:
        self._timeout = asyncio.timeout(None)
        self._inside = False
        self._error: Exception | None = None

    async def __aenter__(self) -> Self:
        await self._timeout.__aenter__()
        self._inside = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._inside = False
        try:
            await self._timeout.__aexit__(kind, error, trace)
        except TimeoutError:
            assert self._error is not None
            raise self._error from None
        if kind is None and self._error is not None:  # the block ended before the cancellation arrived
            raise self._error

    def leave(self, error: Exception) -> None:
        if self._inside and self._error is None:
            self._error = error
            self._timeout.reschedule(asyncio.get_running_loop().time())
