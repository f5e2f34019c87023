"""The sharing end: the TCP services that this side shares by name, and the connections to them."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable

from duetlink.base.wire.text import MAX_NAME
from duetlink.errors import DuetError, RemoteProtocolError, SettingError
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
    answer,
)
from duetlink.net.ports.valve import Valve
from duetlink.net.streams.frames import Message
from duetlink.net.streams.stream import Stream
from duetlink.net.streams.streams import Streams

_DIAL_TIMEOUT_S = 10.0
_REQUEST_TIMEOUT_S = 30.0


class PortOffer(PortEnd):
    """One shared service. Belongs to the loop thread."""

    def __init__(self, name: str, host: str, port: int, leaving: Valve) -> None:
        super().__init__(name, port, leaving)
        self.host = host
        self.running: set[asyncio.Task[None]] = set()


class PortRegistry:
    """The services that this side shares, by name.

    One registry can serve several links. Belongs to the loop thread.
    """

    def __init__(self, leaving: Valve) -> None:
        """`leaving` is the valve that pauses everything that this side sends, on all ports."""
        self._leaving = leaving
        self._offers: dict[str, PortOffer] = {}

    def add(self, name: str, host: str, port: int) -> PortOffer:
        """Share a service. Raises SettingError if the name is taken."""
        if name in self._offers:
            known = self._offers[name]
            raise SettingError(f"port {name!r} is shared already ({known.host}:{known.port}); close it first")
        offer = self._offers[name] = PortOffer(name, host, port, self._leaving)
        return offer

    def get(self, name: str) -> PortOffer | None:
        return self._offers.get(name)

    def all(self) -> list[PortOffer]:
        """Return all offers, oldest first."""
        return list(self._offers.values())

    async def remove(self, offer: PortOffer) -> None:
        """Stop sharing and end the connections. Safe to call twice."""
        offer.closed = True
        if self._offers.get(offer.name) is offer:
            del self._offers[offer.name]
        tasks = list(offer.running)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def serve(
    streams: Streams,
    registry: PortRegistry,
    watch: PortWatch,
    allowed: Callable[[PortOffer], bool] = lambda offer: True,
) -> None:
    """Let the peer of one link connect to the services in `registry` for which `allowed` returns True."""

    async def handle(stream: Stream) -> None:
        async with asyncio.timeout(_REQUEST_TIMEOUT_S):
            request = await stream.receive()
        name = _name(request)
        offer = registry.get(name)
        if offer is None or not allowed(offer):
            await stream.send(NO, answer(f"no port {name!r} is shared"))
        elif request.head == ASK:
            await stream.send(YES, memoryview(b""))
        else:
            await _connect(
                stream, offer, PortConnection(name, False, offer.traffic, path=streams.path), watch
            )

    async def guarded(stream: Stream) -> None:
        try:
            await handle(stream)
        except TimeoutError:
            stream.close("the first message did not arrive in time")
        except RemoteProtocolError as error:
            stream.close(str(error))

    streams.on_open(PURPOSE, guarded, window_bytes=WINDOW_BYTES, most=MOST_CONNECTIONS)


async def _connect(stream: Stream, offer: PortOffer, connection: PortConnection, watch: PortWatch) -> None:
    """Run one connection to the service; it ends when the offer is removed or the link ends."""
    task = asyncio.current_task()
    assert task is not None
    offer.running.add(task)
    try:
        await offer.valve.wait_open()
        try:
            await watch.begun(connection)
        except DuetError as error:
            offer.traffic.refused_connections += 1
            await stream.send(NO, answer(f"the other side cannot serve it: {type(error).__name__}"))
            return
        await _dial(stream, offer, connection, watch)
    except asyncio.CancelledError:
        if not offer.closed:
            raise  # the link ends
        stream.close("the port is not shared any more")
    finally:
        offer.running.discard(task)


async def _dial(stream: Stream, offer: PortOffer, connection: PortConnection, watch: PortWatch) -> None:
    connection.why = "this side has closed the port"
    try:
        try:
            async with asyncio.timeout(_DIAL_TIMEOUT_S):
                reader, writer = await asyncio.open_connection(offer.host, offer.port, limit=READ_BYTES)
        except (OSError, TimeoutError) as error:
            why = getattr(error, "strerror", None) or type(error).__name__
            connection.why = f"the service does not answer: {why}"
            offer.traffic.refused_connections += 1
            await stream.send(NO, answer(connection.why))
            return
        try:
            await stream.send(YES, memoryview(b""))
            await connection.splice(reader, writer, stream, offer.valve, offer.leaving)
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
    finally:
        watch.ended(connection)


def _name(request: Message) -> str:
    """Return the port name in the peer's first message. Raises RemoteProtocolError if it is malformed."""
    if request.head not in (ASK, CONNECT) or not 0 < len(request.body) <= 4 * MAX_NAME:  # of UTF-8
        raise RemoteProtocolError("the peer sent a malformed request for a shared port")
    try:
        name = bytes(request.body).decode()
    except UnicodeDecodeError:
        raise RemoteProtocolError("the peer asked for a shared port whose name is not UTF-8") from None
    if len(name) > MAX_NAME:
        raise RemoteProtocolError("the peer asked for a shared port with an overlong name")
    return name
