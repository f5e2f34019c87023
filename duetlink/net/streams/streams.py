"""All streams of one link. Either side opens them, for a purpose that the other side has a handler for.

One outlet and one inlet carry the frames of all of them. Stream numbers are never reused; one side opens the
even ones, the other the odd ones.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from duetlink.base.reraise import reraise
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import (
    CallTimeout,
    DuetError,
    LimitExceeded,
    LinkClosed,
    LocalProtocolError,
    PathUnavailable,
    RemoteProtocolError,
    StreamClosed,
)
from duetlink.net.flight.tickets import TicketTable
from duetlink.net.paths.flight_path import FlightPath
from duetlink.net.paths.path_selector import PathSelector
from duetlink.net.peer.deadline import Deadline
from duetlink.net.peer.rpc import Rpc
from duetlink.net.streams.frames import ACCEPT, CLOSE, CREDIT, OPEN, PART, Frame, FrameBatch
from duetlink.net.streams.inlet import Inlet
from duetlink.net.streams.outlet import MOST_KEPT_BYTES, Outlet
from duetlink.net.streams.stream import (
    COPIED_BYTES,
    LEAST_WINDOW_BYTES,
    WINDOW_BYTES,
    Stream,
    closed_by_peer,
)

Handler = Callable[[Stream], Awaitable[None]]

_MOST_PENDING = 64  # streams of the peer whose purpose has no handler yet
_MOST_PURPOSE_BYTES = 200

# So many bytes are confirmed at once, to make room at the peer; fewer with the next batch.
_CONFIRM_BYTES = 1024 * 1024


@dataclass(slots=True, eq=False)
class _Purpose:
    handler: Handler
    window_bytes: int
    most: int
    running: int = 0  # running handlers


@dataclass(frozen=True, slots=True, eq=False)
class _Opening:
    stream: Stream
    accepted: asyncio.Future[None] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class Streams:
    """Methods belong to the loop thread."""

    def __init__(
        self,
        rpc: Rpc,
        path_selector: PathSelector,
        tickets: TicketTable,
        violated: Callable[[RemoteProtocolError], None],
        count: Callable[[str, int], None],
        *,
        initiator: bool,
        call_timeout_s: float,
    ) -> None:
        """`violated` is called when the peer breaks the protocol.

        `count` gets a direction and the bytes that moved.
        """
        self._count = count
        self._path_selector = path_selector
        self._tickets = tickets
        self._call_timeout_s = call_timeout_s
        self._outlet = Outlet(partial(count, "out"))
        self._inlet = Inlet(rpc, path_selector, self._arrived, violated, self._stranded)
        self._next = 2 if initiator else 1
        self._peers_last = 0  # the largest stream number that the peer has opened
        self._open: dict[int, Stream] = {}
        self._opening: dict[int, _Opening] = {}
        self._pending: dict[int, tuple[str, int]] = {}  # purpose, and the peer's first credit
        self._purposes: dict[str, _Purpose] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._unconfirmed_bytes = 0
        self._closed: LinkClosed | None = None
        rpc.handle(pb.FeedQuery, self._feed)

    async def open(self, purpose: str, *, window_bytes: int = WINDOW_BYTES) -> Stream:
        """Open a stream; return when the peer has accepted it, one round trip later.

        The peer accepts only purposes for which it has a handler, or gets one in time. `window_bytes` limits
        the bytes that wait here unreceived.

        Raises:
            CallTimeout: the peer has no handler for this purpose within `call_timeout_s`.
            StreamClosed: the peer has refused it; the message says why.
            LinkClosed, PeerLost: the link is closed.
            PathUnavailable: all paths have been down for long.
        """
        name = _checked(purpose, window_bytes)
        self._check_open()
        self._inlet.start()
        number, self._next = self._next, self._next + 2
        opening = _Opening(self._stream(number, purpose, window_bytes))
        self._opening[number] = opening
        self._outlet.put(Frame(OPEN, number, window_bytes, name))
        try:
            async with Deadline(self._call_timeout_s, lambda: self._path_selector.paused):
                await opening.accepted
        except TimeoutError:
            why = f"the peer has not taken a stream {purpose!r} within {self._call_timeout_s:g} s"
            opening.stream.close("it was not accepted in time")
            raise CallTimeout(why) from None
        except BaseException:
            opening.stream.close("the other side gave it up")
            raise
        finally:
            self._opening.pop(number, None)
        return opening.stream

    def on_open(
        self, purpose: str, handler: Handler, *, window_bytes: int = WINDOW_BYTES, most: int = 16
    ) -> None:
        """Run `handler` for each stream that the peer opens for this purpose, first for those that already
        wait.

        A stream is closed when its handler returns. At most `most` handlers run at once; further streams are
        refused.
        """
        _checked(purpose, window_bytes)
        self._purposes[purpose] = _Purpose(handler, window_bytes, most)
        for number, (wanted, credit_bytes) in list(self._pending.items()):
            if wanted == purpose:
                del self._pending[number]
                self._accept(number, purpose, credit_bytes)

    @property
    def path(self) -> str:
        """The name of the path by which the peer's messages arrive now; empty if there is none."""
        return self._inlet.path

    def off(self, purpose: str) -> None:
        """Accept no more streams for this purpose; open ones continue."""
        self._purposes.pop(purpose, None)

    async def wait_delivered(self) -> None:
        """Wait until the peer has confirmed everything sent on all streams so far. Raises LinkClosed."""
        await self._outlet.wait_all_confirmed()

    async def close(self, error: LinkClosed) -> None:
        """End all streams with `error`, and cancel all handlers, because the link is closed."""
        self._closed = self._closed or error
        self._outlet.close(error)
        self._end_all(error)
        self._pending.clear()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._inlet.close()

    def _check_open(self) -> None:
        if self._closed is not None:
            raise reraise(self._closed)

    def _stream(self, number: int, purpose: str, window_bytes: int) -> Stream:
        stream = self._open[number] = Stream(number, purpose, self._outlet, window_bytes, self._forget)
        return stream

    def _forget(self, stream: Stream) -> None:
        self._open.pop(stream.number, None)

    def _end_all(self, error: DuetError) -> None:
        for opening in list(self._opening.values()):
            if not opening.accepted.done():
                opening.accepted.set_exception(reraise(error))
        for stream in list(self._open.values()):
            stream.end(error)

    # -- messages of the peer --------------------------------------------------------------------------------

    async def _feed(self, query: pb.FeedQuery) -> pb.Ticket:
        self._check_open()
        if not isinstance(self._path_selector.named(query.path), FlightPath):
            raise PathUnavailable(f"path {query.path[:40]!r} carries no streams")
        self._inlet.start()  # the peer will answer
        return pb.Ticket(path=query.path, flight=self._tickets.issue_feed(self._outlet.feed(query.arrived)))

    def _stranded(self, error: PathUnavailable) -> None:
        """End all streams because no path works.

        The peer is notified if its own paths work, or when they do.
        """
        for stream in list(self._open.values()):
            self._outlet.put(Frame(CLOSE, stream.number, head=b"no path works"))
        self._end_all(error)

    def _arrived(self, batch: FrameBatch) -> None:
        if self._closed is not None:
            return
        self._outlet.confirm(batch.arrived)
        if self._outlet.kept_bytes > 2 * MOST_KEPT_BYTES:
            raise LimitExceeded(f"the peer confirms nothing of {self._outlet.kept_bytes} bytes")
        size_bytes, at_once = 0, False
        for frame in batch.frames:
            size_bytes += frame.message_bytes
            at_once |= (
                self._take(frame) > COPIED_BYTES
            )  # the sender of a large message waits for the confirmation
        if size_bytes:
            self._count("in", size_bytes)
        if batch.frames:
            self._unconfirmed_bytes += size_bytes
            at_once |= self._unconfirmed_bytes >= _CONFIRM_BYTES
            if at_once:
                self._unconfirmed_bytes = 0
            self._outlet.acknowledge(self._inlet.arrived, at_once=at_once)

    def _take(self, frame: Frame) -> int:
        """Process one frame; return the size of the message that it completes. Raises RemoteProtocolError."""
        stream = self._open.get(frame.stream)
        if frame.kind == PART and stream is not None:
            return stream.take(frame)
        if frame.kind == OPEN:
            self._opened(frame)
        else:
            self._take_control(frame, stream)
        return 0

    def _take_control(self, frame: Frame, stream: Stream | None) -> None:
        if stream is None:
            self._take_late(frame)
        elif frame.kind == CREDIT:
            stream.grant(frame.value)
        elif frame.kind == CLOSE:
            self._closed_by_peer(stream, frame)
        else:
            self._accepted(stream, frame)

    def _take_late(self, frame: Frame) -> None:
        """Process a frame for a stream that this side has closed while the frame was under way."""
        ours = frame.stream % 2 == self._next % 2
        if not 0 < frame.stream < (self._next if ours else self._peers_last + 1):
            raise RemoteProtocolError(f"the peer sent a frame of stream {frame.stream}, which was never open")
        if frame.kind == CLOSE:
            self._pending.pop(frame.stream, None)

    def _accepted(self, stream: Stream, frame: Frame) -> None:
        opening = self._opening.get(frame.stream)
        if opening is not None and opening.accepted.cancelled():
            return  # cancelled a moment ago; the next step of the loop closes it
        if opening is None or opening.accepted.done() or frame.value < LEAST_WINDOW_BYTES:
            raise RemoteProtocolError(f"the peer accepted stream {frame.stream}, which it could not")
        stream.grant(frame.value)
        opening.accepted.set_result(None)

    def _closed_by_peer(self, stream: Stream, frame: Frame) -> None:
        error = closed_by_peer(stream.purpose, frame.head)
        opening = self._opening.get(frame.stream)
        if opening is not None and not opening.accepted.done():
            opening.accepted.set_exception(error)
        stream.end(error)

    def _opened(self, frame: Frame) -> None:
        number = frame.stream
        if number % 2 == self._next % 2 or number <= self._peers_last:
            raise RemoteProtocolError(f"the peer opened stream {number}, which is not its own or is open")
        if frame.value < LEAST_WINDOW_BYTES:
            raise RemoteProtocolError(f"the peer opened a stream with a window of {frame.value} bytes")
        self._peers_last = number
        try:
            purpose = frame.head[: _MOST_PURPOSE_BYTES + 1].decode()
        except UnicodeDecodeError:
            purpose = ""
        if not 0 < len(frame.head) <= _MOST_PURPOSE_BYTES or not purpose:
            raise RemoteProtocolError(f"the peer opened a stream for a purpose of {len(frame.head)} bytes")
        if purpose in self._purposes:
            self._accept(number, purpose, frame.value)
        elif len(self._pending) < _MOST_PENDING:
            self._pending[number] = purpose, frame.value
        else:
            self._refuse(number, f"{_MOST_PENDING} streams wait to be taken already")

    def _accept(self, number: int, purpose: str, credit_bytes: int) -> None:
        known = self._purposes[purpose]
        if known.running >= known.most:
            self._refuse(number, f"{known.most} of this purpose are open already")
            return
        stream = self._stream(number, purpose, known.window_bytes)
        stream.grant(credit_bytes)
        self._outlet.put(Frame(ACCEPT, number, known.window_bytes))
        known.running += 1
        task = asyncio.ensure_future(self._handle(known, stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _refuse(self, number: int, why: str) -> None:
        self._outlet.put(Frame(CLOSE, number, head=why.encode()))

    async def _handle(self, known: _Purpose, stream: Stream) -> None:
        try:
            with contextlib.suppress(StreamClosed, LinkClosed, PathUnavailable):
                await known.handler(stream)
        except Exception as error:
            asyncio.get_running_loop().call_exception_handler(
                {"message": f"the handler of stream {stream.purpose!r} failed", "exception": error}
            )
        finally:
            known.running -= 1
            stream.close()


def _checked(purpose: str, window_bytes: int) -> bytes:
    name = purpose.encode()
    if not 0 < len(name) <= _MOST_PURPOSE_BYTES:
        raise LocalProtocolError(
            f"the purpose of a stream has 1 to {_MOST_PURPOSE_BYTES} bytes, not {len(name)}"
        )
    if window_bytes < LEAST_WINDOW_BYTES:
        raise LocalProtocolError(
            f"the window of a stream is at least {LEAST_WINDOW_BYTES} bytes, not {window_bytes}"
        )
    return name
