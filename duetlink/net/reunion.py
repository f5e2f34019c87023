"""The next connection to the peer of a session, after the last one was lost."""

from __future__ import annotations

import contextlib

from duetlink.errors import SettingError, SignalingUnavailable
from duetlink.net.peer.connection import PeerConnection
from duetlink.net.peer.ice_servers import choose_ice_servers
from duetlink.net.signaling import Role, SessionKey, WebSocketMailbox, live_servers
from duetlink.net.signaling.reunion import Meeting, meeting_place
from duetlink.settings import Settings


class Reunion:
    """Meets the peer of `key` again at the signaling server at `url`, or where that has moved to."""

    def __init__(self, key: SessionKey, url: str, settings: Settings) -> None:
        self._key = key
        self._url = url
        self._settings = settings

    async def connect(self) -> PeerConnection:
        """Wait for the peer at the signaling server; returns a connection to it that is about to open.

        Raises:
            PairingError, LinkClosed, RemoteProtocolError, TimeoutError: not this time.
        """
        async with await self._meet() as mailbox:
            meeting = await Meeting.wait(mailbox, self._key)
            # made when the peer is there: this side's addresses are those of now
            settings = self._settings
            chosen, _ = await choose_ice_servers(settings.allowed_ice_servers, settings.ice_probe_timeout_s)
            connection = PeerConnection(chosen)
            try:
                if self._key.role is Role.SCIENTIST:
                    await meeting.send(await connection.offer())
                    await connection.accept(await meeting.receive())
                else:
                    await meeting.send(await connection.answer(await meeting.receive()))
            except BaseException:
                await connection.close()
                raise
            return connection

    async def _meet(self) -> WebSocketMailbox:
        place, role = meeting_place(self._key), self._key.role
        try:
            return await WebSocketMailbox.meet(self._url, place, role)
        except (SignalingUnavailable, SettingError) as unavailable:
            for server in await live_servers():  # one may be new
                with contextlib.suppress(SignalingUnavailable):
                    mailbox = await WebSocketMailbox.meet(server.url, place, role)
                    self._url = server.url
                    return mailbox
            raise unavailable
