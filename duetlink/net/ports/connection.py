"""One connection: a TCP socket on this machine, spliced with a stream to the peer."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import struct
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol

from duetlink.errors import DuetError, RemoteProtocolError
from duetlink.net.ports.valve import Valve
from duetlink.net.streams.stream import Stream

PURPOSE = "port"  # of the streams
WINDOW_BYTES = 1024 * 1024  # of one connection: what may wait for a program that does not read
MOST_CONNECTIONS = 256  # at once, of all ports that one side shares with the other

# Heads of messages. The first message of a stream is a question, its body the name of a port:
ASK, CONNECT = b"ask", b"connect"  # whether it is shared; a connection to it
# and is answered by one of
YES, NO = b"yes", b"no"  # NO has as its body why, for a person
# Then come the bytes of the connection, either way, and at the end of each direction
DATA, END = b"", b"end"

READ_BYTES = 256 * 1024
_ANSWER_BYTES = 2000

# "wait for nothing": the kernel then answers with RST (POSIX SO_LINGER)
_LINGER = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


@dataclass(slots=True)
class PortTraffic:
    """What has passed one port, as this side sees it. Written on the loop thread; any thread may read."""

    connections: int = 0  # open now
    total_connections: int = 0
    refused_connections: int = 0
    sent_bytes: int = 0  # to the peer
    received_bytes: int = 0


@dataclass(slots=True, eq=False)
class PortConnection:
    """One connection by a port, from either side."""

    name: str  # of the port
    outbound: bool  # whether it was made here and leads to the peer
    traffic: PortTraffic
    number: int = -1  # given by the watch
    path: str = ""
    sent_bytes: int = 0
    received_bytes: int = 0
    why: str = ""  # it ended in the middle

    async def splice(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stream: Stream,
        port: Valve,
        leaving: Valve,
    ) -> None:
        """Move bytes both ways until both directions have ended, or one breaks; says in `why` how.

        `port` keeps back both directions, `leaving` what this side sends. The socket is closed in any case.
        """
        self.traffic.connections += 1
        self.traffic.total_connections += 1
        pumps = (
            asyncio.ensure_future(self._pump_out(reader, stream, leaving)),
            asyncio.ensure_future(self._pump_in(stream, writer, port)),
        )
        self.why = "this side has closed the port"
        try:
            await asyncio.wait(pumps, return_when=asyncio.FIRST_EXCEPTION)
            self.why = _why(pumps)
        finally:
            for pump in pumps:
                pump.cancel()
            await asyncio.gather(*pumps, return_exceptions=True)
            self.traffic.connections -= 1
            if self.why:
                reset(writer)
            writer.close()
            stream.close(self.why)

    async def _pump_out(self, reader: asyncio.StreamReader, stream: Stream, leaving: Valve) -> None:
        while data := await reader.read(READ_BYTES):
            await leaving.wait_open()
            await stream.send(DATA, memoryview(data))
            self.sent_bytes += len(data)
            self.traffic.sent_bytes += len(data)
        await leaving.wait_open()
        await stream.send(END, memoryview(b""))

    async def _pump_in(self, stream: Stream, writer: asyncio.StreamWriter, port: Valve) -> None:
        while True:
            await port.wait_open()
            message = await stream.receive()
            if message.head == END:
                with contextlib.suppress(OSError):  # the program has gone, with all that it wanted
                    writer.write_eof()
                return
            if message.head != DATA:
                raise RemoteProtocolError("the peer sent what is no part of a connection")
            self.received_bytes += len(message.body)
            self.traffic.received_bytes += len(message.body)
            writer.write(message.body)
            await writer.drain()


class PortEnd:
    """One end of a port on the loop thread: what has passed it, and what keeps it back."""

    def __init__(self, name: str, port: int, leaving: Valve) -> None:
        self.name = name
        self.port = port
        self.traffic = PortTraffic()
        self.valve = Valve()  # both ways
        self.leaving = Valve(leaving)
        self.closed = False

    def pause(self, paused: bool) -> None:
        """Let nothing pass, in either direction, and no new connection be made; or let it again."""
        self.valve.pause(paused)
        self.leaving.pause(paused)


class PortWatch(Protocol):
    """Who wants to know of connections."""

    async def begun(self, connection: PortConnection) -> None:
        """It is about to be made. Raises DuetError where it must not be."""

    def ended(self, connection: PortConnection) -> None:
        """It is over."""


def _why(pumps: Iterable[asyncio.Future[None]]) -> str:
    """What broke, for a person; empty where both directions have ended."""
    for pump in pumps:
        error = pump.exception() if pump.done() and not pump.cancelled() else None
        if isinstance(error, DuetError):
            return str(error)
        if isinstance(error, OSError):
            return f"the connection broke: {error.strerror or type(error).__name__}"
        if error is not None:
            raise error
    return ""


def reset(writer: asyncio.StreamWriter) -> None:
    """Close a socket so that its program sees an error: after a plain end it would take what came for all."""
    socket_ = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    writer.transport.abort()


def answer(text: str) -> memoryview:
    """What a person reads at the other side."""
    return memoryview(text.encode()[:_ANSWER_BYTES])
