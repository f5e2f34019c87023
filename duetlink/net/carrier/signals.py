"""Several conversations of the two drivers of one attempt, over the one that they have."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Iterable

from duetlink.errors import RemoteProtocolError
from duetlink.net.carrier.driver import Session


class Signals:
    """Each message begins with the byte of its conversation. `distribute` has to run meanwhile."""

    def __init__(self, session: Session, kinds: Iterable[bytes]) -> None:
        self._session = session
        self._inboxes: dict[bytes, asyncio.Queue[bytes]] = {kind: asyncio.Queue() for kind in kinds}

    def session(self, kind: bytes) -> Session:
        """The same attempt, whose signals are those of one conversation."""

        async def send(payload: bytes) -> None:
            await self._session.send(kind + payload)

        return dataclasses.replace(self._session, send=send, receive=self._inboxes[kind].get)

    async def distribute(self) -> None:
        """Hand the peer's signals to whom they are for. Returns never; raises RemoteProtocolError."""
        while True:
            payload = await self._session.receive()
            inbox = self._inboxes.get(payload[:1])
            if inbox is None:
                raise RemoteProtocolError("the peer's helper sent something that is no message")
            inbox.put_nowait(payload[1:])
