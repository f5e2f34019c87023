"""The path `channel`: Flight through a second WebRTC data channel. It works wherever ICE does.

gRPC must dial a TCP address. So the receiver listens on a loopback port, and the sender connects to its own
Flight server; in between, the bytes travel as frames on the `bulk` data channel. Several connections share
that channel as numbered streams. aiortc has no back-pressure at the receiver, so each stream has credit, as
in HTTP/2 (RFC 9113 §5.2): a side sends no more than the other has granted, and grants more when its socket
has accepted the bytes. The window is small because control messages queue behind it.

Only ciphertext passes here: TLS runs from the Flight client to the Flight server.
"""

from __future__ import annotations

import asyncio
import contextlib
import struct
from typing import ClassVar

from duetlink.errors import DuetError, LimitExceeded, RemoteProtocolError
from duetlink.net.paths.base import OPEN_TIMEOUT_S, PathContext
from duetlink.net.paths.flight_path import FlightPath

_HEADER = struct.Struct("!BI")  # kind, stream
_AMOUNT = struct.Struct("!I")
_OPEN, _DATA, _CREDIT, _END = 1, 2, 3, 4

WINDOW_BYTES = 256 * 1024
_GRANT_BYTES = WINDOW_BYTES // 4
_FRAME_BYTES = 60 * 1024
MAX_STREAMS = 16


class ChannelPath(FlightPath):
    """Flight through the bulk data channel."""

    name: ClassVar[str] = "channel"
    measurable: ClassVar[bool] = False
    chunk_bytes: ClassVar[int] = 256 * 1024  # small: an interrupted chunk is sent again as a whole

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        self._streams: dict[int, _Stream] = {}
        # one side uses even stream numbers, the other odd ones
        self._next_stream = 0 if context.initiator else 1
        self._tasks: set[asyncio.Task[None]] = set()
        self._probe: asyncio.Future[None] | None = None
        context.bulk.listen(self._received)

    async def open(self) -> None:
        context = self._context
        # listen only until Flight's one connection has arrived, so that other programs cannot connect
        listener = await asyncio.start_server(self._accepted, "127.0.0.1", 0)
        try:
            port = listener.sockets[0].getsockname()[1]
            client = self._client_at("127.0.0.1", port)
            self._probe = asyncio.get_running_loop().run_in_executor(
                context.waiting, client.probe, OPEN_TIMEOUT_S
            )
            self._probe.add_done_callback(asyncio.Future.exception)  # mark its error as retrieved
            try:
                await asyncio.shield(self._probe)
            except BaseException:
                client.close()
                raise
        finally:
            listener.close()
        await super().close()
        self._client = client

    async def close(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._tasks:
            await asyncio.wait(self._tasks)
        if self._probe is not None:
            # It fails at once, since its connection is refused or closed. Without this wait the loop could
            # stop while it holds an accepted connection that was not yet handed out, which would never be
            # closed.
            await asyncio.wait((self._probe,), timeout=2.0)
        await super().close()

    # -- both ends of a stream -------------------------------------------------------------------------------

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        # Spliced in this task: a new task that is cancelled before its first step would not close the socket.
        task = asyncio.current_task()
        assert task is not None
        if sum(number % 2 == self._next_stream % 2 for number in self._streams) >= MAX_STREAMS // 2:
            writer.close()  # not our client: any program of this machine can dial the loopback port
            return
        self._tasks.add(task)
        number = self._next_stream
        self._next_stream += 2
        stream = self._streams[number] = _Stream(number)
        try:
            await self._context.bulk.send(_HEADER.pack(_OPEN, number))
            await self._splice(stream, reader, writer)
        except DuetError:
            await self._end(stream)
        except asyncio.CancelledError:
            return  # by `close`; asyncio's own callback on this task fails on a cancelled one
        finally:
            writer.close()
            self._tasks.discard(task)

    async def _connect(self, stream: _Stream) -> None:
        """Sender: connect a stream that the peer opened to this side's own Flight server."""
        try:
            async with asyncio.timeout(OPEN_TIMEOUT_S):
                server = await asyncio.shield(self._context.server)
                reader, writer = await asyncio.open_connection(server.host_here, server.port)
        except (OSError, TimeoutError, DuetError):
            await self._end(stream)
            return
        await self._splice(stream, reader, writer)

    async def _splice(
        self, stream: _Stream, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        pumps = [
            asyncio.ensure_future(self._pump_out(stream, reader)),
            asyncio.ensure_future(self._pump_in(stream, writer)),
        ]
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            writer.close()
            await self._end(stream)

    async def _pump_out(self, stream: _Stream, reader: asyncio.StreamReader) -> None:
        header = _HEADER.pack(_DATA, stream.number)
        with contextlib.suppress(OSError, DuetError):
            while data := await reader.read(min(_FRAME_BYTES, await stream.wait_credit())):
                stream.credit_bytes -= len(data)
                await self._context.bulk.send(header + data)

    async def _pump_in(self, stream: _Stream, writer: asyncio.StreamWriter) -> None:
        ungranted = 0
        with contextlib.suppress(OSError, DuetError):
            while data := await stream.arrived.get():
                writer.write(data)
                await writer.drain()
                stream.held_bytes -= len(data)
                ungranted += len(data)
                if ungranted >= _GRANT_BYTES:
                    await self._context.bulk.send(
                        _HEADER.pack(_CREDIT, stream.number) + _AMOUNT.pack(ungranted)
                    )
                    ungranted = 0

    async def _end(self, stream: _Stream) -> None:
        if self._streams.pop(stream.number, None) is not None and not stream.ended:
            with contextlib.suppress(DuetError):
                await self._context.bulk.send(_HEADER.pack(_END, stream.number))

    # -- frames of the peer ----------------------------------------------------------------------------------

    def _received(self, frame: bytes) -> None:
        if len(frame) < _HEADER.size:
            raise RemoteProtocolError(f"the peer sent a bulk frame of {len(frame)} bytes")
        kind, number = _HEADER.unpack_from(frame)
        payload = frame[_HEADER.size :]
        if kind == _OPEN:
            self._opened(number)
            return
        stream = self._streams.get(number)
        if stream is None:  # it ended here while the frame was under way
            return
        if kind == _DATA:
            stream.held_bytes += len(payload)
            if stream.held_bytes > WINDOW_BYTES:
                raise LimitExceeded(f"the peer sent over {WINDOW_BYTES} bytes without credit for them")
            if payload:
                stream.arrived.put_nowait(payload)
        elif kind == _CREDIT:
            if len(payload) != _AMOUNT.size:
                raise RemoteProtocolError("the peer sent a malformed credit")
            stream.grant(_AMOUNT.unpack(payload)[0])
        elif kind == _END:
            stream.ended = True
            stream.arrived.put_nowait(b"")
        else:
            raise RemoteProtocolError(f"the peer sent a bulk frame of unknown kind {kind}")

    def _opened(self, number: int) -> None:
        if number % 2 == (0 if self._context.initiator else 1) or number in self._streams:
            raise RemoteProtocolError(f"the peer opened stream {number}, which is not its own or is open")
        if len(self._streams) >= MAX_STREAMS:
            raise LimitExceeded(f"the peer opened over {MAX_STREAMS} streams at once")
        stream = self._streams[number] = _Stream(number)
        task = asyncio.ensure_future(self._connect(stream))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class _Stream:
    """One spliced TCP connection: bytes that have arrived for it, and credit to send."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.ended = False  # by the peer
        # inbound; bounded by the window that was granted to the peer
        self.arrived: asyncio.Queue[bytes] = asyncio.Queue()
        self.held_bytes = 0
        # outbound
        self.credit_bytes = WINDOW_BYTES
        self._granted = asyncio.Event()

    def grant(self, size_bytes: int) -> None:
        self.credit_bytes += size_bytes
        if self.credit_bytes > WINDOW_BYTES:
            raise RemoteProtocolError(f"the peer granted {self.credit_bytes} bytes, over {WINDOW_BYTES}")
        self._granted.set()

    async def wait_credit(self) -> int:
        """Wait for credit; return the number of bytes that may be sent."""
        while self.credit_bytes == 0:
            self._granted.clear()
            await self._granted.wait()
        return self.credit_bytes
