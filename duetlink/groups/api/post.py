"""Datagrams to single members, independent of operations: they may get lost, and no member is waited for.

Ranks are those of the epoch in which the post was opened, even after members have gone and the group is in
another epoch. A datagram to a member that has gone is lost.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any

from duetlink.base.runtime.loop import LoopThread
from duetlink.errors import (
    CallTimeout,
    DuetError,
    LimitExceeded,
    LinkClosed,
    PathUnavailable,
    SettingError,
    StreamClosed,
)
from duetlink.net.link.link import Link
from duetlink.net.streams.stream import Stream

_WAYS = ("datagrams", "streams")
_PURPOSE = "group/post"
# The largest message on a stream: a larger one would gain nothing, and a pause would lose more bytes.
_STREAM_BYTES = 32 * 1024
_MOST_QUEUED = 64  # messages to one member
_WINDOW_BYTES = 4 * 1024 * 1024
_MOST_WAITING = 8192  # datagrams that wait for `receive`; older ones are dropped
# If there was no room for this long, there is no path, and datagrams are dropped instead of returned.
_STUCK_S = 0.2


class GroupPost:
    """Datagrams between members; `group.post()` returns it.

    `send` and `receive` may be used by one thread at a time each, the other methods by any thread.
    """

    def __init__(
        self,
        thread: LoopThread,
        rank: int,
        epoch: int,
        links: Sequence[Link | None],
        over: str,
        on_closed: Callable[[int], Awaitable[None]],
    ) -> None:
        """Construct on the loop thread. `links` are by rank; `on_closed` gets the number of bytes sent.

        Raises SettingError if `over` is neither "datagrams" nor "streams".
        """
        if over not in _WAYS:
            raise SettingError(f"over is {over!r}: there are {', '.join(_WAYS)}")
        self.rank, self.size, self.epoch = rank, len(links), epoch
        self._thread = thread
        self._links = links
        self._on_closed = on_closed
        self._sent_bytes = 0
        self._stuck_s: dict[int, float] = {}
        self._inbox: deque[tuple[int, bytes]] = deque(maxlen=_MOST_WAITING)
        self._arrival = threading.Condition()
        self._woken = False
        self._closed = False
        self._queues: dict[int, asyncio.Queue[bytes]] = {}
        self._purpose = f"{_PURPOSE}/epoch-{epoch}"
        self._tasks: list[asyncio.Task[None]] = []
        self.mtu_bytes = _STREAM_BYTES
        self.lossless = over == "streams"  # datagrams to a member that is present do not get lost
        for other, link in enumerate(links):
            if link is None:
                continue
            if over == "datagrams":
                self.mtu_bytes = link.datagrams.mtu_bytes
                self._spawn(self._datagrams_of(other, link))
            else:
                self._queues[other] = asyncio.Queue(_MOST_QUEUED)
                if rank < other:
                    self._spawn(self._open(other, link))
                else:
                    link.streams.on_open(
                        self._purpose, self._taker(other), window_bytes=_WINDOW_BYTES, most=1
                    )

    def send(self, datagrams: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        """Send (rank, payload) pairs without waiting; returns those for which there is no room now."""
        if not datagrams:
            return []
        try:
            return self._thread.submit(self._send(datagrams)).result()
        except (DuetError, asyncio.CancelledError):
            return []  # the group is closed: they are lost

    def receive(self, timeout_s: float) -> list[tuple[int, bytes]]:
        """Return all datagrams that have arrived, as (sender's rank, payload).

        Waits at most `timeout_s` for the first one, or until `wake` is called.
        """
        with self._arrival:
            if not self._inbox and not self._woken:
                self._arrival.wait(timeout_s)
            self._woken = False
            found = list(self._inbox)
            self._inbox.clear()
            return found

    def wake(self) -> None:
        """Make a waiting `receive` return."""
        with self._arrival:
            self._woken = True
            self._arrival.notify()

    def close(self) -> None:
        """Stop receiving; the group goes on. Safe to call twice."""
        if not self._closed and not self._thread.stopped:
            self._closed = True
            with contextlib.suppress(DuetError):
                self._thread.run(self._close())

    # -- on the loop thread ----------------------------------------------------------------------------------

    async def _send(self, datagrams: Sequence[tuple[int, bytes]]) -> list[tuple[int, bytes]]:
        unsent = []
        now_s = time.monotonic()
        for to, payload in datagrams:
            if self._put(to, payload):
                self._sent_bytes += len(payload)
                self._stuck_s.pop(to, None)
            elif now_s - self._stuck_s.setdefault(to, now_s) < _STUCK_S:
                unsent.append((to, payload))
        return unsent

    def _put(self, to: int, payload: bytes) -> bool:
        if to in self._queues:
            try:
                self._queues[to].put_nowait(payload)
            except asyncio.QueueFull:
                return False
            return True
        link = self._links[to]
        if link is None:
            return True
        dropped = link.datagrams.dropped
        try:
            link.datagrams.send(payload)
        except LinkClosed:
            return True
        return link.datagrams.dropped == dropped

    def _arrived(self, of: int, payload: bytes) -> None:
        with self._arrival:
            self._inbox.append((of, payload))
            self._arrival.notify()

    async def _datagrams_of(self, of: int, link: Link) -> None:
        while True:
            self._arrived(of, await link.datagrams.receive())

    async def _open(self, other: int, link: Link) -> None:
        stream = await link.streams.open(self._purpose, window_bytes=_WINDOW_BYTES)
        try:
            await self._carry(other, stream)
        finally:
            stream.close()

    def _taker(self, other: int) -> Callable[[Stream], Coroutine[Any, Any, None]]:
        async def take(stream: Stream) -> None:
            await self._carry(other, stream)  # the stream is closed when this returns

        return take

    async def _carry(self, other: int, stream: Stream) -> None:
        sending = asyncio.ensure_future(self._pour(self._queues[other], stream))
        try:
            while True:
                message = await stream.receive()
                if len(message.body) > _STREAM_BYTES:
                    raise LimitExceeded(f"rank {other} sent {len(message.body)} bytes in one message")
                self._arrived(other, bytes(message.body))
        except (StreamClosed, LinkClosed, PathUnavailable, LimitExceeded):
            return  # the member is gone, or broke the protocol
        finally:
            sending.cancel()
            await asyncio.gather(sending, return_exceptions=True)

    async def _pour(self, queue: asyncio.Queue[bytes], stream: Stream) -> None:
        while True:
            await stream.send(b"", memoryview(await queue.get()))

    async def _close(self) -> None:
        for other, link in enumerate(self._links):
            if link is not None and other in self._queues and other < self.rank:
                link.streams.off(self._purpose)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._on_closed(self._sent_bytes)

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        async def quiet() -> None:
            with contextlib.suppress(StreamClosed, LinkClosed, PathUnavailable, CallTimeout):
                await work

        self._tasks.append(asyncio.ensure_future(quiet()))
