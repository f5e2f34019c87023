"""The receiving of one body, which waits while either side has paused it, and ends if either side says so."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Self, TypeVar

from duetlink.base.runtime.scope import Scope
from duetlink.errors import DuetError
from duetlink.net.link.transfer import Transfer

T = TypeVar("T")


class _Paused(Exception):
    """Raised inside a step that must be restarted after a pause."""


class Pull:
    """Use as `async with Pull(transfer) as pull`. Methods belong to the loop thread."""

    def __init__(self, transfer: Transfer) -> None:
        self.transfer = transfer
        self._whole = Scope()
        self._step = Scope()
        self._moving = asyncio.Event()
        self._moving.set()

    async def __aenter__(self) -> Self:
        await self._whole.__aenter__()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._whole.__aexit__(kind, error, trace)

    def end(self, error: DuetError) -> None:
        """Make the block raise `error`, after its clean-up has run."""
        self._whole.leave(error)

    def follow(self) -> None:
        """Interrupt the current step, or let it run again, as the transfer's record says."""
        if self.transfer.paused:
            self._moving.clear()
            self._step.leave(_Paused())
        else:
            self._moving.set()

    async def wait_moving(self) -> None:
        """Wait until neither side has paused the transfer."""
        await self._moving.wait()

    async def step(self, begin: Callable[[], Awaitable[T]]) -> T:
        """Return the result of `begin()`, called while the transfer is not paused.

        If a pause comes in between, the step is cancelled and begins again afterwards, so that a pause uses
        up no deadline. When this returns, the transfer is not paused.
        """
        while True:
            await self.wait_moving()
            self._step = Scope()
            try:
                async with self._step:
                    return await begin()
            except _Paused:
                continue
