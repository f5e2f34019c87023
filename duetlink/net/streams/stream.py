"""One stream: whole messages in order, sent in parts for which the other side has granted credit.

Each side may send as many bytes as the other has granted (RFC 9113 §5.2). Credit is granted for what the
program has received, so a program that does not read holds up its own stream and no other. The parts of a
message that is larger than the window are granted as they arrive, but only while a call waits for the
message.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

import numpy as np

from duetlink.base.wire.text import harmless
from duetlink.errors import DuetError, LimitExceeded, LocalProtocolError, RemoteProtocolError, StreamClosed
from duetlink.net.streams.frames import (
    CLOSE,
    CREDIT,
    MOST_HEAD_BYTES,
    OVERHEAD_BYTES,
    PART,
    PART_BYTES,
    Frame,
    Message,
)
from duetlink.net.streams.outlet import Outlet

WINDOW_BYTES = 16 * 1024 * 1024  # the bytes that 1 Gbit/s moves in 128 ms
LEAST_WINDOW_BYTES = 128 * 1024
MOST_BODY_BYTES = 1024 * 1024 * 1024

# Bodies of at most this size are copied, since that takes less time than a round trip.
COPIED_BYTES = 256 * 1024

_LEAST_PIECE_BYTES = 32 * 1024  # with credit for less, it is better to wait for more
_MOST_CREDIT_BYTES = 1 << 40
_MOST_REASON_BYTES = 500


class Stream:
    """Methods belong to the loop thread. Made by `Streams`."""

    def __init__(
        self, number: int, purpose: str, outlet: Outlet, window_bytes: int, forget: Callable[[Stream], None]
    ) -> None:
        self.number = number
        self.purpose = purpose
        self._outlet = outlet
        self._forget = forget
        self._ended: DuetError | None = None
        # outbound
        self._credit_bytes = 0
        self._granted = asyncio.Event()
        self._turn = asyncio.Lock()  # first come, first sent; fair
        # inbound
        self._window_bytes = window_bytes
        self._allowed_bytes = window_bytes
        self._owed_bytes = 0  # received by the program, and not granted to the peer again yet
        self._messages: deque[tuple[Message, int]] = deque()  # each with the credit to grant for it
        self._partial: _Partial | None = None
        self._arrived = asyncio.Event()
        self._waiting = 0  # calls of `receive`

    async def send(self, head: bytes, body: memoryview) -> None:
        """Send one message. Return when the memory of `body` may be changed again.

        A body over COPIED_BYTES is not copied, so for it that is when the peer has confirmed it. Messages
        arrive in the order of the calls, also if several calls wait at the same time. The call waits while
        the peer has granted no credit.

        If cancelled before any part of the message was sent, nothing is sent. If cancelled later, the message
        arrives whole, or, if that is no longer possible, the stream is closed.

        Raises:
            LocalProtocolError: the head is over 16 KiB, or the body over 1 GiB.
            StreamClosed: either side has closed the stream.
            LinkClosed, PeerLost: the link is closed for good.
            PathUnavailable: all paths have been down for long.
        """
        view = body.cast("B") if body.nbytes else memoryview(b"")
        if len(head) > MOST_HEAD_BYTES or len(view) > MOST_BODY_BYTES:
            raise LocalProtocolError(
                f"a message has at most {MOST_HEAD_BYTES} bytes of head and {MOST_BODY_BYTES} of body, not "
                f"{len(head)} and {len(view)}; send it in several"
            )
        copied = len(view) <= COPIED_BYTES
        numbers = range(0)
        async with self._turn:
            left = view
            try:
                while True:
                    await self._wait_credit(OVERHEAD_BYTES + len(head) + min(len(left), _LEAST_PIECE_BYTES))
                    await self._outlet.wait_room()
                    self._check_open()
                    room_bytes = self._credit_bytes - OVERHEAD_BYTES - len(head)
                    piece, left = _split(left, min(PART_BYTES, room_bytes))
                    frame = Frame(PART, self.number, len(left), head, bytes(piece) if copied else piece)
                    self._credit_bytes -= frame.cost_bytes
                    number = self._outlet.put(frame)
                    numbers = range(numbers.start or number, number + 1)
                    head = b""
                    if not left:
                        break
            except BaseException:
                if numbers:
                    self._outlet.copy(numbers)
                    self.close("a message was cancelled in the middle")
                raise
        if not copied:
            try:
                await self._outlet.wait_confirmed(numbers.stop - 1)
            except BaseException:
                self._outlet.copy(numbers)
                raise

    async def receive(self) -> Message:
        """Wait for the next message and return it.

        Messages sent before the peer closed the stream come first.

        Raises:
            StreamClosed: either side has closed the stream.
            LinkClosed, PeerLost: the link is closed for good.
            PathUnavailable: all paths have been down for long.
        """
        self._waiting += 1
        try:
            while not self._messages:
                self._check_open()
                if self._partial is not None:
                    self._owe(self._partial.take_cost())
                self._arrived.clear()
                await self._arrived.wait()
        finally:
            self._waiting -= 1
        message, cost_bytes = self._messages.popleft()
        self._owe(cost_bytes)
        return message

    def close(self, reason: str = "") -> None:
        """Stop sending and receiving. Messages already sent still arrive. Safe to call twice."""
        if self._ended is None:
            why = reason.encode()[:_MOST_REASON_BYTES]
            self._outlet.put(Frame(CLOSE, self.number, head=why))
            self._messages.clear()
            self.end(StreamClosed(f"this side closed the stream {self.purpose!r}{_because(reason)}"))

    @property
    def closed(self) -> bool:
        """True if either side has closed the stream, or the link has closed."""
        return self._ended is not None

    def _check_open(self) -> None:
        if self._ended is not None:
            raise type(self._ended)(str(self._ended))

    async def _wait_credit(self, size_bytes: int) -> None:
        while self._credit_bytes < size_bytes and self._ended is None:
            self._granted.clear()
            await self._granted.wait()
        self._check_open()

    def _owe(self, cost_bytes: int) -> None:
        """Note that the program has received this much; grant it to the peer, a quarter window at a time."""
        self._owed_bytes += cost_bytes
        if self._owed_bytes >= self._window_bytes // 4 and self._ended is None:
            self._allowed_bytes += self._owed_bytes
            self._outlet.put(Frame(CREDIT, self.number, self._owed_bytes))
            self._owed_bytes = 0

    # -- for `Streams` ---------------------------------------------------------------------------------------

    def grant(self, amount_bytes: int) -> None:
        """Add credit from the peer. Raises RemoteProtocolError if it is absurdly large."""
        self._credit_bytes += amount_bytes
        if self._credit_bytes > _MOST_CREDIT_BYTES:
            raise RemoteProtocolError(f"the peer granted {self._credit_bytes} bytes on one stream")
        self._granted.set()

    def take(self, frame: Frame) -> int:
        """Process a part from the peer; return the size of the message that it completes, otherwise 0.

        Raises RemoteProtocolError, LimitExceeded.
        """
        self._allowed_bytes -= frame.cost_bytes
        if self._allowed_bytes < 0:
            raise LimitExceeded(f"the peer sent over {self._window_bytes} bytes without credit for them")
        if self._partial is None:
            if (size_bytes := len(frame.body) + frame.value) > MOST_BODY_BYTES:
                raise LimitExceeded(f"the peer sends a message of {size_bytes} bytes, over {MOST_BODY_BYTES}")
            if not frame.value:
                body = frame.body if isinstance(frame.body, memoryview) else memoryview(frame.body)
                return self._deliver(Message(frame.head, body.toreadonly()), frame.cost_bytes)
            self._partial = _Partial(frame)
        else:
            self._partial.add(frame)
        partial = self._partial
        if not partial.left_bytes:
            self._partial = None
            message = Message(partial.head, partial.body.data.toreadonly())
            return self._deliver(message, partial.take_cost())
        if self._waiting and not self._messages:
            self._owe(partial.take_cost())
        return 0

    def end(self, error: DuetError) -> None:
        """End the stream for this reason, and wake waiting calls.

        Messages that have arrived can be received.
        """
        if self._ended is None:
            self._ended = error
            self._partial = None
            self._granted.set()
            self._arrived.set()
            self._forget(self)

    def _deliver(self, message: Message, cost_bytes: int) -> int:
        self._messages.append((message, cost_bytes))
        self._arrived.set()
        return len(message.body)


class _Partial:
    """A message of which some parts have arrived."""

    def __init__(self, first: Frame) -> None:
        self.head = first.head
        # uses no memory until it is written: a peer that announces much and sends little costs little
        self.body = np.empty(len(first.body) + first.value, np.uint8)
        self.left_bytes = len(self.body)
        self._cost_bytes = 0
        self._write(first)

    def add(self, frame: Frame) -> None:
        """Add the next part. Raises RemoteProtocolError if it is not."""
        if frame.head or not len(frame.body) or len(frame.body) + frame.value != self.left_bytes:
            raise RemoteProtocolError(
                f"the peer sent {len(frame.body)} bytes and announced {frame.value} more of a message of "
                f"which {self.left_bytes} were missing"
            )
        self._write(frame)

    def take_cost(self) -> int:
        """Return the credit that it has cost since the last call."""
        cost_bytes, self._cost_bytes = self._cost_bytes, 0
        return cost_bytes

    def _write(self, frame: Frame) -> None:
        start = len(self.body) - self.left_bytes
        self.body[start : start + len(frame.body)] = np.frombuffer(frame.body, np.uint8)
        self.left_bytes -= len(frame.body)
        self._cost_bytes += frame.cost_bytes


def _split(view: memoryview, at: int) -> tuple[memoryview, memoryview]:
    return view[:at], view[at:]


def _because(reason: str) -> str:
    return f": {harmless(reason[:_MOST_REASON_BYTES])}" if reason else ""


def closed_by_peer(purpose: str, why: bytes) -> StreamClosed:
    """Return the error for a stream that the peer has closed, with the peer's reason."""
    return StreamClosed(f"the peer closed the stream {purpose!r}{_because(why.decode('utf-8', 'replace'))}")
