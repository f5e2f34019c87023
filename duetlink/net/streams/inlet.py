"""What the peer sends: pulled by the best path that is up, and by another one where that breaks.

Each pull begins by saying how far this side has come, so every frame is taken once and in order.
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

# A path that brings nothing for so long, not even an empty parcel, counts as broken. Over a slow one a single
# parcel takes longer: the patience with a path doubles each time that it was too short.
_SILENT_S = 4 * BEAT_S
_MOST_SILENT_S = 16 * _SILENT_S

_MOST_TRIES = 3  # without a parcel, on one path
_PAUSE_S = 0.25

# Parcels that one thread has received and the loop has not taken: enough for the loop never to wait.
_MOST_WAITING = 16


class Inlet:
    """Methods belong to the loop thread.

    `on_parcel` takes what arrives, in order; it raises RemoteProtocolError where it cannot.
    """

    def __init__(
        self,
        rpc: Rpc,
        path_selector: PathSelector,
        on_parcel: Callable[[FrameBatch], None],
        on_violation: Callable[[RemoteProtocolError], None],
        on_stranded: Callable[[PathUnavailable], None],
    ) -> None:
        """`on_stranded`: all paths have been down for long, though the link lives."""
        self._rpc = rpc
        self._path_selector = path_selector
        self._on_parcel = on_parcel
        self._on_violation = on_violation
        self._on_stranded = on_stranded
        self.arrived = 0  # the number of the newest frame
        self.path = ""  # by which the frames come now
        self._parcels = 0
        self._heard_s = 0.0
        self._patience_s: dict[str, float] = {}  # with each path that was silent
        self._running: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to pull; does nothing where it has begun."""
        if self._running is None:
            self._running = asyncio.ensure_future(self._run())

    async def close(self) -> None:
        if self._running is not None:
            self._running.cancel()
            await asyncio.gather(self._running, return_exceptions=True)

    def take(self, parcel: FrameBatch) -> None:
        """Take a parcel that comes next. Raises RemoteProtocolError where it does not."""
        self._heard_s = time.monotonic()
        self._parcels += 1
        if parcel.first != self.arrived + 1:
            raise RemoteProtocolError(f"the peer sent frame {parcel.first} after frame {self.arrived}")
        self.arrived += len(parcel.frames)
        self._on_parcel(parcel)

    async def _run(self) -> None:
        try:
            await self._pull_for_ever()
        except RemoteProtocolError as error:
            self._on_violation(error)
        except LinkClosed:
            return

    async def _pull_for_ever(self) -> None:
        avoid: dict[str, str] = {}
        tries: dict[str, int] = {}  # of each path, since its last parcel
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
            before = self._parcels
            why = await self._try(path, avoid)
            if self._parcels > before:
                tries.clear()
                avoid = {}
                continue
            tries[path.name] = tries.get(path.name, 0) + 1
            if tries[path.name] >= _MOST_TRIES:
                avoid[path.name] = why
            await asyncio.sleep(_PAUSE_S)

    async def _try(self, path: FlightPath, avoid: dict[str, str]) -> str:
        """Pull by `path` while it is the best; returns why it ended, for a person.

        Raises:
            LinkClosed, RemoteProtocolError: that is the end of all of it.
        """
        try:
            ticket = await self._rpc.call(pb.FeedQuery(path=path.name, arrived=self.arrived), pb.Ticket)
        except (LinkClosed, RemoteProtocolError):
            raise
        except DuetError as error:  # the peer has not got this path, or does not answer
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
        self._heard_s = time.monotonic()
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
        """Wait until nothing has come for long though the peer is there; returns for how long."""
        while True:
            await asyncio.sleep(BEAT_S)
            silence_s = time.monotonic() - self._heard_s
            if self._path_selector.paused:
                self._heard_s = time.monotonic()
            elif silence_s > patience_s:
                return silence_s


class _Handover:
    """Parcels from the thread that receives them to the loop, several with one wake-up, boundedly many."""

    def __init__(self, take: Callable[[FrameBatch], None]) -> None:
        self._take = take
        self._loop = asyncio.get_running_loop()
        self._changed = threading.Condition()
        self._waiting: deque[FrameBatch] = deque()
        self._stopped = False
        self._failure: asyncio.Future[RemoteProtocolError] = self._loop.create_future()

    def put(self, table: bytes, bodies: memoryview) -> None:
        """On the thread; waits while the loop is behind. Raises RemoteProtocolError, _Stopped."""
        parcel = FrameBatch.from_wire(table, bodies)
        with self._changed:
            self._changed.wait_for(lambda: len(self._waiting) < _MOST_WAITING or self._stopped)
            if self._stopped:
                raise _Stopped
            self._waiting.append(parcel)
            first = len(self._waiting) == 1
        if first:
            with contextlib.suppress(RuntimeError):  # the loop has been closed
                self._loop.call_soon_threadsafe(self.take_rest)

    def stop(self) -> None:
        with self._changed:
            self._stopped = True
            self._changed.notify_all()

    def take_rest(self) -> None:
        """On the loop: take what waits."""
        with self._changed:
            parcels = list(self._waiting)
            self._waiting.clear()
            self._changed.notify_all()
        try:
            for parcel in parcels:
                if self._failure.done():
                    return
                self._take(parcel)
        except RemoteProtocolError as error:
            self._failure.set_result(error)

    async def wait_failed(self) -> None:
        """Wait until the peer has sent what it may not."""
        await asyncio.wait((self._failure,))

    def check(self) -> None:
        """Raise the RemoteProtocolError with which taking ended, if it did."""
        if self._failure.done():
            raise self._failure.result()


class _Stopped(Exception):
    """Nothing is taken any more."""
