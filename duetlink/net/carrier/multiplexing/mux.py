"""Several TCP connections over one ordered stream of bytes, over a tunnel or TCP.

Flight connects to a loopback listener here. Each connection becomes a numbered stream, which the other side
connects to its own Flight server. Streams take turns of at most 256 KiB. Both sides send a heartbeat every
second, so that a silent loss of the path is detected.
"""

from __future__ import annotations

import asyncio
from collections import deque
from typing import cast

from duetlink.errors import DuetError, LimitExceeded, RemoteProtocolError
from duetlink.net.carrier.multiplexing.frames import (
    MAGIC,
    MAX_DATA_BYTES,
    VERSION,
    FrameReader,
    MuxFrame,
    MuxFrameKind,
    header,
)
from duetlink.net.carrier.multiplexing.splice import WINDOW_BYTES, Splice

MAX_STREAMS = 16  # half of them opened by each side

BEAT_INTERVAL_S = 1.0
SILENCE_LIMIT_S = 6.0

# below this, one write of joined bytes is cheaper than two
_JOIN_BYTES = 16 * 1024

# bytes that may wait in the transport; control frames wait behind them
_HIGH_WATER_BYTES = 1024 * 1024

# more than this means that the peer sends requests without reading the answers
_FLOOD_BYTES = 8 * 1024 * 1024

_MAX_DIALS = (
    4 * MAX_STREAMS
)  # more than the streams, because the peer may end streams and open others meanwhile
_MAX_UNOPENED = 16  # local connections that have sent nothing yet
_MAX_LINGERING = 16  # ended streams whose local end still reads
_LINGER_S = 10.0


class Mux(asyncio.Protocol):
    """The protocol of the stream.

    `ready` is done when the peer's mux has answered; `ended` gives the reason.
    """

    def __init__(self, *, controlling: bool, flight_port: int, flight_host: str = "127.0.0.1") -> None:
        loop = asyncio.get_running_loop()
        self.ready: asyncio.Future[None] = loop.create_future()
        self.ended: asyncio.Future[str] = loop.create_future()
        self._loop = loop
        self._flight_host, self._flight_port = flight_host, flight_port
        self._transport: asyncio.Transport | None = None
        self._reader = FrameReader()
        self._streams: dict[int, Splice] = {}
        self._unopened: dict[Splice, None] = {}
        self._lingering: dict[Splice, asyncio.TimerHandle] = {}
        self._turns: deque[Splice] = deque()
        self._writable = True
        # one side uses even stream numbers, the other odd ones
        self._parity = 0 if controlling else 1
        self._next_number = self._parity
        self._next_theirs = 1 - self._parity
        self._dials: set[asyncio.Task[None]] = set()
        self._beat: asyncio.TimerHandle | None = None
        self._received_s = loop.time()

    def accept(self) -> Splice:
        """Return the protocol for a connection to the loopback listener."""
        return Splice(self)

    def close(self, why: str) -> None:
        """End the stream and all connections on it, now. Safe to call twice."""
        if self.ended.done():
            return
        self.ended.set_result(why)
        self.ready.cancel()
        if self._beat is not None:
            self._beat.cancel()
        for dial in self._dials:
            dial.cancel()
        for timer in self._lingering.values():
            timer.cancel()
        for splice in [*self._streams.values(), *self._unopened, *self._lingering]:
            splice.abort()
        self._streams.clear()
        self._turns.clear()
        if self._transport is not None:
            self._transport.abort()

    # -- asyncio.Protocol of the stream ----------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)
        self._transport.set_write_buffer_limits(high=_HIGH_WATER_BYTES)
        self._write(header(MuxFrameKind.HELLO, MAGIC, VERSION))
        self._received_s = self._loop.time()
        self._beat = self._loop.call_later(BEAT_INTERVAL_S, self._send_heartbeat)

    def data_received(self, data: bytes | bytearray | memoryview) -> None:
        self._received_s = self._loop.time()
        try:
            for frame in self._reader.feed(data):
                if self.ended.done():
                    return
                self._take(frame)
            if not self._writable and self._waiting_bytes() > _FLOOD_BYTES:
                raise LimitExceeded("the peer asks faster than it reads the answers")
        except DuetError as error:
            self.close(str(error))

    def connection_lost(self, exc: Exception | None) -> None:
        self.close(str(exc) if exc is not None else "the peer's side of this path has ended")

    def pause_writing(self) -> None:
        self._writable = False

    def resume_writing(self) -> None:
        self._writable = True
        self._take_turns()

    # -- events of the local connections ---------------------------------------------------------------------

    def local_made(self, splice: Splice) -> None:
        """Note a new local connection; any program of this machine can make one."""
        if self.ended.done():
            splice.abort()
            return
        self._unopened[splice] = None
        if len(self._unopened) > _MAX_UNOPENED:  # a TLS client sends at once, so the oldest is not one
            oldest = next(iter(self._unopened))
            del self._unopened[oldest]
            oldest.abort()

    def local_data(self, splice: Splice, data: bytes) -> None:
        if splice.number is None and not self._open(splice):
            splice.abort()
            return
        splice.chunk = memoryview(data)
        if self._writable and not self._turns and splice.credit_bytes >= len(data) <= MAX_DATA_BYTES:
            self._send_chunk(splice)
            return
        splice.pause_reading()
        self._queue(splice)
        self._take_turns()

    def local_lost(self, splice: Splice) -> None:
        self._unopened.pop(splice, None)
        if splice in self._lingering:
            self._lingering.pop(splice).cancel()
        if self._streams.get(splice.number if splice.number is not None else -1) is not splice:
            return
        splice.finished = True
        if not splice.chunk:
            self._end(splice)

    def grant(self, splice: Splice, amount_bytes: int) -> None:
        if splice.number is not None and splice.number in self._streams:
            self._write(header(MuxFrameKind.CREDIT, splice.number, amount_bytes))

    def _open(self, splice: Splice) -> bool:
        """Give a local connection its stream number; return False if there are too many."""
        self._unopened.pop(splice, None)
        if sum(number % 2 == self._parity for number in self._streams) >= MAX_STREAMS // 2:
            return False
        splice.number = self._next_number
        self._next_number += 2
        self._streams[splice.number] = splice
        self._write(header(MuxFrameKind.OPEN, splice.number))
        return True

    def _end(self, splice: Splice) -> None:
        """End a stream whose local connection has closed."""
        if splice.number is not None and self._streams.pop(splice.number, None) is not None:
            self._write(header(MuxFrameKind.END, splice.number))

    # -- turns -----------------------------------------------------------------------------------------------

    def _queue(self, splice: Splice) -> None:
        if splice.chunk and splice.credit_bytes and not splice.queued:
            splice.queued = True
            self._turns.append(splice)

    def _take_turns(self) -> None:
        """Send one piece of each waiting stream in turn, while the transport accepts it."""
        while self._writable and self._turns:
            splice = self._turns.popleft()
            splice.queued = False
            if not splice.chunk:  # the peer has ended the stream meanwhile
                continue
            self._send_chunk(splice)
            if splice.chunk:
                self._queue(splice)
            elif splice.finished:
                self._end(splice)
            else:
                splice.resume_reading()

    def _send_chunk(self, splice: Splice) -> None:
        size_bytes = min(len(splice.chunk), splice.credit_bytes, MAX_DATA_BYTES)
        piece, splice.chunk = splice.chunk[:size_bytes], splice.chunk[size_bytes:]
        splice.credit_bytes -= size_bytes
        assert splice.number is not None
        head = header(MuxFrameKind.DATA, splice.number, size_bytes)
        if size_bytes < _JOIN_BYTES:
            self._write(b"".join((head, piece)))
        else:
            self._write(head)
            self._write(piece)

    def _waiting_bytes(self) -> int:
        return self._transport.get_write_buffer_size() if self._transport is not None else 0

    def _write(self, data: bytes | memoryview) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    # -- frames of the peer ----------------------------------------------------------------------------------

    def _take(self, frame: MuxFrame) -> None:
        kind, number, amount, payload = frame
        if not self.ready.done():
            if (kind, number, amount) != (MuxFrameKind.HELLO, MAGIC, VERSION):
                raise RemoteProtocolError(
                    "the peer's side of this path speaks another protocol: take the same version of duetlink"
                )
            self.ready.set_result(None)
        elif kind == MuxFrameKind.DATA:
            if (splice := self._stream(number)) is not None:
                splice.take(payload)
        elif kind == MuxFrameKind.CREDIT:
            if (splice := self._stream(number)) is not None:
                splice.add_credit(amount)
                self._queue(splice)
                self._take_turns()
        elif kind == MuxFrameKind.OPEN:
            self._opened(number)
        elif kind == MuxFrameKind.END:
            if (splice := self._stream(number)) is not None:
                del self._streams[number]
                self._linger(splice)
        elif kind == MuxFrameKind.HELLO:
            raise RemoteProtocolError("the peer's side of this path began twice")

    def _stream(self, number: int) -> Splice | None:
        """Return the stream of that number; None if it ended here while the frame was under way."""
        if number >= (self._next_number if number % 2 == self._parity else self._next_theirs):
            raise RemoteProtocolError(f"the peer sent a frame of stream {number}, which was never opened")
        return self._streams.get(number)

    def _opened(self, number: int) -> None:
        if number != self._next_theirs:
            raise RemoteProtocolError(f"the peer opened stream {number} where {self._next_theirs} comes next")
        if sum(other % 2 == number % 2 for other in self._streams) >= MAX_STREAMS // 2:
            raise LimitExceeded(f"the peer opened over {MAX_STREAMS // 2} streams at once")
        self._next_theirs += 2
        splice = self._streams[number] = Splice(self, number)
        if len(self._dials) >= _MAX_DIALS:
            self._end(splice)
            return
        dial = self._loop.create_task(self._dial(splice))
        self._dials.add(dial)
        dial.add_done_callback(self._dials.discard)

    async def _dial(self, splice: Splice) -> None:
        """Connect a stream that the peer opened to this side's Flight server."""
        try:
            await self._loop.create_connection(lambda: splice, self._flight_host, self._flight_port)
        except OSError:
            self.local_lost(splice)

    def _linger(self, splice: Splice) -> None:
        """Let the local end of a stream that the peer has ended read the remaining bytes, for a while."""
        splice.finish()
        self._lingering[splice] = self._loop.call_later(_LINGER_S, splice.abort)
        if len(self._lingering) > _MAX_LINGERING:
            next(iter(self._lingering)).abort()

    # -- heartbeat ----------------------------------------------------------------------------

    def _send_heartbeat(self) -> None:
        silence_s = self._loop.time() - self._received_s
        if silence_s > SILENCE_LIMIT_S:
            self.close(f"nothing has come by this path for {silence_s:.0f} s")
            return
        self._write(header(MuxFrameKind.BEAT))
        self._beat = self._loop.call_later(BEAT_INTERVAL_S, self._send_heartbeat)


assert WINDOW_BYTES >= MAX_DATA_BYTES
