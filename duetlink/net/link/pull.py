"""One body on its way here: it waits while either side keeps it back, and ends where either says so."""

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
    """A step is to be begun anew."""


class Pull:
    """`async with Pull(transfer) as pull`; methods belong to the loop thread."""

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
        """Let the block raise `error`, once its clean-up has run."""
        self._whole.leave(error)

    def follow(self) -> None:
        """Let what has been noted in the transfer's record take effect."""
        if self.transfer.paused:
            self._moving.clear()
            self._step.leave(_Paused())
        else:
            self._moving.set()

    async def wait_moving(self) -> None:
        """Wait until nobody keeps it back."""
        await self._moving.wait()

    async def step(self, begin: Callable[[], Awaitable[T]]) -> T:
        """What `begin()` brings. It waits while the transfer is paused, and is begun anew after a pause that
        came in between: a pause must not use up deadlines, nor anybody's patience. When it returns, nobody
        keeps the transfer back.
        """
        while True:
            await self.wait_moving()
            self._step = Scope()
            try:
                async with self._step:
                    return await begin()
            except _Paused:
                continue
