"""One WebRTC data channel as whole messages with a bounded queue.

aiortc queues without limit when sending, and has no back-pressure when receiving. Here a sender can wait
while more than HIGH_WATER_BYTES are queued, and the receiver limits the size of a message. The number of
messages is limited by the layer that answers them (`peer.rpc`, `paths.channel`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from aiortc import RTCDataChannel
from aiortc.exceptions import InvalidStateError

from duetlink.base.wire.fragments import MAX_MESSAGE_BYTES, Reassembler, split
from duetlink.errors import LinkClosed, RemoteProtocolError

HIGH_WATER_BYTES = 1024 * 1024
LOW_WATER_BYTES = 256 * 1024


class MessageChannel:
    """Whole messages, in order, over one negotiated data channel. All methods belong to the loop thread."""

    def __init__(self, channel: RTCDataChannel, *, high_water_bytes: int = HIGH_WATER_BYTES) -> None:
        self._channel = channel
        self._high_water_bytes = high_water_bytes
        channel.bufferedAmountLowThreshold = min(LOW_WATER_BYTES, high_water_bytes // 2)
        self._reassembler = Reassembler()
        self._low = asyncio.Event()
        self._closed: str | None = None
        # messages that arrive before `listen`: the peer may see the channel open earlier than this side
        self._early: list[bytes | str] | None = []
        self._early_bytes = 0
        self._on_message: Callable[[bytes], None] = lambda message: None
        self._on_violation: Callable[[RemoteProtocolError], None] = lambda error: None
        self.opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        channel.on("open", self._opened)
        channel.on("message", self._received)
        channel.on("bufferedamountlow", self._low.set)
        channel.on("close", lambda: self.fail("the data channel was closed"))
        if channel.readyState == "open":
            self._opened()

    def listen(
        self, on_message: Callable[[bytes], None], on_violation: Callable[[RemoteProtocolError], None]
    ) -> None:
        """Call `on_message` for every message, first for those that arrived before this call."""
        self._on_message, self._on_violation = on_message, on_violation
        early, self._early = self._early or [], None
        for data in early:
            self._received(data)

    async def wait_room(self) -> None:
        """Wait while too much is queued. Raises LinkClosed."""
        while self._closed is None and self._channel.bufferedAmount >= self._high_water_bytes:
            self._low.clear()
            await self._low.wait()
        if self._closed is not None:
            raise LinkClosed(self._closed)

    def send_nowait(self, message: bytes) -> None:
        """Queue one message, even if too much is queued already. Raises LinkClosed."""
        if self._closed is not None:
            raise LinkClosed(self._closed)
        try:
            for fragment in split(message):
                self._channel.send(fragment)
        except InvalidStateError:
            raise LinkClosed(f"the data channel is {self._channel.readyState}") from None

    def fail(self, why: str) -> None:
        """Make further sends raise LinkClosed(`why`), and wake waiting ones."""
        if self._closed is None:
            self._closed = why
        self._low.set()
        if not self.opened.done():
            self.opened.set_exception(LinkClosed(why))
            self.opened.exception()  # mark the error as retrieved: there may be no caller that waits for it

    def _opened(self) -> None:
        if not self.opened.done():
            self.opened.set_result(None)

    def _received(self, data: bytes | str) -> None:
        if self._closed is not None:
            return
        if self._early is not None:
            self._early_bytes += len(data)
            if self._early_bytes > MAX_MESSAGE_BYTES:
                self.fail(f"the peer sent over {MAX_MESSAGE_BYTES} bytes before this side was ready")
            self._early.append(data)
            return
        try:
            if isinstance(data, str):
                raise RemoteProtocolError("the peer sent text on a channel of binary messages")
            message = self._reassembler.feed(data)
        except RemoteProtocolError as error:
            self._on_violation(error)
            return
        if message is not None:
            self._on_message(message)
