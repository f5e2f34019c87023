"""The using end of a port: a TCP port on this machine that leads to a service of the peer."""

from __future__ import annotations

import asyncio
import contextlib
from typing import Self

from duetlink.base.wire.text import harmless
from duetlink.errors import DuetError, PortUnavailable, RemoteProtocolError
from duetlink.net.ports.connection import (
    ASK,
    CONNECT,
    MOST_CONNECTIONS,
    NO,
    PURPOSE,
    READ_BYTES,
    WINDOW_BYTES,
    YES,
    PortConnection,
    PortEnd,
    PortWatch,
    reset,
)
from duetlink.net.ports.valve import Valve
from duetlink.net.streams.stream import Stream
from duetlink.net.streams.streams import Streams

HOST = "127.0.0.1"  # not reachable from other machines

_MOST_ANSWER = 500  # characters


class PortListener(PortEnd):
    """Listens on 127.0.0.1 for one shared port of the peer. Made by `open`; use it on the loop thread."""

    def __init__(self, streams: Streams, name: str, leaving: Valve, watch: PortWatch) -> None:
        super().__init__(name, 0, leaving)
        self._streams = streams
        self._watch = watch
        self._server: asyncio.Server | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    @classmethod
    async def open(
        cls, streams: Streams, name: str, leaving: Valve, watch: PortWatch, *, port: int = 0
    ) -> Self:
        """Ask the peer if it shares `name`, then listen on `port` of this machine (0: any free port).

        Raises:
            PortUnavailable: the peer shares no port of this name, or this side cannot listen on `port`.
            LinkClosed, CallTimeout: the peer does not answer.
        """
        listener = cls(streams, name, leaving, watch)
        (await listener._request(ASK)).close()
        try:
            listener._server = await asyncio.start_server(
                listener._accepted, HOST, port, limit=READ_BYTES, backlog=MOST_CONNECTIONS
            )
        except OSError as error:
            raise PortUnavailable(f"nothing can listen on {HOST}:{port}: {error.strerror}") from None
        listener.port = listener._server.sockets[0].getsockname()[1]
        return listener

    async def close(self) -> None:
        """Stop listening and end the connections. Safe to call twice."""
        self.closed = True
        if self._server is not None:
            self._server.close()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _request(self, head: bytes) -> Stream:
        """Send ASK or CONNECT (`head`) and return the stream on which the peer has answered YES.

        Raises PortUnavailable with the peer's reason if it answers NO.
        """
        stream = await self._streams.open(PURPOSE, window_bytes=WINDOW_BYTES)
        try:
            await stream.send(head, memoryview(self.name.encode()))
            reply = await stream.receive()
            if reply.head == NO:
                why = bytes(reply.body).decode("utf-8", "replace")[:_MOST_ANSWER]
                raise PortUnavailable(f"the peer refuses port {self.name!r}: {harmless(why)}")
            if reply.head != YES:
                raise RemoteProtocolError("the peer answered neither yes nor no to a connection")
        except BaseException:
            stream.close()
            raise
        return stream

    async def _accepted(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        if self.closed or len(self._tasks) >= MOST_CONNECTIONS:
            self.traffic.refused_connections += 1
            reset(writer)
            return
        self._tasks.add(task)
        try:
            await self._serve(reader, writer)
        except asyncio.CancelledError:
            return  # by `close`; asyncio's own callback on this task fails on a cancelled one
        finally:
            writer.close()
            with contextlib.suppress(OSError, asyncio.CancelledError):
                await writer.wait_closed()
            self._tasks.discard(task)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = PortConnection(self.name, True, self.traffic, path=self._streams.path)
        await self.valve.wait_open()
        try:
            await self._watch.begun(connection)
        except DuetError:
            self.traffic.refused_connections += 1
            reset(writer)
            return
        try:
            stream = await self._request(CONNECT)
        except DuetError as error:
            connection.why = str(error)
            self.traffic.refused_connections += 1
            reset(writer)
        else:
            await connection.splice(reader, writer, stream, self.valve, self.leaving)
        finally:
            self._watch.ended(connection)
