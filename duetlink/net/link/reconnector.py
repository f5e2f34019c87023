"""Keeps a link alive by putting one connection after another under the same channels.

A connection counts as lost when WebRTC says so, or when nothing was received for `heartbeat_timeout_s`: the
network changed, or a laptop sleeps. The two sides then meet again (`Reconnect`), and the channels continue
where they were. If the old connection works again first, it is kept. If it was this side that slept or was
blocked for that long, the reason for the loss says so, because all this side sees is that the peer has ended
the connection.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from duetlink.base.runtime.uptime import uptime_s
from duetlink.errors import DuetError, LinkClosed, PeerLost, RemoteProtocolError
from duetlink.net.datagrams.channel_datagrams import ChannelDatagrams
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.deadline import Deadline
from duetlink.net.peer.durable import DurableChannel
from duetlink.net.stun import ice
from duetlink.settings import Settings

# Makes the next connection to the same peer. Both sides have exchanged descriptions; it is about to open.
Reconnect = Callable[[], Awaitable[PeerConnection]]

CONTROL_KEPT_BYTES = 4 * 1024 * 1024
BULK_KEPT_BYTES = 1024 * 1024

_PAUSE_FIRST_S = 0.25
_PAUSE_LAST_S = 4.0


@dataclass(frozen=True, slots=True)
class Outage:
    """The reason for the lost connection, and for how many more seconds this side tries to reconnect."""

    why: str
    left_s: float


class ReconnectorOwner(Protocol):
    """Callbacks of the reconnector; the link implements them."""

    def connection_lost(self, why: str) -> None:
        """The connection was lost, and the reconnector tries to replace it."""

    def attempt_failed(self, error: BaseException) -> None:
        """One attempt to reconnect failed; another one follows."""

    def connection_restored(self) -> None: ...

    def was_stopped(self) -> None:
        """This process did not run for a while (sleep, or a blocked kernel)."""

    def network_changed(self) -> None: ...

    def gave_up(self, error: PeerLost) -> None:
        """Reconnecting has failed for good."""

    def round_trip_took(self, time_s: float) -> None: ...


class Reconnector:
    """The channels of a link, and the connections under them. Methods belong to the loop thread."""

    def __init__(
        self,
        connection: PeerConnection,
        settings: Settings,
        violated: Callable[[RemoteProtocolError], None],
    ) -> None:
        self._connection = connection
        self._settings = settings
        self._owner: ReconnectorOwner | None = None  # set by `start`
        self._tasks: list[asyncio.Task[None]] = []
        self._received_s = self._counted_from_s = uptime_s()
        self._received = asyncio.Event()
        self._beat_s = uptime_s()
        self._absent_s, self._back_s = 0.0, 0.0  # how long this side last did not run, and when it continued
        self._addresses = _addresses()
        self._why_lost: Callable[[], str] = lambda: (
            ""
        )  # a function, because the text says how long the silence has lasted
        self._deadline: Deadline | None = None
        self._search: asyncio.Task[PeerConnection] | None = None
        self._hurried = asyncio.Event()
        self.control = DurableChannel(violated, self._note_received, kept_bytes=CONTROL_KEPT_BYTES)
        self.bulk = DurableChannel(violated, self._note_received, kept_bytes=BULK_KEPT_BYTES)
        self.datagrams = ChannelDatagrams(violated)
        self.reconnects = 0

    async def accept(self, answer: bytes) -> None:
        """Apply the peer's answer to the first connection's offer."""
        await self._connection.accept(answer)

    async def open(self, timeout_s: float) -> None:
        """Wait until the first connection is open. Raises PairingError."""
        await self._connection.wait_open(timeout_s)
        self._attach()

    def start(self, owner: ReconnectorOwner, reconnect: Reconnect | None) -> None:
        """Watch the connection from here on, and call `owner`.

        Without `reconnect`, its end is the link's end.
        """
        self._beat_s = uptime_s()
        self._owner = owner
        self._tasks = [
            asyncio.ensure_future(self._run(owner, reconnect)),
            asyncio.ensure_future(self._send_heartbeats(owner)),
        ]

    @property
    def outage(self) -> Outage | None:
        """The current outage; None while there is a connection. From any thread."""
        deadline = self._deadline
        return None if deadline is None else Outage(self._why_lost(), deadline.left_s)

    def hurry(self) -> None:
        """Search for the peer again at once.

        An existing connection counts as lost unless something is received within two heartbeats.
        """
        self._expect_within(2 * self._settings.heartbeat_interval_s)
        self._hurried.set()
        if self._search is not None:
            self._search.cancel()

    async def close(self, why: str) -> None:
        for task in self._tasks:
            task.cancel()
        self.control.fail(why)
        self.bulk.fail(why)
        self.datagrams.close(LinkClosed(why))
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._connection.close()

    # -- one connection after another ------------------------------------------------------------------------

    async def _run(self, owner: ReconnectorOwner, reconnect: Reconnect | None) -> None:
        while True:
            self._why_lost = await self._wait_lost()
            why = self._why_lost()
            if reconnect is None:
                owner.gave_up(PeerLost(f"{why}; launch or join a new one to go on"))
                return
            limit_s = self._settings.reconnect_timeout_s
            self._deadline = Deadline(limit_s)
            owner.connection_lost(why)
            try:
                async with self._deadline:
                    await self._restore(owner, reconnect)
            except TimeoutError:
                owner.gave_up(
                    PeerLost(
                        f"{why}, and the link did not come back within {limit_s:g} s (reconnect_timeout_s); "
                        "launch or join a new one to go on"
                    )
                )
                return
            self._deadline = None
            owner.connection_restored()

    async def _wait_lost(self) -> Callable[[], str]:
        """Wait until the connection is lost. Return a function that gives the reason as current text."""
        ended = asyncio.ensure_future(self._connection.wait_ended())
        try:
            while not ended.done():
                await asyncio.wait((ended,), timeout=self._settings.heartbeat_interval_s)
                self._detect_absence()
                if uptime_s() - self._counted_from_s > self._settings.heartbeat_timeout_s:
                    own_absence = self.own_absence()
                    return partial(str, own_absence) if own_absence else self._silence
            return partial(str, self.own_absence() or f"the connection to the peer ended: {ended.result()}")
        finally:
            ended.cancel()

    def _silence(self) -> str:
        return (
            f"the peer has been silent for {uptime_s() - self._received_s:,.1f} s (its machine may sleep, "
            "its kernel may be blocked or have died, or the network between you)"
        )

    def own_absence(self) -> str:
        """Return text that says for how long this side was away, if that was longer than a heartbeat time-out
        and ended less than one ago; else "".
        """
        settings = self._settings
        self._detect_absence()
        is_over = uptime_s() - self._back_s > settings.heartbeat_timeout_s
        if is_over or self._absent_s < settings.heartbeat_timeout_s:
            return ""
        words = f"this machine slept or was blocked for {self._absent_s:,.0f} s"
        if self._absent_s > settings.reconnect_timeout_s:
            words += ", after which the peer may have given up"
        return words

    def _detect_absence(self) -> None:
        """Detect, at each heartbeat, that this process did not run since the last one."""
        now_s = uptime_s()
        away_s, self._beat_s = now_s - self._beat_s, now_s
        if away_s <= 2 * self._settings.heartbeat_interval_s:
            return
        self._absent_s, self._back_s = away_s, now_s
        # the silence may be this side's own fault: give the peer one more heartbeat
        self._expect_within(self._settings.heartbeat_interval_s)
        if self._owner is not None:  # later, since the caller is in the middle of something
            asyncio.get_running_loop().call_soon(self._owner.was_stopped)

    async def _restore(self, owner: ReconnectorOwner, reconnect: Reconnect) -> None:
        """Try to reconnect until there is a new connection, or until the old one works again."""
        pause_s = _PAUSE_FIRST_S
        while True:
            connection = self._connection
            self._received.clear()
            self._hurried.clear()
            received = asyncio.ensure_future(self._received.wait())
            hurried = asyncio.ensure_future(self._hurried.wait())
            attempt = asyncio.ensure_future(self._replace(reconnect))
            try:
                await asyncio.wait((attempt, received), return_when=asyncio.FIRST_COMPLETED)
                if self._connection is not connection:  # the message came over the new connection
                    await asyncio.wait((attempt,))
                if not attempt.done():
                    return
                if self._succeeded(owner, attempt):
                    self.reconnects += 1
                    return
                await asyncio.wait((received, hurried), timeout=pause_s, return_when=asyncio.FIRST_COMPLETED)
                if received.done() and self._connection is connection:
                    return
                if hurried.done():
                    pause_s = 0.0
            finally:
                received.cancel()
                hurried.cancel()
                if not attempt.done():
                    attempt.cancel()
                    await asyncio.wait((attempt,))
                if not attempt.cancelled():
                    attempt.exception()  # retrieve the error; it was handled above or no longer matters
            pause_s = min(max(2 * pause_s, _PAUSE_FIRST_S), _PAUSE_LAST_S)

    def _succeeded(self, owner: ReconnectorOwner, attempt: asyncio.Task[None]) -> bool:
        error = attempt.exception()
        if error is not None:
            owner.attempt_failed(error)
        if error is not None and not isinstance(error, DuetError | TimeoutError | OSError):
            asyncio.get_running_loop().call_exception_handler(
                {"message": "reconnecting failed by a defect", "exception": error}
            )
        return error is None

    async def _replace(self, reconnect: Reconnect) -> None:
        """Put a new connection under the channels; if that raises, the old one stays."""
        connection = await self._find_peer(reconnect)
        try:
            await connection.wait_open(self._settings.pairing_timeout_s)
        except BaseException:
            await connection.close()
            raise
        old, self._connection = self._connection, connection
        self._attach()
        await old.close()
        await self._wait_resumed(connection)

    async def _find_peer(self, reconnect: Reconnect) -> PeerConnection:
        search = self._search = asyncio.ensure_future(reconnect())
        try:
            await asyncio.wait((search,))
            if search.cancelled():
                raise LinkClosed("the search for the peer was restarted")
            return search.result()
        finally:
            self._search = None
            search.cancel()

    async def _wait_resumed(self, connection: PeerConnection) -> None:
        """Wait until the peer uses the new connection too.

        Raises LinkClosed if it ends first: the peer may have returned to the old connection.
        """
        resumed = asyncio.gather(asyncio.shield(self.control.resumed), asyncio.shield(self.bulk.resumed))
        ended = asyncio.ensure_future(connection.wait_ended())
        try:
            async with asyncio.timeout(self._settings.pairing_timeout_s):
                await asyncio.wait((resumed, ended), return_when=asyncio.FIRST_COMPLETED)
            if not resumed.done():
                raise LinkClosed(f"the next connection to the peer ended: {ended.result()}")
        finally:
            ended.cancel()
            resumed.cancel()
            await asyncio.gather(resumed, return_exceptions=True)

    def _attach(self) -> None:
        self.control.attach(self._connection.control)
        self.bulk.attach(self._connection.bulk)
        self.datagrams.attach(self._connection.datagrams)
        self._note_received()

    # -- heartbeat -----------------------------------------------------------------------------------

    def _note_received(self) -> None:
        self._received_s = self._counted_from_s = uptime_s()
        self._received.set()

    async def _send_heartbeats(self, owner: ReconnectorOwner) -> None:
        """Ping at every interval, and check if this machine's addresses have changed."""
        interval_s = self._settings.heartbeat_interval_s
        pings: set[asyncio.Task[None]] = set()
        try:
            while True:
                ping = asyncio.ensure_future(self._ping(owner))
                pings.add(ping)
                ping.add_done_callback(pings.discard)
                await asyncio.sleep(interval_s)
                self._detect_absence()
                addresses = _addresses()
                if addresses != self._addresses:
                    self._addresses = addresses
                    self._expect_within(2 * interval_s)
                    owner.network_changed()
        finally:
            for ping in pings:
                ping.cancel()

    def _expect_within(self, time_s: float) -> None:
        """Count the connection as lost unless something is received within `time_s` from now."""
        self._counted_from_s = uptime_s() - max(self._settings.heartbeat_timeout_s - time_s, 0.0)

    async def _ping(self, owner: ReconnectorOwner) -> None:
        with contextlib.suppress(TimeoutError, LinkClosed):
            async with asyncio.timeout(self._settings.heartbeat_timeout_s):
                owner.round_trip_took(await self.control.ping())


def _addresses() -> frozenset[str]:
    with contextlib.suppress(OSError, DuetError):
        return frozenset(ice.get_host_addresses(use_ipv4=True, use_ipv6=True))
    return frozenset()
