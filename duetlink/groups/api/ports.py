"""TCP services that one member shares with other members, as `duet.share_port` does in a duet."""

from __future__ import annotations

import asyncio
import functools
import itertools

from duetlink.base.runtime.loop import LoopThread
from duetlink.base.wire.text import harmless
from duetlink.errors import PeerLost, SettingError
from duetlink.groups.api.records import Records
from duetlink.groups.lifecycle.life import GroupLife
from duetlink.net.link.link import Link
from duetlink.net.ports.connection import PortConnection
from duetlink.net.ports.handle import PortHandle
from duetlink.net.ports.listener import HOST, PortListener
from duetlink.net.ports.offer import PortOffer, PortRegistry, serve
from duetlink.net.ports.valve import Valve


class GroupPorts:
    """The services that this member shares, and the ports that it has opened. Used on the loop thread."""

    def __init__(self, life: GroupLife, records: Records) -> None:
        self._life = life
        self._records = records
        self._leaving = Valve()
        self._registry = PortRegistry(self._leaving)
        # the seats that may connect to each service; None for all members
        self._allowed_seats: dict[PortOffer, frozenset[int] | None] = {}
        self._listeners: list[PortListener] = []
        self._numbers = itertools.count()
        self._notes: set[asyncio.Task[None]] = set()

    def begin(self) -> None:
        """Serve connections over all present and later links."""
        self._life.links.serve(self._serve)

    async def share(self, name: str, host: str, port: int, seats: frozenset[int] | None) -> PortOffer:
        """Offer a service to these seats, or to all members. Raises SettingError, AuditUnavailable."""
        offer = self._registry.add(name, host, port)
        self._allowed_seats[offer] = seats
        try:
            await self._records.port(name, "added", f"{host}:{port}", self._named(seats))
        except BaseException:
            await self._registry.remove(offer)
            raise
        return offer

    async def unshare(self, offer: PortOffer) -> None:
        """Withdraw a service and end its connections. Safe to call twice. Raises AuditUnavailable."""
        if not offer.closed:
            await self._registry.remove(offer)
            seats = self._allowed_seats.pop(offer, None)
            await self._records.port(offer.name, "removed", f"{offer.host}:{offer.port}", self._named(seats))

    async def open(self, seat: int, name: str, port: int) -> PortListener:
        """Open a local port to a service of that seat. Raises PeerLost, and as `PortListener.open`."""
        peer = self._life.peers.get(seat)
        if peer is None or peer.link is None:
            raise PeerLost(f"there is no link to {self._life.roster.entries[seat].name}")
        connections = _MemberConnections(self, seat)
        listener = await PortListener.open(peer.link.streams, name, self._leaving, connections, port=port)
        self._listeners.append(listener)
        return listener

    async def close(self) -> None:
        """End all connections and close all ports. Safe to call twice."""
        for listener in self._listeners:
            await listener.close()
        for offer in self._registry.all():
            await self._registry.remove(offer)
        await asyncio.gather(*self._notes, return_exceptions=True)

    def seat_of(self, member: int | str) -> int:
        """Return the seat of another member, given its rank or name. May be called on any thread.

        Raises SettingError if no other member, or more than one, fits.
        """
        life, now = self._life, self._life.member_state
        if now is not None:
            seats = [seat for seat, peer in sorted(life.peers.items()) if peer.link is not None]
            if isinstance(member, int) and life.is_ready and 0 <= member < len(now.epoch.members):
                seats = [seat for seat in seats if seat == now.epoch.members[member]]
            else:
                seats = [seat for seat in seats if life.roster.entries[seat].name == member]
            if len(seats) == 1:
                return seats[0]
        raise SettingError(f"no other member is {member!r}, or several are: see group.members")

    # -- inside ----------------------------------------------------------------------------------------------

    def _serve(self, seat: int, link: Link) -> None:
        serve(
            link.streams,
            self._registry,
            _MemberConnections(self, seat),
            functools.partial(self._may_connect, seat),
        )

    def _may_connect(self, seat: int, offer: PortOffer) -> bool:
        seats = self._allowed_seats.get(offer)
        named = offer in self._allowed_seats and (seats is None or seat in seats)
        return named and not self._life.has_gone(seat)

    def _named(self, seats: frozenset[int] | None) -> str:
        entries = self._life.roster.entries
        return "all" if seats is None else ", ".join(entries[seat].name for seat in sorted(seats))

    async def begun(self, connection: PortConnection, seat: int) -> None:
        connection.number = next(self._numbers)
        await self._records.port_connection(connection, "begun", self._named(frozenset((seat,))))

    def ended(self, connection: PortConnection, seat: int) -> None:
        state = "failed" if connection.why else "complete"
        note = asyncio.ensure_future(
            self._records.port_connection(connection, state, self._named(frozenset((seat,))))
        )
        self._notes.add(note)
        note.add_done_callback(self._notes.discard)


class _MemberConnections:
    """Passes the begin and end of connections with one member to `GroupPorts`."""

    def __init__(self, ports: GroupPorts, seat: int) -> None:
        self._ports = ports
        self._seat = seat

    async def begun(self, connection: PortConnection) -> None:
        await self._ports.begun(connection, self._seat)

    def ended(self, connection: PortConnection) -> None:
        self._ports.ended(connection, self._seat)


class GroupPort(PortHandle):
    """A service that this member shares, or a local port that leads to another member's service.

    It lasts until `close`.
    """

    def __init__(
        self, loop_side: PortOffer | PortListener, ports: GroupPorts, thread: LoopThread, whose: str
    ) -> None:
        self._loop_side: PortOffer | PortListener = loop_side
        self._ports = ports
        self._thread = thread
        self._whose = whose

    @property
    def host(self) -> str:
        """The host of a shared service, as this machine reaches it; 127.0.0.1 for an opened port."""
        return self._loop_side.host if isinstance(self._loop_side, PortOffer) else HOST

    @property
    def address(self) -> str:
        return f"{self.host}:{self.port}"

    def close(self) -> None:
        """End the connections, and stop sharing or listening. Safe to call twice."""
        if self._thread.stopped:
            return
        if isinstance(self._loop_side, PortOffer):
            self._thread.run(self._ports.unshare(self._loop_side))
        else:
            self._thread.run(self._loop_side.close())

    def __repr__(self) -> str:
        state = "closed" if self.closed else "paused" if self.paused else "open"
        return f"<GroupPort {harmless(self.name)!r} {harmless(self._whose)}: {self.address}, {state}>"
