"""Shared and opened ports, as a person uses them, and the audit entries of their connections."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import TYPE_CHECKING

from duetlink.base.audit import entry
from duetlink.base.audit.entry import Entry
from duetlink.base.events import Sink
from duetlink.base.quantities import size_text
from duetlink.base.runtime.loop import LoopThread
from duetlink.duet.display import Displayed, Table, visible
from duetlink.duet.objects.recorder import BEGUN, Recorder
from duetlink.errors import LinkClosed
from duetlink.net.link.transfer import COMPLETE, FAILED
from duetlink.net.ports.connection import PortConnection
from duetlink.net.ports.handle import PortHandle
from duetlink.net.ports.listener import HOST, PortListener
from duetlink.net.ports.offer import PortOffer, PortRegistry, serve
from duetlink.net.ports.valve import Valve

if TYPE_CHECKING:
    from duetlink.net.link.link import Link

ADDED, REMOVED = "added", "removed"


class Ports:
    """The loop thread's side: the ports that this side shares and has opened. Methods run on the
    loop thread.
    """

    def __init__(self, recorder: Recorder, sink: Sink) -> None:
        self._sink = sink
        self._recorder = recorder
        self._link: Link | None = None
        self._numbers = itertools.count()
        self.leaving = Valve()  # shut by `duet.pause()`
        self.registry = PortRegistry(self.leaving)
        self.listeners: list[PortListener] = []

    def attach(self, link: Link) -> None:
        """Let the peer connect to the services that are shared, now or later."""
        self._link = link
        serve(link.streams, self.registry, self)

    async def forget_peer(self) -> None:
        """Close the ports opened to the services of a peer that has left for good."""
        for listener in list(self.listeners):
            await self.shut(listener)

    async def share(self, name: str, host: str, port: int) -> PortOffer:
        """Offer a service. Raises SettingError, AuditUnavailable."""
        offer = self.registry.add(name, host, port)
        try:
            await self._recorder.record(_described(name, ADDED, f"{host}:{port}"))
        except BaseException:
            await self.registry.remove(offer)
            raise
        self._sink.changed()
        return offer

    async def unshare(self, offer: PortOffer) -> None:
        if not offer.closed:
            await self.registry.remove(offer)
            self._recorder.note(_described(offer.name, REMOVED, f"{offer.host}:{offer.port}"))
            self._sink.changed()

    async def open(self, name: str, port: int) -> PortListener:
        """Listen on a port. Raises as `PortListener.open`, and LinkClosed if no peer is connected yet."""
        if self._link is None:
            raise LinkClosed("no peer is connected yet; see wait_connected()")
        listener = await PortListener.open(self._link.streams, name, self.leaving, self, port=port)
        self.listeners.append(listener)
        self._sink.changed()
        return listener

    async def shut(self, listener: PortListener) -> None:
        await listener.close()
        if listener in self.listeners:
            self.listeners.remove(listener)
            self._sink.changed()

    async def close(self) -> None:
        """End every connection and stop listening, at the end of the duet."""
        for listener in list(self.listeners):
            await listener.close()
        for offer in self.registry.all():
            await self.registry.remove(offer)

    # -- connections -----------------------------------------------------------------------------------------

    async def begun(self, connection: PortConnection) -> None:
        """Record a connection before anything passes through it. Raises AuditUnavailable."""
        connection.number = next(self._numbers)
        await self._recorder.record(_of(connection, BEGUN))
        self._sink.changed()

    def ended(self, connection: PortConnection) -> None:
        self._recorder.note(_of(connection, FAILED if connection.why else COMPLETE))
        self._sink.changed()


class _Port(PortHandle):
    """The display of both kinds of ports."""

    def row(self) -> tuple[str, ...]:
        """Return its row in a table."""
        state = "closed" if self.closed else "paused" if self.paused else "open"
        return (
            self.name,
            self._where(),
            state,
            f"{self.connections} of {self.total_connections}",
            size_text(self.sent_bytes),
            size_text(self.received_bytes),
        )

    def _where(self) -> str:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {visible(self.name)!r}: {self._where()}, {self.row()[2]}>"

    def _repr_html_(self) -> str:
        return PortTable([self])._repr_html_()


class SharedPort(_Port):
    """A service of this side that the peer may connect to, until `close`."""

    def __init__(self, offer: PortOffer, ports: Ports, thread: LoopThread) -> None:
        self._loop_side: PortOffer = offer
        self._ports = ports
        self._thread = thread

    @property
    def host(self) -> str:
        """The host of the service, as this side reaches it."""
        return self._loop_side.host

    def close(self) -> None:
        """Stop offering it and end its connections. Safe to call twice."""
        if not self._thread.stopped:
            self._thread.run(self._ports.unshare(self._loop_side))

    def _where(self) -> str:
        return f"{self.host}:{self.port} for the peer"


class OpenPort(_Port):
    """A port on this machine that leads to a service of the peer's, until `close`."""

    def __init__(self, listener: PortListener, ports: Ports, thread: LoopThread) -> None:
        self._loop_side: PortListener = listener
        self._ports = ports
        self._thread = thread

    @property
    def host(self) -> str:
        """The address to connect to, always 127.0.0.1: only programs of this machine can."""
        return HOST

    @property
    def address(self) -> str:
        """The host and port, `127.0.0.1:43211`, to give to a program."""
        return f"{HOST}:{self.port}"

    def close(self) -> None:
        """Stop listening and end the connections. Safe to call twice."""
        if not self._thread.stopped:
            self._thread.run(self._ports.shut(self._loop_side))

    def _where(self) -> str:
        return f"{self.address} here"


class PortTable(Displayed):
    """The ports of a duet: those that this side shares, and those that it has opened."""

    def __init__(self, ports: Sequence[_Port]) -> None:
        self._ports = ports

    def __len__(self) -> int:
        return len(self._ports)

    def __getitem__(self, name: str) -> _Port:
        """Return the port of that name. Raises KeyError."""
        for port in self._ports:
            if port.name == name:
                return port
        raise KeyError(name)

    def table(self) -> Table:
        headers = ("port", "where", "state", "connections", "sent", "received")
        return Table("Ports", headers, [port.row() for port in self._ports], "no port is shared or open")


def _described(name: str, state: str, reason: str) -> Entry:
    return Entry(kind=entry.PORT, name=name, state=state, reason=reason)


def _of(connection: PortConnection, state: str) -> Entry:
    begun = state == BEGUN
    return Entry(
        kind=entry.PORT,
        name=connection.name,
        state=state,
        connection=connection.number,
        by="this side" if connection.outbound else "the peer",
        path=connection.path,
        left_bytes=None if begun else connection.sent_bytes,
        came_bytes=None if begun else connection.received_bytes,
        reason="" if begun else connection.why,
    )
