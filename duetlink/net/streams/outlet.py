"""Sends this side's frames: they are numbered, and each is kept until the peer has confirmed it.

The peer pulls them, by one path after another. Each pull begins with the number of the last frame that it
has, and the outlet continues after it, so a frame that was lost with its path is sent again.
(`net/peer/durable.py` does the same for control messages, which are pushed.)
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress

from duetlink.base.reraise import reraise
from duetlink.errors import LinkClosed, RemoteProtocolError
from duetlink.net.streams.frames import Bytes, Frame, FrameBatch, Packing

# Unconfirmed bytes of all streams together: what a path of 1 Gbit/s carries in a quarter of a second.
MOST_KEPT_BYTES = 32 * 1024 * 1024

# Bytes that no path has taken yet: enough to keep a path busy, while a small message does not wait long
# behind them.
_MOST_QUEUED_BYTES = 4 * 1024 * 1024

# After so long without frames an empty batch is sent, so that the peer can tell a silent path from a dead
# one.
BEAT_S = 2.0

_CONFIRM_S = 0.05  # frames are confirmed by the next batch, or at the latest after this time


class Outlet:
    """Frames are added on the loop thread, and taken on a thread of the Flight server."""

    def __init__(self, on_bytes: Callable[[int], None] = lambda size_bytes: None) -> None:
        """`on_bytes` is called with the bytes of messages that the peer has confirmed."""
        self._on_bytes = on_bytes
        self._changed = threading.Condition()
        self._frames: dict[int, Frame] = {}  # unconfirmed frames, by number
        self._last = 0  # number of the newest frame
        self._confirmed = 0
        self.kept_bytes = 0  # of the unconfirmed frames
        self._arrived = 0  # number of the peer's last frame that has arrived
        self._confirm_at_once = self._is_confirmation_due = False
        self._feed: OutletFeed | None = None
        self._closed: LinkClosed | None = None
        self._queued_bytes = 0  # of the frames that the feed has not taken
        self._loop = asyncio.get_running_loop()
        self._room = asyncio.Event()
        self._wanted = False  # a call waits for room
        self._waiting: deque[tuple[int, asyncio.Future[None]]] = deque()  # for a confirmation, in order

    # -- on the loop thread ----------------------------------------------------------------------------------

    def put(self, frame: Frame) -> int:
        """Queue a frame; return its number. Does nothing once closed."""
        if self._closed is not None:
            return self._last
        with self._changed:
            self._last += 1
            self._frames[self._last] = frame
            self.kept_bytes += frame.cost_bytes
            self._queued_bytes += frame.cost_bytes
            self._changed.notify_all()
        return self._last

    async def wait_room(self) -> None:
        """Wait while too much is queued or unconfirmed. Raises LinkClosed."""
        while not self._has_room() and self._closed is None:
            self._room.clear()
            await self._room.wait()
        self._check_open()

    def _has_room(self) -> bool:
        with self._changed:
            self._wanted = self._queued_bytes >= _MOST_QUEUED_BYTES or self.kept_bytes >= MOST_KEPT_BYTES
            return not self._wanted

    async def wait_confirmed(self, number: int) -> None:
        """Wait until the peer has confirmed this frame, which must be the newest one. Raises LinkClosed."""
        self._check_open()
        if number > self._confirmed:
            arrived: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append((number, arrived))
            await arrived

    async def wait_all_confirmed(self) -> None:
        """Wait until the peer has confirmed all frames so far. Raises LinkClosed."""
        await self.wait_confirmed(self._last)

    def copy(self, numbers: range) -> None:
        """Copy the bodies of these frames if they are unconfirmed, because their memory may change from here
        on.
        """
        with self._changed:
            for number in numbers:
                if (frame := self._frames.get(number)) is not None:
                    self._frames[number] = Frame(
                        frame.kind, frame.stream, frame.value, frame.head, bytes(frame.body)
                    )

    def confirm(self, number: int) -> None:
        """Handle the peer's confirmation of all frames up to `number`.

        Raises RemoteProtocolError if it was not sent.
        """
        if number <= self._confirmed or self._closed is not None:
            return  # after the end no frames are kept that could be confirmed
        if number > self._last:
            raise RemoteProtocolError(f"the peer confirms frame {number} of {self._last} that were sent")
        size_bytes = 0
        with self._changed:
            given = self._feed.given if self._feed is not None else 0
            for known in range(self._confirmed + 1, number + 1):
                frame = self._frames.pop(known)
                self.kept_bytes -= frame.cost_bytes
                size_bytes += frame.message_bytes
                if known > given:  # it did arrive, over an earlier path
                    self._queued_bytes -= frame.cost_bytes
            self._confirmed = number
            if self._feed is not None:
                self._feed.given = max(given, number)
        if size_bytes:
            self._on_bytes(size_bytes)
        self._room.set()
        while self._waiting and self._waiting[0][0] <= number:
            _, arrived = self._waiting.popleft()
            if not arrived.done():
                arrived.set_result(None)

    def acknowledge(self, arrived: int, *, at_once: bool) -> None:
        """Confirm the peer's frames up to `arrived`: at once, or with the next batch."""
        with self._changed:
            self._arrived = arrived
            self._confirm_at_once |= at_once
            if at_once or not self._is_confirmation_due:
                self._changed.notify_all()
            self._is_confirmation_due = True

    def feed(self, arrived: int) -> OutletFeed:
        """Return a new feed of the frames after `arrived`; an earlier feed ends.

        Raises:
            RemoteProtocolError: the peer claims frames that were not sent, or asks again for confirmed ones.
        """
        if arrived < self._confirmed:
            raise RemoteProtocolError(
                f"the peer asks for frame {arrived + 1} again, which it has confirmed ({self._confirmed})"
            )
        self.confirm(arrived)
        with self._changed:
            self._feed = OutletFeed(self, arrived)
            self._queued_bytes = self.kept_bytes  # includes the frames that an earlier feed had taken
            self._changed.notify_all()
        return self._feed

    def close(self, error: LinkClosed) -> None:
        """End the feed, make waiting calls raise `error`, and drop all frames."""
        with self._changed:
            self._closed = self._closed or error
            self._frames.clear()
            self._changed.notify_all()
        self._room.set()
        for _, arrived in self._waiting:
            if not arrived.done():
                arrived.set_exception(reraise(error))
        self._waiting.clear()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise reraise(self._closed)

    # -- on any thread ---------------------------------------------------------------------------------------

    def take(self, feed: OutletFeed, patience_s: float) -> FrameBatch | None:
        """Return the next batch of a feed; an empty one after `patience_s`; None once the feed is over."""
        with self._changed:
            if not self._ready(feed):
                self._changed.wait_for(lambda: self._ready(feed) or self._is_confirmation_due, patience_s)
                if self._is_confirmation_due and not self._ready(
                    feed
                ):  # wait a moment for frames, with which to send the confirmation
                    self._changed.wait_for(lambda: self._ready(feed), min(_CONFIRM_S, patience_s))
            if self._closed is not None or self._feed is not feed:
                return None
            packing = Packing()
            number = first = feed.given + 1
            while number <= self._last and packing.add(self._frames[number]):
                self._queued_bytes -= self._frames[number].cost_bytes
                number += 1
            feed.given = number - 1
            if self._wanted and self._queued_bytes < _MOST_QUEUED_BYTES:
                self._wanted = False
                with suppress(RuntimeError):  # the loop has been closed
                    self._loop.call_soon_threadsafe(self._room.set)
            self._is_confirmation_due = self._confirm_at_once = False
            return FrameBatch(first, self._arrived, packing.frames)

    def _ready(self, feed: OutletFeed) -> bool:
        return (
            self._closed is not None
            or self._feed is not feed
            or self._last > feed.given
            or self._confirm_at_once
        )


class OutletFeed:
    """One pull of an outlet's frames, by one path. Implements `Feed` of `net/flight/tickets.py`."""

    def __init__(self, outlet: Outlet, given: int) -> None:
        self._outlet = outlet
        self.given = given  # number of the last frame taken; the outlet writes it

    def batches(self) -> Iterator[tuple[bytes, Bytes]]:
        while (batch := self._outlet.take(self, BEAT_S)) is not None:
            yield batch.to_wire()
