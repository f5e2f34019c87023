"""Driver of streams through a TURN server (RFC 6062): no datagrams, so that UDP may be blocked on both sides.

Each side that has a TURN server asks it for a TCP address, and lets the other in by its addresses. The other
connects to it: straight or, where its network lets nothing but its own TURN server through, from there.
Several connections may come about; the two settle on one by a hello on each.

All this happens twice, since each direction of the stream has a connection of its own, with nothing but the
hello against it. coturn (4.5 to 4.17) stops one direction of a connection for good when both are full: once
what it holds for one end has left, it reads on from the other end only if it holds little for that one too
(`socket_output_handler_bev` asks whether the wrong socket is writable), and it does not ask again.

Both servers may connect at once, each from the very address that the other connects to. TCP makes one
connection of that (RFC 9293 §3.5), and neither server announces it: to both sides it is one that they asked
for, at the far end of which somebody has yet to bind. So each tells when it has bound its end.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import Any

from aioice.ice import get_host_addresses

from duetlink.errors import PathUnavailable, RemoteProtocolError
from duetlink.net.carrier.address import Address, family_of, read_address
from duetlink.net.carrier.driver import Established, Session
from duetlink.net.carrier.duplex import Duplex
from duetlink.net.carrier.local_port import LocalPort
from duetlink.net.carrier.race import Race
from duetlink.net.carrier.server_url import ServerUrl, parse_servers
from duetlink.net.carrier.signals import Signals
from duetlink.net.carrier.stun_tcp import ask_mapped
from duetlink.net.carrier.turn_tcp import TcpAllocation
from duetlink.net.carrier.wire import Wire

CONNECT_TIMEOUT_S = 5.0
MAX_HOSTS = 12
MAX_STREAMS = 20  # that a server announces, in one attempt

_STAGGER_S = 0.3  # before the next TURN server is asked as well
_MAPPED_TIMEOUT_S = 1.0
_DETOUR_S = 0.7  # before our own server is asked to connect to the peer's
_MAX_WHY = 300
_RUNG = "relay"
_THERE, _BACK = b"t", b"b"  # from the controlling side, and to it


async def establish(session: Session) -> Established:
    """Through a TURN server of either side by TCP alone. Raises PathUnavailable."""
    directions = (_THERE, _BACK) if session.controlling else (_BACK, _THERE)
    signals = Signals(session, directions)
    listening = asyncio.ensure_future(signals.distribute())
    connecting = [asyncio.ensure_future(_connect(signals.session(one), one)) for one in directions]
    made: RelayedStream | None = None
    try:
        while waiting := [task for task in connecting if not task.done()]:
            done, _ = await asyncio.wait((listening, *waiting), return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        made = RelayedStream(*(task.result() for task in connecting))
        return made
    finally:
        for task in (listening, *connecting):
            task.cancel()
        for late in await asyncio.gather(listening, *connecting, return_exceptions=True):
            if isinstance(late, _Connection) and made is None:
                await late.close()


async def _connect(session: Session, direction: bytes) -> _Connection:
    relaying = _Relaying(session, direction)
    wire: Wire | None = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            wire = await relaying.connect()
        return _Connection(wire, relaying.take_allocation())
    except TimeoutError:
        raise PathUnavailable(relaying.failure()) from None
    finally:
        await relaying.close(keep=wire)


class _Connection:
    """A TCP connection to the server, or by the server's address, and the allocation that it stands on."""

    def __init__(self, wire: Wire, allocation: TcpAllocation | None) -> None:
        self.wire = wire
        self._allocation = allocation
        own = allocation is not None and wire.peer[0] == allocation.host
        how = f"TCP through {allocation.server}" if own and allocation else "TCP through the peer's relay"
        self.description = f"{how}, {wire.peer[0]}:{wire.peer[1]}"

    async def close(self) -> None:
        self.wire.abort()
        if self._allocation is not None:
            await self._allocation.close()


class RelayedStream(Established):
    """A connection for each direction."""

    def __init__(self, outgoing: _Connection, incoming: _Connection) -> None:
        self._outgoing = outgoing
        self._incoming = incoming
        self.description = " and ".join(dict.fromkeys((outgoing.description, incoming.description)))

    async def attach(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        return Duplex(protocol, outgoing=self._outgoing.wire, incoming=self._incoming.wire)

    async def close(self) -> None:
        await self._outgoing.close()
        await self._incoming.close()


class _Relaying:
    """This side of one attempt, for one direction."""

    def __init__(self, session: Session, direction: bytes) -> None:
        self._session = session
        self._race = Race(session.key, f"{_RUNG} {direction.decode()}", controlling=session.controlling)
        servers, self._unusable = parse_servers(session.ice_servers)
        self._servers = [server for server in servers if server.transport in ("udp", "tcp", "tls")]
        self._allocation: TcpAllocation | None = None
        loop = asyncio.get_running_loop()
        self._allocated: asyncio.Future[None] = loop.create_future()
        self._peer_bound: asyncio.Future[None] = loop.create_future()  # to what its own server connected
        self._whys: list[str] = []
        self._streams = 0
        self._tasks: list[asyncio.Task[Any]] = []

    async def connect(self) -> Wire:
        """The connection on which both sides have settled. Raises PathUnavailable, RemoteProtocolError."""
        pending: set[asyncio.Future[Any]] = {
            self._race.winner,
            self._start(self._gather()),
            self._start(self._listen()),
        }
        while True:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if self._race.winner in done:
                return self._race.winner.result()
            for task in done:
                task.result()

    def take_allocation(self) -> TcpAllocation | None:
        """What the server has given; it is the caller's from now on."""
        allocation, self._allocation = self._allocation, None
        return allocation

    async def close(self, keep: Wire | None) -> None:
        """Free everything but this connection."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._race.close(keep)
        if self._allocation is not None:
            await self._allocation.close()

    def failure(self) -> str:
        """Why no way was found, for a person."""
        if self._allocation is None:
            return f"no TCP through a TURN server. Here: {self._why()}"
        return "no TCP through a TURN server: nobody came through to its address"

    def _why(self) -> str:
        """Why this side has no relayed address."""
        return "; ".join((*self._unusable, *self._whys)) or "no TURN server is set"

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.append(task)
        return task

    # -- this side -------------------------------------------------------------------------------------------

    async def _gather(self) -> None:
        """Get a relayed address, and tell the peer who will knock at its own."""
        self._allocation = await self._allocate()
        self._allocated.set_result(None)
        hosts = get_host_addresses(use_ipv4=True, use_ipv6=True)
        if self._allocation is not None:
            self._race.expect(self._allocation.host)
            hosts = [self._allocation.mapped[0], self._allocation.relayed[0], *hosts]
        elif (mapped := await self._ask_mapped()) is not None:
            hosts = [mapped, *hosts]
        await self._tell(hosts=list(dict.fromkeys(hosts))[:MAX_HOSTS])

    async def _allocate(self) -> TcpAllocation | None:
        """From the first TURN server that gives one, each asked a while after the one before."""

        async def ask(index: int, server: ServerUrl) -> TcpAllocation:
            await asyncio.sleep(index * _STAGGER_S)
            return await TcpAllocation.open(server, self._announced)

        # one that is configured for UDP nearly always listens for TCP as well
        turn = {
            (url.host, url.port, url.transport == "tls"): url for url in self._servers if url.kind == "turn"
        }
        asking = [asyncio.ensure_future(ask(*one)) for one in enumerate(turn.values())]
        won: TcpAllocation | None = None
        try:
            for next_done in asyncio.as_completed(asking):
                try:
                    won = await next_done
                    break
                except (OSError, RemoteProtocolError, TimeoutError) as error:
                    self._whys.append(str(error) or "a TURN server does not answer")
        finally:
            for task in asking:
                task.cancel()
            for late in await asyncio.gather(*asking, return_exceptions=True):
                if isinstance(late, TcpAllocation) and late is not won:
                    await late.close()
        return won

    async def _ask_mapped(self) -> str | None:
        """How others see this side, where no TURN server of its own tells."""
        port = LocalPort()
        try:
            async with asyncio.timeout(_MAPPED_TIMEOUT_S):
                found = await ask_mapped(port, self._servers)
        except TimeoutError:
            return None
        finally:
            port.close()
        if found is None:
            return None
        found[1].abort()
        return found[0][0]

    def _announced(self, wire: Wire) -> None:
        """Somebody has connected to our relayed address."""
        self._streams += 1
        if self._streams > MAX_STREAMS:
            wire.abort()
        else:
            self._race.enter(wire)

    # -- the peer --------------------------------------------------------------------------------------------

    async def _tell(self, **fields: Any) -> None:
        await self._session.send(json.dumps(fields).encode())

    async def _listen(self) -> None:
        """Take what the peer's helper says: each of its three messages once. Returns when it has them."""
        waiting = {"hosts", "relayed", "bound"}
        while waiting:
            match _read(await self._session.receive()):
                case {"hosts": [*hosts]} if "hosts" in waiting:
                    waiting.remove("hosts")
                    self._start(self._let_in(hosts[:MAX_HOSTS]))
                case {"relayed": None, "why": str(why)} if "relayed" in waiting:
                    waiting.remove("relayed")
                    await asyncio.shield(self._allocated)
                    if self._allocation is None:
                        raise PathUnavailable(f"{self.failure()}. At the peer: {why[:_MAX_WHY]}")
                case {"relayed": entry} if "relayed" in waiting:
                    waiting.remove("relayed")
                    await asyncio.shield(self._allocated)
                    if (address := read_address(entry)) is not None:
                        self._race.expect(address[0])
                        self._start(self._dial(address))
                        self._start(self._detour(address))
                case {"bound": True} if "bound" in waiting:
                    waiting.remove("bound")
                    self._peer_bound.set_result(None)

    async def _let_in(self, hosts: list[object]) -> None:
        """Permit the peer's addresses, then tell ours."""
        await asyncio.shield(self._allocated)
        allocation = self._allocation
        if allocation is None:
            await self._tell(relayed=None, why=self._why()[:_MAX_WHY])
            return
        family = family_of(allocation.relayed[0])
        usable = [address[0] for host in hosts if (address := read_address([host, 1])) is not None]
        permits = [allocation.permit(host) for host in usable if family_of(host) == family]
        # a server may refuse some, as those that are private
        await asyncio.gather(*permits, return_exceptions=True)
        await self._tell(relayed=allocation.relayed)

    async def _dial(self, address: Address) -> None:
        with contextlib.suppress(OSError):
            # coturn below 4.6 drops what comes before the other side has bound its end
            wire = await Wire.open(address, None, "")
            self._race.enter(wire, turn=asyncio.get_running_loop().create_future())

    async def _detour(self, address: Address) -> None:
        """Let our own server connect to the peer's relayed address."""
        await asyncio.sleep(_DETOUR_S)
        if self._allocation is not None:
            with contextlib.suppress(OSError, RemoteProtocolError, TimeoutError):
                self._race.enter(await self._allocation.connect(address), turn=self._peer_bound)
                await self._tell(bound=True)


def _read(payload: bytes) -> object:
    try:
        return json.loads(payload)
    except (ValueError, RecursionError):
        raise RemoteProtocolError("the peer's helper sent something that is no message") from None
