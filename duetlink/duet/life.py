"""Loop side of one duet: waiting, pairing, connected, reconnecting, closed, and all that ends with it."""

from __future__ import annotations

import asyncio
import concurrent.futures
from collections.abc import Awaitable, Callable
from typing import Any

from duetlink.duet.asking import Asking
from duetlink.duet.catalogue import Catalogue
from duetlink.duet.giving import Giving
from duetlink.duet.inbox import Inbox
from duetlink.errors import DuetError, LinkClosed
from duetlink.link.link import Link
from duetlink.link.traffic import Statistics
from duetlink.settings import Settings

WAITING, PAIRING, CONNECTED, RECONNECTING, CLOSED = (
    "waiting",
    "pairing",
    "connected",
    "reconnecting",
    "closed",
)

Cleanup = Callable[[], Awaitable[None]]


class Life:
    """State of one duet. Other threads read its attributes; only the loop thread calls its methods."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.state = WAITING
        self.code: str | None = None
        self.verifier: str | None = None
        self.why_closed: DuetError | None = None
        self.why_lost = ""
        self.link: Link | None = None
        self.catalogue = Catalogue(settings)
        self.inbox = Inbox(self.catalogue, settings)
        self.asking = Asking(settings)
        self.giving = Giving(self.catalogue)
        # for waiting from any thread
        self.connected: concurrent.futures.Future[None] = concurrent.futures.Future()
        self.closed: concurrent.futures.Future[None] = concurrent.futures.Future()
        # by hand only: takes the scientist's text
        self.accept: Callable[[str], Awaitable[None]] | None = None
        self._cleanups: list[Cleanup] = []

    def at_end(self, cleanup: Cleanup) -> None:
        """Run `cleanup` when this duet ends; the last one added runs first."""
        self._cleanups.append(cleanup)

    def met(self) -> None:
        """The peer is at the signaling server."""
        self.state = PAIRING

    def attach(self, link: Link) -> None:
        """`link` is connected and becomes this duet's: all desks work with it from here on."""
        self.link = link
        link.on_closed = self.end
        link.on_lost = self._lost
        link.on_restored = self._restored
        for desk in (self.catalogue, self.inbox, self.asking, self.giving):
            desk.attach(link)
        link.start()
        preparing = asyncio.ensure_future(self.catalogue.keep_prepared())
        self.at_end(lambda: cancelled(preparing))
        self.state = CONNECTED
        self.connected.set_result(None)

    def _lost(self, why: str) -> None:
        if self.state == CONNECTED:
            self.state, self.why_lost = RECONNECTING, why

    def _restored(self) -> None:
        if self.state == RECONNECTING:
            self.state = CONNECTED

    def end(self, error: DuetError) -> None:
        """Close for `error`, the first one wins; clean-ups run in the background or in `close`."""
        if self.state == CLOSED:
            return
        self.state = CLOSED
        self.why_closed = error
        self.asking.detach(self.closed_error())
        if not self.connected.done():
            self.connected.set_exception(error)
        self.closed.set_result(None)
        self._ending = asyncio.ensure_future(self._clean_up())

    def closed_error(self) -> LinkClosed:
        """Why this duet is closed, as a fresh error for whoever still wants something of it."""
        why = self.why_closed
        return type(why)(str(why)) if isinstance(why, LinkClosed) else LinkClosed(str(why))

    async def close(self, reason: str = "") -> None:
        """Tell the peer and return when everything is freed."""
        if self.link is not None and self.state in (CONNECTED, RECONNECTING):
            await self.link.close(reason)
        self.end(LinkClosed("this side closed the duet; launch or join a new one"))
        await asyncio.shield(self._ending)

    def statistics(self) -> Statistics:
        """A frozen snapshot."""
        if self.link is None:
            return Statistics(self.state, None, None, 0, 0, 0.0, 0.0)
        return self.link.statistics(self.state)

    async def _clean_up(self) -> None:
        if self.link is not None:
            await self.link.close()
        while self._cleanups:
            await self._cleanups.pop()()


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
