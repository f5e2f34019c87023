"""One WebRTC data channel as whole messages with bounded queues.

aiortc queues without limit on sending and has no back-pressure on receiving. Here a sender waits while more
than HIGH_WATER_BYTES are queued, and the receiver bounds the size of a message; bounding their number is the
business of the layer that answers them (`link.rpc`, `paths.channel`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError

from duetlink.errors import LinkClosed, RemoteProtocolError
from duetlink.wire.fragments import Reassembler, split

HIGH_WATER_BYTES = 1024 * 1024
LOW_WATER_BYTES = 256 * 1024


class MessageChannel:
    """Whole messages, in order, over one negotiated data channel. All methods belong to the loop thread."""

    def __init__(self, channel: RTCDataChannel, *, high_water_bytes: int = HIGH_WATER_BYTES) -> None:
        self._channel = channel
        self._high_water_bytes = high_water_bytes
        channel.bufferedAmountLowThreshold = min(LOW_WATER_BYTES, high_water_bytes // 2)
        self._reassembler = Reassembler()
        self._turn = asyncio.Lock()  # first come, first sent; fair
        self._low = asyncio.Event()
        self._closed: str | None = None
        # set by the owner of the channel
        self.on_message: Callable[[bytes], None] = lambda message: None
        self.on_violation: Callable[[RemoteProtocolError], None] = lambda error: None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel.on("open", self._opened)
        channel.on("message", self._received)
        channel.on("bufferedamountlow", self._low.set)
        channel.on("close", lambda: self.fail("the data channel was closed"))
        if channel.readyState == "open":
            self._opened()

    async def send(self, message: bytes) -> None:
        """Queue one message, waiting first while the queue is full.

        If cancelled while waiting, nothing of the message was queued.

        Raises:
            LinkClosed: the channel is closed.
        """
        async with self._turn:
            while self._closed is None and self._channel.bufferedAmount >= self._high_water_bytes:
                self._low.clear()
                await self._low.wait()
            self.send_nowait(message)

    def send_nowait(self, message: bytes) -> None:
        """Queue one message beyond the limit: for replies and farewells, which the peer's calls bound."""
        if self._closed is not None:
            raise LinkClosed(self._closed)
        try:
            for fragment in split(message):
                self._channel.send(fragment)
        except InvalidStateError:
            raise LinkClosed(f"the data channel is {self._channel.readyState}") from None

    def fail(self, why: str) -> None:
        """Refuse further sends with LinkClosed(`why`) and wake whoever waits."""
        if self._closed is None:
            self._closed = why
        self._low.set()
        if not self.opened.done():
            self.opened.set_exception(LinkClosed(why))
            self.opened.exception()  # it may be that nobody waits for it

    def _opened(self) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def _received(self, data: bytes | str) -> None:
        if self._closed is not None:
            return
        try:
            if isinstance(data, str):
                raise RemoteProtocolError("the peer sent text on a channel of binary messages")
            message = self._reassembler.feed(data)
        except RemoteProtocolError as error:
            self.on_violation(error)
            return
        if message is not None:
            self.on_message(message)
