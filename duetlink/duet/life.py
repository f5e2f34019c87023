"""Loop side of one duet: waiting, pairing, connected, reconnecting, closed, and all that ends with it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import datetime
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.base.runtime.holdings import HeldStatus
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.worker import rooms
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.persistence import NothingKept, Persistence
from duetlink.duet.answering.policies.book import PolicyBook
from duetlink.duet.answering.programs import Programs
from duetlink.duet.asking.asking import Asking
from duetlink.duet.asking.workbench import Workbench
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.giving import Giving
from duetlink.duet.objects.recorder import Recorder
from duetlink.duet.ports import Ports
from duetlink.errors import AuditUnavailable, DuetError, LinkClosed, PeerLost
from duetlink.net.link.lifeline import Outage
from duetlink.net.link.link import Link
from duetlink.net.link.traffic import Statistics
from duetlink.settings import Settings

if TYPE_CHECKING:
    from duetlink.duet.state.state import State

WAITING, PAIRING, CONNECTED, RECONNECTING, CLOSED = (
    "waiting",
    "pairing",
    "connected",
    "reconnecting",
    "closed",
)

_LAST_ENTRY_TIMEOUT_S = 3.0

Cleanup = Callable[[], Awaitable[None]]


class Life:
    """State of one duet. Other threads read its attributes; only the loop thread calls its methods."""

    def __init__(self, settings: Settings, resumed: State | None = None) -> None:
        self.settings = settings
        self._resumed = resumed
        self.persistence: Persistence = resumed if resumed is not None else NothingKept()
        self.state = WAITING
        self.code: str | None = None
        self.code_expires: datetime.datetime | None = None
        self.verifier: str | None = None
        self.why_closed: DuetError | None = None
        self.paused = False  # whether this side sends nothing
        self.link: Link | None = None
        self.recorder = Recorder(AuditLog(settings.audit_file) if settings.audit_file else None)
        self.catalogue = Catalogue(settings, self.recorder, self.persistence)
        kept = self.persistence.ledger if settings.budget_path is None else None
        self.ledger = Ledger(kept or settings.budget_file)
        self.decoding = Decoding(settings.worker_memory_bytes)
        self.programs = Programs(self.catalogue, settings, self.recorder, self.ledger)
        self.inbox = Inbox(
            self.catalogue,
            settings,
            self.recorder,
            PolicyBook(self.persistence),
            self.programs,
            self.decoding,
            self.persistence,
        )
        self.asking = Asking(settings)
        self.workbench = Workbench(self.catalogue, self.asking, settings)
        self.giving = Giving(self.catalogue, self.recorder, self.decoding)
        self.ports = Ports(self.recorder)
        # for waiting from any thread
        self.connected: concurrent.futures.Future[None] = concurrent.futures.Future()
        # for waiting on the loop: it keeps nothing of those who no longer wait
        self.closed = asyncio.Event()
        # by hand only: takes the scientist's text
        self.accept: Callable[[str], Awaitable[None]] | None = None
        self._recording = False  # the log says that this duet has begun, and is to say how it ends
        self._cleanups: list[Cleanup] = []
        self._watchers: list[Callable[[], None]] = []

    def at_end(self, cleanup: Cleanup) -> None:
        """Run `cleanup` when this duet ends; the last one added runs first."""
        self._cleanups.append(cleanup)

    def watch(self, callback: Callable[[], None]) -> Callable[[], None]:
        """Call `callback` after each change of what a person would want to see; returns what ends that.

        Both from any thread; `callback` is called on the loop thread and must return at once.
        """
        self._watchers.append(callback)

        def unwatch() -> None:
            with contextlib.suppress(ValueError):  # ended before
                self._watchers.remove(callback)

        return unwatch

    def changed(self) -> None:
        for callback in list(self._watchers):
            callback()

    async def open(self, role: str) -> None:
        """Begin to record what happens, with all that is kept put back. Raises AuditUnavailable."""
        resumed = f", resuming {self.persistence.name}" if self.persistence.name else ""
        await self.recorder.record(Entry(kind=entry.OPENED, reason=f"as {role}{resumed}"), sync=False)
        self._recording = True
        self.at_end(rooms.use())
        self.at_end(self.programs.close)
        self.at_end(self.inbox.close)  # also of a duet that nobody joins: requests of before may expire
        self.inbox.on_change = self.catalogue.on_change = self.changed
        if self._resumed is not None:
            await self._resumed.restore(self.catalogue, self.inbox)

    async def _put_down_end(self) -> None:
        ended = Entry(kind=entry.CLOSED, reason=str(self.why_closed))
        with contextlib.suppress(AuditUnavailable, TimeoutError):
            async with asyncio.timeout(_LAST_ENTRY_TIMEOUT_S):
                await self.recorder.record(ended)

    def met(self) -> None:
        """The peer is at the signaling server."""
        self.state = PAIRING
        self.changed()

    def attach(self, link: Link) -> None:
        """`link` is connected and becomes this duet's: all desks work with it from here on."""
        self.link = link
        self.recorder.met(link.peer_name)
        self.recorder.note(Entry(kind=entry.CONNECTED, verifier=self.verifier or ""))
        link.exports.pause(self.paused)
        link.on_closed = self.end
        link.on_lost = self._lost
        link.on_restored = self._restored
        link.on_change = self.inbox.on_change = self.changed
        self.asking.on_change = self.changed
        self.ports.on_change = self.changed
        for desk in (self.catalogue, self.inbox, self.asking, self.giving, self.workbench):
            desk.attach(link)
        self.ports.attach(link)
        link.start()
        self.at_end(partial(cancelled, asyncio.ensure_future(self.catalogue.keep_prepared())))
        if any(mine.mock is not None for mine in self.catalogue.mine.values()):
            self.programs.expect()
        self.at_end(self.workbench.close)
        self.at_end(self.decoding.close)  # after those that use it
        self.at_end(self.inbox.close)
        self.at_end(self.ports.close)
        self.state = CONNECTED
        self.connected.set_result(None)
        self.changed()

    def pause(self, paused: bool) -> None:
        """Let no object leave this side, also of what begins later; or let it again. Raises LinkClosed."""
        if self.state == CLOSED:
            raise self.closed_error()
        if paused != self.paused:
            self.paused = paused
            self.ports.leaving.pause(paused)
            if self.link is not None:
                self.link.exports.pause(paused)
            self.changed()

    def _lost(self, why: str) -> None:
        if self.state == CONNECTED:
            self.state = RECONNECTING
            self.changed()

    @property
    def outage(self) -> Outage | None:
        """Why the peer is out of reach, and for how long it is looked for. From any thread."""
        return self.link.outage if self.link is not None and self.state == RECONNECTING else None

    def reconnect(self) -> None:
        """Look for the peer at once. Raises LinkClosed."""
        if self.state == CLOSED:
            raise self.closed_error()
        if self.link is not None:
            self.link.hurry()

    def _restored(self) -> None:
        if self.state == RECONNECTING:
            self.state = CONNECTED
            self.changed()

    def end(self, error: DuetError) -> None:
        """Close for `error`, the first one wins; clean-ups run in the background or in `close`."""
        if self.state == CLOSED:
            return
        if isinstance(error, PeerLost):
            error = PeerLost(f"{error}: {self._way_back()}")
        self.why_closed = error
        self.asking.detach(self.closed_error())
        self.workbench.detach()
        self.state = CLOSED
        if not self.connected.done():
            self.connected.set_exception(error)
        self.closed.set()
        self.changed()
        self._ending = asyncio.ensure_future(self._clean_up())

    def _way_back(self) -> str:
        if self.code is None:
            return "duetlink.join(code), with a new code of the owner's; what has been fetched is still here"
        if self.persistence.name:
            return (
                f"duetlink.launch(resume={self.persistence.name!r}) brings back what is kept, with a new code"
            )
        return "duetlink.launch(), with a new code for the peer"

    def closed_error(self) -> LinkClosed:
        """Why this duet is closed, as a fresh error for whoever still wants something of it."""
        why = self.why_closed
        return type(why)(str(why)) if isinstance(why, LinkClosed) else LinkClosed(str(why))

    async def close(self, reason: str = "") -> None:
        """Tell the peer and return when everything is freed."""
        if self.link is not None and self.state in (CONNECTED, RECONNECTING):
            await self.link.close(reason)
        words = f": {reason}" if reason else ""
        self.end(LinkClosed(f"this side closed the duet{words}; launch or join a new one"))
        await asyncio.shield(self._ending)

    def cut(self, reason: str) -> None:
        """End without waiting for the peer; `close` then returns soon."""
        if self.link is not None:
            self.link.cut(reason)
        self.end(LinkClosed(f"this side closed the duet: {reason}"))

    def statistics(self) -> Statistics:
        """A frozen snapshot."""
        if self.link is None:
            return Statistics(self.state, None, None, 0, 0, 0.0, 0.0)
        return self.link.statistics(self.state)

    def held(self) -> tuple[HeldStatus, ...]:
        """What is held for this duet, and why. From any thread."""
        held = list(self.catalogue.holdings)
        if self.link is not None:
            held += self.link.holdings
        return tuple(one.status() for one in dict.fromkeys(held))

    async def _clean_up(self) -> None:
        try:
            if self.link is not None:
                await self.link.close()
            while self._cleanups:
                await self._cleanups.pop()()
        finally:
            if self._recording:
                await self._put_down_end()
            for request in self.inbox.requests:  # whoever still holds this duet does not hold results with it
                request.release()
            self.recorder.close()
            await self.persistence.close()


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
