"""Makes the next connection to the peer of a session after the last one was lost.

Each side waits at several servers at once: at the server of the session code, and at every other one of this
machine, since the kernel that ran the server may be frozen or gone. Neither side knows where the other one
waits, nor which of two meetings is the later one. So the scientist makes an offer at each server where the
owner appears, and the owner answers only the first offer that arrives. Then both sides use the same meeting.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from urllib.parse import urlsplit

from duetlink.errors import DuetError
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import choose_ice_servers
from duetlink.net.signaling import Role, SessionKey, WebSocketMailbox, live_servers
from duetlink.net.signaling.reunion import Meeting, meeting_place
from duetlink.settings import Settings

_OWN_ALONE_S = 2.0  # only the server of the code is used at first: usually the peer comes there soon
_PAUSE_FIRST_S = 0.25
_PAUSE_LAST_S = 4.0  # between two tries at one server


class Reunion:
    """Finds the peer of `key` again: at the signaling server at `url`, or at another one of this machine."""

    def __init__(self, key: SessionKey, url: str, settings: Settings) -> None:
        self._key = key
        self._url = url
        self._settings = settings

    async def connect(self) -> PeerConnection:
        """Wait for the peer at all servers, without limit; return a connection to it that is about to
        open.
        """
        search = _Search(self._key, self._settings)
        try:
            connection = await search.run(self._url)
            await search.leave()
        except BaseException:
            await search.drop()
            raise
        return connection


class _Search:
    """One search for the peer, at all servers at once."""

    def __init__(self, key: SessionKey, settings: Settings) -> None:
        self._key = key
        self._settings = settings
        self._waits: dict[str, asyncio.Task[None]] = {}  # by URL of the server
        self._turn = asyncio.Lock()  # one meeting is decided at a time
        self._decided: PeerConnection | None = None
        self._met: asyncio.Future[PeerConnection] = asyncio.get_running_loop().create_future()

    async def run(self, url: str) -> PeerConnection:
        self._wait_at(url)
        await asyncio.wait(
            (self._met, self._waits[url]), timeout=_OWN_ALONE_S, return_when=asyncio.FIRST_COMPLETED
        )
        pause_s = _PAUSE_FIRST_S
        while not self._met.done():
            for server in await live_servers():
                # one server has several addresses, and accepts each side once per meeting place
                if urlsplit(server.url).port != urlsplit(url).port:
                    self._wait_at(server.url)
            await asyncio.wait((self._met,), timeout=pause_s)
            self._wait_at(url)
            pause_s = min(2 * pause_s, _PAUSE_LAST_S)
        return self._met.result()

    async def leave(self) -> None:
        for wait in self._waits.values():
            wait.cancel()
        await asyncio.gather(*self._waits.values(), return_exceptions=True)

    async def drop(self) -> None:
        """Leave all servers and close the connection, if there is one."""
        await self.leave()
        if self._decided is not None:
            await self._decided.close()

    def _wait_at(self, url: str) -> None:
        """Start to wait at the server at `url`, unless this side does so already."""
        if not self._met.done() and (url not in self._waits or self._waits[url].done()):
            self._waits[url] = asyncio.ensure_future(self._wait(url))

    async def _wait(self, url: str) -> None:
        try:
            async with await WebSocketMailbox.meet(url, meeting_place(self._key), self._key.role) as mailbox:
                meeting = await Meeting.wait(mailbox, self._key)
                await (self._offer if self._key.role is Role.SCIENTIST else self._answer)(meeting)
        except (DuetError, TimeoutError, OSError):
            return  # `run` tries this server again
        if self._decided is not None and not self._met.done():
            self._met.set_result(self._decided)

    async def _offer(self, meeting: Meeting) -> None:
        async with self._connection() as connection:
            await meeting.send(await connection.offer())
            answer = await meeting.receive()
            async with self._turn:
                if self._decided is None:
                    await connection.accept(answer)
                    self._decided = connection

    async def _answer(self, meeting: Meeting) -> None:
        offer = await meeting.receive()
        async with self._turn:
            if self._decided is None:
                async with self._connection() as connection:
                    await meeting.send(await connection.answer(offer))
                    self._decided = connection

    @contextlib.asynccontextmanager
    async def _connection(self) -> AsyncIterator[PeerConnection]:
        """Make a connection; it is closed at the end of the block unless it was chosen."""
        settings = self._settings
        chosen, _ = await choose_ice_servers(settings.allowed_ice_servers, settings.ice_probe_timeout_s)
        connection = PeerConnection(chosen)  # made only now, with this machine's current addresses
        try:
            yield connection
        finally:
            if connection is not self._decided:
                await connection.close()
