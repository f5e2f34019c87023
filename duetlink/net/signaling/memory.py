"""A mailbox between two tasks of one process, for tests and demonstrations."""

from __future__ import annotations

import asyncio

from duetlink.errors import DuetError, LinkClosed
from duetlink.net.signaling.base import Mailbox, Mood
from duetlink.net.signaling.endings import CLOSED_HERE, check_size, other_side_left


class MemoryMailbox(Mailbox):
    """One end of a pair made by `MemoryMailbox.pair()`. Both ends live on one event loop."""

    def __init__(self) -> None:
        self._inbox: asyncio.Queue[bytes | DuetError] = asyncio.Queue()
        self._ended: DuetError | None = None
        self._closed = False
        self._other: MemoryMailbox = self

    @classmethod
    def pair(cls) -> tuple[MemoryMailbox, MemoryMailbox]:
        """Return the owner's and the scientist's end."""
        owner, scientist = cls(), cls()
        owner._other, scientist._other = scientist, owner
        return owner, scientist

    async def send(self, message: bytes) -> None:
        if self._closed:
            raise LinkClosed(CLOSED_HERE)
        check_size(message)
        if not self._other._closed:
            self._other._inbox.put_nowait(bytes(message))

    async def receive(self) -> bytes:
        if self._ended is not None:
            raise self._ended
        item = await self._inbox.get()
        if isinstance(item, bytes):
            return item
        self._ended = item
        raise item

    async def close(self, mood: Mood = "happy") -> None:
        if self._closed:
            return
        self._closed = True
        while not self._inbox.empty():
            self._inbox.get_nowait()
        self._inbox.put_nowait(LinkClosed(CLOSED_HERE))
        self._other._inbox.put_nowait(other_side_left(mood))
