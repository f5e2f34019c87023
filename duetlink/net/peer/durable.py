"""An ordered message channel that survives its connections: each message arrives exactly once.

Every message has a number. A side keeps what it has sent until the other side confirms it; each frame carries
the number up to which its sender has received everything. When a connection is replaced, each side begins by
sending that number (RESUME), the other sends the rest again, and duplicates are recognised by their number.
XMPP's XEP-0198 and MQTT 5 §4.4 resume sessions in the same way.

Pings have no place in this numbering: they are answered at once and never repeated, because they measure one
connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import struct
import time
from collections import deque
from collections.abc import Callable

from duetlink.errors import LinkClosed, RemoteProtocolError
from duetlink.net.peer.channel import MessageChannel

_HEADER = struct.Struct("!BQQ")  # kind, number, last number that the sender of this frame has received
_MESSAGE, _ARRIVED, _RESUME, _PING, _PONG = range(1, 6)

# Messages are confirmed by the next frame that is sent anyway, or at the latest after one of these limits.
_CONFIRM_DELAY_S = 0.5
_CONFIRM_BYTES = 64 * 1024
_CONFIRM_MESSAGES = 64


class DurableChannel:
    """Whole messages, each exactly once and in order, over one MessageChannel after another.

    All methods belong to the loop thread. While there is no connection, messages wait here.
    """

    def __init__(
        self,
        violated: Callable[[RemoteProtocolError], None],
        heard: Callable[[], None] = lambda: None,
        *,
        kept_bytes: int,
    ) -> None:
        """`violated` is called when the peer breaks the protocol, `heard` whenever any frame arrives."""
        self.violated = violated
        self._on_frame = heard
        self._on_message: Callable[[bytes], None] = lambda message: None
        self._limit_bytes = kept_bytes
        self._channel: MessageChannel | None = None
        self._flowing = False  # the peer has said what it has received, and was sent the rest
        self._sent = 0
        self._arrived = 0
        self._kept: deque[bytes] = deque()  # sent and not confirmed yet, oldest first
        self._kept_bytes = 0
        self._room = asyncio.Event()
        self._turn = asyncio.Lock()  # first come, first sent; fair
        self._closed: str | None = None
        self._unconfirmed_messages = 0
        self._unconfirmed_bytes = 0
        self._confirming: asyncio.TimerHandle | None = None
        self._ping_numbers = itertools.count(1)
        self._pings: dict[int, asyncio.Future[None]] = {}
        self.resumed: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def listen(self, on_message: Callable[[bytes], None]) -> None:
        """Call `on_message` for every message from here on.

        If it raises RemoteProtocolError, that counts as a violation by the peer.
        """
        self._on_message = on_message

    def attach(self, channel: MessageChannel) -> None:
        """Continue over `channel`, which is open. `resumed` is done when the peer has done the same."""
        self.detach()
        self._channel = channel
        self.resumed = asyncio.get_running_loop().create_future()
        self._transmit(_RESUME, 0)
        self._flowing = not self._kept  # otherwise wait until the peer says what it has received
        channel.listen(self._received, self.violated)

    def detach(self) -> None:
        """Leave the connection. Messages that arrive on it late are dropped; they will be sent again."""
        if self._channel is not None:
            self._channel.listen(lambda message: None, lambda error: None)
            self._channel = None
        self._flowing = False

    async def send(self, message: bytes) -> None:
        """Queue one message; wait first while too much is queued or unconfirmed.

        If cancelled while waiting, no part of the message was queued.

        Raises:
            LinkClosed: the channel was closed for good.
        """
        async with self._turn:
            while self._closed is None and self._kept_bytes >= self._limit_bytes:
                self._room.clear()
                await self._room.wait()
            if self._flowing and self._channel is not None:
                with contextlib.suppress(
                    LinkClosed
                ):  # only the connection closed; the message waits for the next one
                    await self._channel.wait_room()
            self.send_nowait(message)

    def send_nowait(self, message: bytes) -> None:
        """Queue one message even beyond the limit: for replies and goodbyes, whose number the peer's calls
        limit.

        Raises:
            LinkClosed: the channel was closed for good.
        """
        if self._closed is not None:
            raise LinkClosed(self._closed)
        self._sent += 1
        self._kept.append(message)
        self._kept_bytes += len(message)
        if self._flowing:
            self._transmit(_MESSAGE, self._sent, message)

    async def ping(self) -> float:
        """Measure one round trip over the current connection, in seconds. It has no time limit of its own.

        Raises:
            LinkClosed: there is no connection now.
        """
        number = next(self._ping_numbers)
        answered = self._pings[number] = asyncio.get_running_loop().create_future()
        start_s = time.monotonic()
        try:
            if self._closed is not None or not self._transmit(_PING, number):
                raise LinkClosed(self._closed or "there is no connection to the peer now")
            await answered
        finally:
            del self._pings[number]
        return time.monotonic() - start_s

    def fail(self, why: str) -> None:
        """Make further sends raise LinkClosed(`why`), wake waiting ones, and drop all kept messages."""
        if self._closed is None:
            self._closed = why
        self._room.set()
        if self._channel is not None:
            self._channel.fail(why)
        if self._confirming is not None:
            self._confirming.cancel()

    # -- sending ----------------------------------------------------------------------------------------

    def _transmit(self, kind: int, number: int, message: bytes = b"") -> bool:
        """Send a frame; return False if the connection does not take it."""
        if self._channel is None:
            return False
        try:
            self._channel.send_nowait(_HEADER.pack(kind, number, self._arrived) + message)
        except LinkClosed:
            return False
        self._unconfirmed_messages = self._unconfirmed_bytes = 0
        return True

    def _note_unconfirmed(self, size_bytes: int) -> None:
        """Note that a message must be confirmed to the peer: at a limit now, otherwise with the next
        frame.
        """
        self._unconfirmed_messages += 1
        self._unconfirmed_bytes += size_bytes
        if self._unconfirmed_messages >= _CONFIRM_MESSAGES or self._unconfirmed_bytes >= _CONFIRM_BYTES:
            self._transmit(_ARRIVED, 0)
        elif self._confirming is None:
            self._confirming = asyncio.get_running_loop().call_later(_CONFIRM_DELAY_S, self._confirm)

    def _confirm(self) -> None:
        self._confirming = None
        if self._unconfirmed_messages:
            self._transmit(_ARRIVED, 0)

    # -- receiving ----------------------------------------------------------------------------------------

    def _received(self, frame: bytes) -> None:
        self._on_frame()
        try:
            message = self._take(frame)
            if message is not None:
                self._on_message(message)
        except RemoteProtocolError as error:
            self.violated(error)

    def _take(self, frame: bytes) -> bytes | None:
        """Handle a frame; return the message in it, or None if there is none or it is a duplicate."""
        if len(frame) < _HEADER.size:
            raise RemoteProtocolError(f"the peer sent a frame of {len(frame)} bytes")
        kind, number, confirmed = _HEADER.unpack_from(frame)
        self._confirmed(confirmed)
        if kind == _MESSAGE:
            return self._take_message(number, frame)
        if kind == _RESUME:
            self._resume()
        elif kind == _PING:
            self._transmit(_PONG, number)
        elif kind == _PONG:
            answered = self._pings.get(number)
            if answered is not None and not answered.done():
                answered.set_result(None)
        elif kind != _ARRIVED:
            raise RemoteProtocolError(f"the peer sent a frame of unknown kind {kind}")
        return None

    def _take_message(self, number: int, frame: bytes) -> bytes | None:
        self._note_unconfirmed(len(frame))
        if (
            number <= self._arrived
        ):  # a duplicate: it came over an earlier connection, but that ended before it was confirmed
            return None
        if number != self._arrived + 1:
            raise RemoteProtocolError(f"the peer sent message {number} after message {self._arrived}")
        self._arrived = number
        return frame[_HEADER.size :]

    def _confirmed(self, number: int) -> None:
        """Drop the kept messages up to `number`, which the peer has received."""
        first = self._sent - len(self._kept) + 1
        if number > self._sent:
            raise RemoteProtocolError(f"the peer confirms message {number} of {self._sent} that were sent")
        for _ in range(first, number + 1):
            self._kept_bytes -= len(self._kept.popleft())
        if self._kept_bytes < self._limit_bytes:
            self._room.set()

    def _resume(self) -> None:
        """Send the peer, which has said what it has received, the rest."""
        if self.resumed.done():
            raise RemoteProtocolError("the peer resumed twice on one connection")
        self.resumed.set_result(None)
        if not self._flowing:
            self._flowing = True
            first = self._sent - len(self._kept) + 1
            for number, message in enumerate(self._kept, first):
                self._transmit(_MESSAGE, number, message)
