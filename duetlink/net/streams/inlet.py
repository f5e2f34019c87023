"""Receives the peer's frames: pulls them by the best path, and by another one if that breaks.

Each pull begins with the number of the last frame that has arrived, so every frame is received once and in
order.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from collections import deque
from collections.abc import Callable

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import DuetError, LinkClosed, PathUnavailable, RemoteProtocolError, TicketRefused
from duetlink.net.paths.flight_path import FlightPath
from duetlink.net.paths.path_selector import PathSelector
from duetlink.net.peer.rpc import Rpc
from duetlink.net.streams.frames import FrameBatch
from duetlink.net.streams.outlet import BEAT_S

# A path counts as broken if nothing, not even an empty batch, arrives for so long. Over a slow path a single
# batch may take longer: the limit for a path doubles each time that it was too short.
_SILENT_S = 4 * BEAT_S
_MOST_SILENT_S = 16 * _SILENT_S

_MOST_TRIES = 3  # on one path, without a batch in between
_PAUSE_S = 0.25

# The most batches that the thread has received and the loop has not processed: enough to keep the loop busy.
_MOST_WAITING = 16


class Inlet:
    """Methods belong to the loop thread.

    `on_batch` processes each batch, in order; it raises RemoteProtocolError if a batch is not valid.
    """

    def __init__(
        self,
        rpc: Rpc,
        path_selector: PathSelector,
        on_batch: Callable[[FrameBatch], None],
        on_violation: Callable[[RemoteProtocolError], None],
        on_stranded: Callable[[PathUnavailable], None],
    ) -> None:
        """`on_stranded` is called when all paths have been down for long, although the link exists."""
        self._rpc = rpc
        self._path_selector = path_selector
        self._on_batch = on_batch
        self._on_violation = on_violation
        self._on_stranded = on_stranded
        self.arrived = 0  # the number of the last frame that has arrived
        self.path = ""  # the path by which frames arrive now
        self._batches = 0
        self._received_s = 0.0
        self._patience_s: dict[str, float] = {}  # the time limit of each path that was silent
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to pull, unless it has begun."""
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def take(self, batch: FrameBatch) -> None:
        """Process the next batch. Raises RemoteProtocolError if it is not the next one."""
        self._received_s = time.monotonic()
        self._batches += 1
        if batch.first != self.arrived + 1:
            raise RemoteProtocolError(f"the peer sent frame {batch.first} after frame {self.arrived}")
        self.arrived += len(batch.frames)
        self._on_batch(batch)

    async def _run(self) -> None:
        try:
            await self._pull_for_ever()
        except RemoteProtocolError as error:
            self._on_violation(error)
        except LinkClosed:
            return

    async def _pull_for_ever(self) -> None:
        avoid: dict[str, str] = {}
        tries: dict[str, int] = {}  # by path, since its last batch
        while True:
            try:
                path = await self._path_selector.wait_best(avoid)
            except PathUnavailable as error:
                self._on_stranded(error)
                avoid = {}
                await asyncio.sleep(_PAUSE_S)
                continue
            if not isinstance(path, FlightPath):
                avoid[path.name] = "it carries no streams"
                continue
            before = self._batches
            why = await self._try(path, avoid)
            if self._batches > before:
                tries.clear()
                avoid = {}
                continue
            tries[path.name] = tries.get(path.name, 0) + 1
            if tries[path.name] >= _MOST_TRIES:
                avoid[path.name] = why
            await asyncio.sleep(_PAUSE_S)

    async def _try(self, path: FlightPath, avoid: dict[str, str]) -> str:
        """Pull by `path` while it is the best; return why that ended, as text for a person.

        Raises:
            LinkClosed, RemoteProtocolError: these end the inlet.
        """
        try:
            ticket = await self._rpc.call(pb.FeedQuery(path=path.name, arrived=self.arrived), pb.Ticket)
        except (LinkClosed, RemoteProtocolError):
            raise
        except DuetError as error:  # the peer does not have this path, or does not answer
            return str(error)
        try:
            await self._pull(path, ticket.flight, avoid)
        except PathUnavailable as broken:
            self._path_selector.mark_down(path, broken)
            return str(broken)
        except TicketRefused as refused:
            return str(refused)
        return "the peer's stream ended early"

    async def _pull(self, path: FlightPath, ticket: bytes, avoid: dict[str, str]) -> None:
        """Pull by `path` until it breaks, is silent, or a better one is up."""
        handover = _Handover(self.take)
        self.path = path.name
        self._received_s = time.monotonic()
        following = asyncio.ensure_future(path.follow(ticket, handover.put, handover.stop))
        better = asyncio.ensure_future(self._path_selector.wait_better_than(path, avoid))
        patience_s = self._patience_s.get(path.name, _SILENT_S)
        silent = asyncio.ensure_future(self._wait_silent(patience_s))
        failed = asyncio.ensure_future(handover.wait_failed())
        tasks = (following, better, silent, failed)
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if silent.done():
                self._patience_s[path.name] = min(2 * patience_s, _MOST_SILENT_S)
                raise PathUnavailable(f"nothing came over it for {silent.result():.0f} s")
        finally:
            for task in tasks:
                task.cancel()
            self.path = ""
            await asyncio.gather(*tasks, return_exceptions=True)
            handover.take_rest()
        handover.check()
        if not following.cancelled():
            following.result()

    async def _wait_silent(self, patience_s: float) -> float:
        """Wait until nothing has arrived for `patience_s` although the peer is connected; return how long."""
        while True:
            await asyncio.sleep(BEAT_S)
            silence_s = time.monotonic() - self._received_s
            if self._path_selector.paused:
                self._received_s = time.monotonic()
            elif silence_s > patience_s:
                return silence_s


class _Handover:
    """Passes batches from the receiving thread to the loop: a bounded number, several with one wake-up."""

    def __init__(self, take: Callable[[FrameBatch], None]) -> None:
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._waiting: deque[FrameBatch] = deque()
        self._stopped = False
        self._failure: asyncio.Future[RemoteProtocolError] = self._loop.create_future()

    def put(self, table: bytes, bodies: memoryview) -> None:
        """Called on the thread; waits while the loop is behind. Raises RemoteProtocolError, _Stopped."""
        batch = FrameBatch.from_wire(table, bodies)
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < _MOST_WAITING or self._stopped)
            if self._stopped:
                raise _Stopped
            self._waiting.append(batch)
            first = len(self._waiting) == 1
        if first:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self.take_rest)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take_rest(self) -> None:
        """Process the waiting batches, on the loop."""
        with self._changed:
            batches = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        try:
            for batch in batches:
                if self._failure.done():
                    return
                self._take(batch)
        except RemoteProtocolError as error:
            self._failure.set_result(error)

    async def wait_failed(self) -> None:
        """Wait until the peer has sent a batch that is not valid."""
        await asyncio.wait((self._failure,))

    def check(self) -> None:
        """Raise the RemoteProtocolError that ended the processing, if there was one."""
        if self._failure.done():
            raise self._failure.result()


class _Stopped(Exception):
    """The handover was stopped."""
