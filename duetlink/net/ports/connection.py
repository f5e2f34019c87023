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

PURPOSE = "port"  # the purpose that the streams are opened with
WINDOW_BYTES = 1024 * 1024  # of one connection: as many bytes wait for a program that does not read
MOST_CONNECTIONS = 256  # at once, of all ports that one side shares with the other

# Heads of messages. The first message of a stream has the name of a port as its body. ASK asks if a port of
# this name is shared; CONNECT opens a connection to it.
ASK, CONNECT = b"ask", b"connect"
# The answer. The body of NO is the reason, as text for a person.
YES, NO = b"yes", b"no"
# After YES to CONNECT, both sides send DATA messages, and one END when their direction has ended.
DATA, END = b"", b"end"

READ_BYTES = 256 * 1024
_ANSWER_BYTES = 2000

# "wait for nothing": the kernel then answers with RST (POSIX SO_LINGER)
_LINGER = struct.pack("hh" if os.name == "nt" else "ii", 1, 0)


@dataclass(slots=True)
class PortTraffic:
    """Counters of one port, as this side sees it. Written on the loop thread; any thread may read."""

    connections: int = 0  # open now
    total_connections: int = 0
    refused_connections: int = 0
    sent_bytes: int = 0  # to the peer
    received_bytes: int = 0


@dataclass(slots=True, eq=False)
class PortConnection:
    """One TCP connection through a port, at either side."""

    name: str  # of the port
    outbound: bool  # True if a program on this machine made it, to a service of the peer
    traffic: PortTraffic
    number: int = -1  # assigned by the watch
    path: str = ""
    sent_bytes: int = 0
    received_bytes: int = 0
    why: str = ""  # why it broke; empty if both directions ended normally

    async def splice(
        self,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        stream: Stream,
        port: Valve,
        leaving: Valve,
    ) -> None:
        """Copy bytes between the socket and `stream` until both directions have ended, or one breaks.

        Sets `why` if it broke. `port` can pause both directions, `leaving` only the bytes that this side
        sends. The socket and the stream are closed in any case.
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
                with contextlib.suppress(OSError):  # the program has already closed its socket
                    writer.write_eof()
                return
            if message.head != DATA:
                raise RemoteProtocolError(
                    f"the peer sent a message of unknown kind {message.head[:20]!r} on a shared port"
                )
            self.received_bytes += len(message.body)
            self.traffic.received_bytes += len(message.body)
            writer.write(message.body)
            await writer.drain()


class PortEnd:
    """One end of a port on the loop thread: its counters, and the valves that pause it."""

    def __init__(self, name: str, port: int, leaving: Valve) -> None:
        self.name = name
        self.port = port
        self.traffic = PortTraffic()
        self.valve = Valve()  # both directions
        self.leaving = Valve(leaving)
        self.closed = False

    def pause(self, paused: bool) -> None:
        """Stop or resume both directions, and the making of new connections."""
        self.valve.pause(paused)
        self.leaving.pause(paused)


class PortWatch(Protocol):
    """Hooks that are called for every connection of a port."""

    async def begun(self, connection: PortConnection) -> None:
        """Called before the connection is made. Raise DuetError to refuse it."""

    def ended(self, connection: PortConnection) -> None: ...


def _why(pumps: Iterable[asyncio.Future[None]]) -> str:
    """Return what broke, as text for a person; empty if both directions have ended normally."""
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
    """Abort a socket with a TCP reset, so that its program sees an error.

    After a normal close, a program would take the part that it has received for the whole.
    """
    socket_ = writer.get_extra_info("socket")
    with contextlib.suppress(OSError):
        socket_.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _LINGER)
    writer.transport.abort()


def answer(text: str) -> memoryview:
    """Return `text` as the body of an answer, cut to 2,000 bytes."""
    return memoryview(text.encode()[:_ANSWER_BYTES])
