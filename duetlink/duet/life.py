"""The loop thread's side of one duet: its states from waiting to closed, and all parts that end with it."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import dataclasses
import datetime
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.audit.log import AuditLog
from duetlink.base.events import DuetStateChanged, Sink, Word
from duetlink.base.runtime.holdings import HeldStatus
from duetlink.base.wire.text import harmless
from duetlink.compute.operations.steps.effects import check_lists
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.worker.kernel import rooms
from duetlink.duet.answering.inbox import Inbox
from duetlink.duet.answering.persistence import Persistence
from duetlink.duet.answering.policies.book import PolicyBook
from duetlink.duet.answering.programs import Programs
from duetlink.duet.asking.pointers.remote_session import RemoteSession
from duetlink.duet.asking.requests.asking import Asking
from duetlink.duet.objects.catalogue import Catalogue
from duetlink.duet.objects.decoding import Decoding
from duetlink.duet.objects.giving import Giving
from duetlink.duet.objects.recorder import Recorder
from duetlink.duet.ports import Ports
from duetlink.errors import AuditUnavailable, DuetError, LinkClosed, LocalProtocolError, PeerLost
from duetlink.net.link.link import Link, LinkOwner
from duetlink.net.link.reconnector import Outage
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

_IN_ITS_PLACE = "another peer took its place with a new code"

_log = logging.getLogger(__name__)

Cleanup = Callable[[], Awaitable[None]]


class Life:
    """The state of one duet. Other threads read its attributes; only the loop thread calls its methods."""

    def __init__(self, settings: Settings, resumed: State | None = None) -> None:
        self.settings = settings
        self._resumed = resumed
        self.persistence = resumed if resumed is not None else Persistence()
        self.sink = Sink()
        self.state = WAITING
        self.code: str | None = None
        self.code_expires: datetime.datetime | None = None
        self.verifier: str | None = None
        self.why_closed: DuetError | None = None
        self.paused = False  # by `duet.pause()`: no object leaves
        self.link: Link | None = None
        self.recorder = Recorder(AuditLog(settings.audit_file) if settings.audit_file else None)
        self.catalogue = Catalogue(settings, self.recorder, self.persistence, self.sink)
        kept = self.persistence.ledger if settings.budget_path is None else None
        self.ledger = Ledger(kept or settings.budget_file)
        self.decoding = Decoding(settings.worker_memory_bytes)
        self.programs = Programs(self.catalogue, settings, self.recorder, self.ledger)
        self.inbox = Inbox(
            self.catalogue,
            settings,
            self.recorder,
            PolicyBook(self.persistence, self.sink),
            self.programs,
            self.decoding,
            self.persistence,
            self.sink,
        )
        self.asking = Asking(settings, self.sink)
        self.remote_session = RemoteSession(self.catalogue, self.asking, settings)
        self.giving = Giving(self.catalogue, self.recorder, self.decoding)
        self.ports = Ports(self.recorder, self.sink)
        # to wait from any thread
        self.connected: concurrent.futures.Future[None] = concurrent.futures.Future()
        # to wait on the loop: unlike a future, it keeps no reference to calls that have stopped waiting
        self.closed = asyncio.Event()
        # only in pairing by hand: takes the scientist's text
        self.accept: Callable[[str], Awaitable[None]] | None = None
        # only at an owner with a signaling server: makes a code that is valid for at most this many seconds,
        # and returns the task that pairs with it and calls `replace`
        self.make_code: Callable[[float], Awaitable[asyncio.Task[None]]] | None = None
        self.why_uninvited = ""  # why no one joined with the last new code
        self._inviting: asyncio.Task[None] | None = None
        self._invitations = asyncio.Lock()
        self._preparing: asyncio.Task[None] | None = None
        self._recording = False  # the log has an entry for the start, so it gets one for the end
        self._cleanups: list[Cleanup] = []

    def at_end(self, cleanup: Cleanup) -> None:
        """Run `cleanup` when this duet ends; the last one added runs first."""
        self._cleanups.append(cleanup)

    async def open(self, role: str) -> None:
        """Write the first audit entry, and restore the saved state. Raises AuditUnavailable, and
        ExtensionFailed for an allow-list of another package.
        """
        check_lists()
        resumed = f", resuming {self.persistence.name}" if self.persistence.name else ""
        await self.recorder.record(Entry(kind=entry.OPENED, reason=f"as {role}{resumed}"), sync=False)
        self._recording = True
        if role == "owner":
            self.remote_session.try_first(self.decoding)
        self.at_end(rooms.use())
        self.at_end(self.programs.close)
        self.at_end(self.inbox.close)  # also without a peer: resumed requests have timers
        if self._resumed is not None:
            await self._resumed.restore(self.catalogue, self.inbox)

    async def _record_end(self) -> None:
        ended = Entry(kind=entry.CLOSED, reason=str(self.why_closed))
        with contextlib.suppress(AuditUnavailable, TimeoutError):
            async with asyncio.timeout(_LAST_ENTRY_TIMEOUT_S):
                await self.recorder.record(ended)

    def met(self) -> None:
        """Note that the peer has arrived at the signaling server."""
        self._enter(PAIRING)

    def _enter(self, state: str) -> None:
        self.state = state
        why = None if self.why_closed is None else type(self.why_closed)
        self.sink.emit(DuetStateChanged(Word(state), why))
        self.sink.changed()

    def attach(self, link: Link, reason: str = "") -> None:
        """Make the connected `link` the duet's: all parts use it from here on."""
        is_first, self.link = self.link is None, link
        self.recorder.met(link.peer_name)
        self.recorder.note(Entry(kind=entry.CONNECTED, verifier=self.verifier or "", reason=reason))
        link.exports.pause(self.paused)
        link.belong_to(LinkOwner(self.end, self._lost, self._restored))
        self.catalogue.attach(link, self.remote_session.revisions.review)
        for part in (self.inbox, self.asking, self.giving, self.remote_session):
            part.attach(link)
        self.ports.attach(link)
        link.start()
        self._preparing = asyncio.ensure_future(self.catalogue.keep_prepared())
        self.at_end(partial(cancelled, self._preparing))
        if any(mine.mock is not None for mine in self.catalogue.mine.values()):
            self.programs.expect()
        self.at_end(self.remote_session.close)
        if is_first:
            self.at_end(self.decoding.close)  # runs after the clean-ups of those that use it
            self.at_end(self.inbox.close)
            self.at_end(self.ports.close)
            self.connected.set_result(None)
        self._enter(CONNECTED)

    # -- another peer in the place of a lost one -------------------------------------------------------------

    @property
    def invited(self) -> bool:
        """True while a new code waits for someone to join. Any thread may read it."""
        return self._inviting is not None and self.state == RECONNECTING

    async def invite(self) -> None:
        """Make a new code for this duet. Raises LinkClosed, LocalProtocolError, SignalingUnavailable."""
        if self.state == CLOSED:
            raise self.closed_error()
        if self.make_code is None:
            raise LocalProtocolError(
                "only the owner of a duet that was launched with a signaling server can make a new code"
            )
        outage = self.outage
        if outage is None:
            raise LocalProtocolError(
                f"a new code replaces a lost peer, and this duet is {self.state}; launch() opens another duet"
            )
        async with self._invitations:  # a second call withdraws the first code
            if self._inviting is not None:
                await cancelled(self._inviting)
            self.why_uninvited = ""
            task = self._inviting = await self.make_code(outage.left_s)
            task.add_done_callback(self._uninvited)
        self.at_end(partial(cancelled, task))
        if self.state != RECONNECTING:  # the peer came back meanwhile
            task.cancel()
        self.sink.changed()

    def _uninvited(self, task: asyncio.Task[None]) -> None:
        if task is self._inviting:
            self._inviting = None
        error = None if task.cancelled() else task.exception()
        if error is not None:
            self.why_uninvited = str(error)
            if not isinstance(error, DuetError | TimeoutError):
                _log.error("pairing by a new code failed by a defect", exc_info=error)
        self.sink.changed()

    def check_missing(self) -> None:
        """Raise LinkClosed if the peer is not lost, or no longer."""
        if self.state != RECONNECTING:
            raise LinkClosed("the lost peer has come back, so its place is not free for the new code")

    async def replace(self, link: Link, verifier: str) -> None:
        """Continue with `link`, whose peer joined with the new code and takes the earlier peer's place, under
        its name. The earlier peer's link is closed, and its questions are dropped.

        Raises LinkClosed: the earlier peer has come back meanwhile, or the duet is closed.
        """
        self.check_missing()
        before = self.link
        assert before is not None
        before.belong_to(LinkOwner())
        try:
            await self._forget_peer(before)
            self.check_missing()
            self.verifier = verifier
            reason = f"by a new code, in the place of the peer before; it calls itself {link.peer_name!r}"
            link.peer_name = before.peer_name
            self.attach(link, reason)
        except BaseException as error:  # neither peer is connected now
            self.end(LinkClosed(f"the peer was lost while another one took its place: {error}"))
            raise
        if link.ended is not None:
            self.end(link.ended)
            return
        compression = before.agreement.compression.to_wire()
        del compression["version"]
        try:
            await link.agreement.change(compression)
        except DuetError as error:
            _log.warning("the earlier peer's compression settings cannot be applied: %s", error)

    async def _forget_peer(self, link: Link) -> None:
        """Drop everything that belonged to this peer."""
        words = "the peer of this pointer is gone; take a new pointer from duet.store"
        self.asking.detach(LinkClosed(_IN_ITS_PLACE), words)
        self.remote_session.detach()
        link.cut(_IN_ITS_PLACE)
        await link.close()
        assert self._preparing is not None
        await cancelled(self._preparing)
        await self.remote_session.close()
        await self.ports.forget_peer()
        await self.inbox.forget_peer()
        self.catalogue.forget_peer()
        self.asking = self.asking.successor()
        self.remote_session = self.remote_session.successor(self.asking)

    def pause(self, paused: bool) -> None:
        """Stop all objects from leaving, also in transfers that begin later; or let them leave again. Raises
        LinkClosed.
        """
        if self.state == CLOSED:
            raise self.closed_error()
        if paused != self.paused:
            self.paused = paused
            self.ports.leaving.pause(paused)
            if self.link is not None:
                self.link.exports.pause(paused)
            self.sink.changed()

    def _lost(self, why: str) -> None:
        if self.state == CONNECTED:
            self._enter(RECONNECTING)

    @property
    def outage(self) -> Outage | None:
        """The reason why the peer is out of reach, and how long this side will look for it; None while it is
        not. Any thread may read it.
        """
        return self.link.outage if self.link is not None and self.state == RECONNECTING else None

    def reconnect(self) -> None:
        """Look for the peer at once. Raises LinkClosed."""
        if self.state == CLOSED:
            raise self.closed_error()
        if self.link is not None:
            self.link.hurry()

    def _restored(self) -> None:
        if self.state == RECONNECTING:
            if self._inviting is not None:
                self._inviting.cancel()
            self._enter(CONNECTED)

    def end(self, error: DuetError) -> None:
        """Close because of `error`; only the first call counts. Clean-ups run in the background; `close`
        waits for them.
        """
        if self.state == CLOSED:
            return
        if isinstance(error, PeerLost):
            error = PeerLost(f"{error}: {self._way_back()}")
        self.why_closed = error
        self.asking.detach(self.closed_error())
        self.remote_session.detach()
        self._enter(CLOSED)
        if not self.connected.done():
            self.connected.set_exception(error)
        self.closed.set()
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
        """Return a new error that says why this duet is closed, for a call that still wants
        something of it.
        """
        why = self.why_closed
        return type(why)(str(why)) if isinstance(why, LinkClosed) else LinkClosed(str(why))

    async def close(self, reason: str = "") -> None:
        """Tell the peer, and return when everything is freed."""
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
        """Return a frozen snapshot of the link."""
        if self.link is None:
            return Statistics(self.state, None, None, 0, 0, 0.0, 0.0)
        return self.link.statistics(self.state)

    def held(self) -> tuple[HeldStatus, ...]:
        """Return what is held for this duet, and why, safe to print. Any thread may call it."""
        held = list(self.catalogue.holdings)
        if self.link is not None:
            held += self.link.holdings
        found = [one.status() for one in dict.fromkeys(held)]
        return tuple(dataclasses.replace(one, title=harmless(one.title)) for one in found)

    async def _clean_up(self) -> None:
        try:
            if self.link is not None:
                await self.link.close()
            while self._cleanups:
                await self._cleanups.pop()()
        finally:
            if self._recording:
                await self._record_end()
            # a variable that holds this duet must not keep results in memory
            for request in self.inbox.requests:
                request.release()
            self.recorder.close()
            await self.persistence.close()


async def cancelled(task: asyncio.Task[Any]) -> None:
    """Cancel a task and wait until it has ended."""
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
