"""Driver `punched`: a TCP connection between both sides, through both NATs, by simultaneous open.

Each side connects to all addresses of the other from the one port on which it listens. An outgoing SYN opens
this side's NAT for the peer's; if both leave before either arrives, both pass, and TCP makes one connection
of them (RFC 9293 §3.5). So both sides must start at the same time, as in libp2p's DCUtR: the controlling side
measures the round trip of a signal, tells the other side to begin, and waits for half of it.

A listener on the same port does no harm: a SYN that meets one of ours under way belongs to that connection,
and only others reach the listener. If the listener has accepted a connection, ours to the same address fails
with EADDRNOTAVAIL; if a NAT answers a SYN that came too early, with ECONNREFUSED or ECONNRESET. In all these
cases, this side tries again.

Some 70 % of pairs of networks can be punched, nearly all at the first attempt (Trautwein et al. 2025,
"Challenging Tribal Knowledge", arXiv 2510.27500; for TCP, Ford et al. 2005).
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import Any

from aioice.ice import get_host_addresses

from duetlink.base.wire import json_
from duetlink.errors import PathUnavailable, RemoteProtocolError
from duetlink.net.carrier.drivers.driver import Established, Session
from duetlink.net.carrier.drivers.local_port import LocalPort
from duetlink.net.carrier.drivers.mapped import ask_mapped
from duetlink.net.carrier.drivers.port_mapping import PortMapping, map_port
from duetlink.net.carrier.drivers.race import Race
from duetlink.net.carrier.drivers.wire import TcpConnection
from duetlink.net.stun.address import Address, read_address
from duetlink.net.stun.server_url import parse_servers
from duetlink.net.stun.wire import StreamWire

# shorter than the kernel's time limit, so that the kernel receives the reason
CONNECT_TIMEOUT_S = 7.0
MAPPED_TIMEOUT_S = 1.0  # the wait for STUN servers before this side sends its addresses
ROUNDS = 3
ROUND_S = 1.8

MAX_ADDRESSES = 16  # of either side

# the pause within a round after a connection that failed at once; doubled each time
_FIRST_PAUSE_S = 0.05
_MAX_LEAD_S = 1.0
_PATH_NAME = "punched"


async def establish(session: Session) -> Established:
    """Connect directly by TCP."""
    puncher = _Puncher(session)
    wire: TcpConnection | None = None
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            wire = await puncher.connect()
        return Punched(wire, puncher.take_mapping())
    except TimeoutError:
        raise PathUnavailable(puncher.failure()) from None
    finally:
        await puncher.close(keep=wire)


class Punched(Established):
    """A TCP connection. A silent loss is noticed by the reader of the stream, not here."""

    def __init__(self, wire: TcpConnection, mapping: PortMapping | None) -> None:
        self._wire = wire
        self._mapping = mapping  # kept, since the router may end its connections when the mapping is deleted
        self.description = f"TCP, {_words(wire.local)} to {_words(wire.peer)}"

    async def attach(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        return self._wire.hand_over(protocol)

    async def close(self) -> None:
        self._wire.abort()
        if self._mapping is not None:
            await self._mapping.close()


class _Puncher:
    """This side of one attempt."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self._configuration = configuration = session.configuration
        self._port = LocalPort(configuration.listen)
        self._race = Race(configuration.key, _PATH_NAME, controlling=configuration.controlling)
        self._mapped: tuple[Address, StreamWire] | None = None
        self._mapping: PortMapping | None = None
        self._own: list[Address] = []
        self._remote: list[Address] = []
        self._introduced = asyncio.Event()
        self._gathered = asyncio.Event()
        self._pongs: dict[int, asyncio.Future[None]] = {}
        self._dials: list[asyncio.Task[None]] = []
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> TcpConnection:
        """Return the connection that both sides have chosen. Raises PathUnavailable, RemoteProtocolError."""
        await self._port.listen(self._race.enter)
        tasks = [self._start(self._gather()), self._start(self._listen())]
        if self._configuration.controlling:
            tasks.append(self._start(self._conduct()))
        if self._configuration.map_port:
            tasks.append(self._start(self._map()))
        pending: set[asyncio.Future[Any]] = {self._race.winner, *tasks}
        while True:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            if self._race.winner in done:
                return self._race.winner.result()
            for task in done:
                task.result()

    async def close(self, keep: TcpConnection | None) -> None:
        for task in (*self._tasks, *self._dials):
            task.cancel()
        await asyncio.gather(*self._tasks, *self._dials, return_exceptions=True)
        await self._race.close(keep)
        self._port.close()
        if self._mapped is not None:
            self._mapped[1].close()
        if self._mapping is not None:
            await self._mapping.close()

    def take_mapping(self) -> PortMapping | None:
        """Return the router's port mapping, which the caller owns from here on."""
        mapping, self._mapping = self._mapping, None
        return mapping

    def failure(self) -> str:
        """Return why no connection was made, as text for a person."""
        if not self._introduced.is_set():
            return "the other side's helper did not answer"
        words = (
            f"no TCP connection was made ({len(self._own)} addresses here, {len(self._remote)} at the peer)"
        )
        if self._mapped is None:
            return f"{words}; no STUN server answers by TCP here"
        return f"{words}: a NAT or a firewall is too strict for TCP"

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.append(task)
        return task

    # -- addresses of this side -------------------------------------------------------------------

    async def _gather(self) -> None:
        """Find this side's addresses and send them: the peer begins when it has the first message.

        STUN answers may follow later, since a lost packet costs a second: an address is useful in any round.
        """
        asking = self._start(self._ask_mapped())
        await asyncio.wait((asking,), timeout=MAPPED_TIMEOUT_S)
        listen = self._configuration.listen
        hosts = get_host_addresses(use_ipv4=True, use_ipv6=True) if listen is None else [listen]
        found: list[object] = [[host, self._port.number] for host in hosts]
        if self._mapped is not None:
            found.insert(0, list(self._mapped[0]))
        usable = dict.fromkeys(address for entry in found if (address := read_address(entry)) is not None)
        self._own = list(usable)[:MAX_ADDRESSES]
        await self._tell(addresses=self._own)
        self._gathered.set()
        await asking
        late = None if self._mapped is None else read_address(list(self._mapped[0]))
        if late is not None and late not in self._own:
            self._own.append(late)
            await self._tell(addresses=[late])

    async def _ask_mapped(self) -> None:
        servers, _ = parse_servers(self._configuration.ice_servers)
        self._mapped = await ask_mapped(self._port, servers)

    async def _map(self) -> None:
        """Request a port mapping, and send its address when it is there."""
        try:
            self._mapping = await map_port(self._port.number)
        except PathUnavailable:  # continue without it
            return
        await self._gathered.wait()
        self._own.append(self._mapping.address)
        await self._tell(addresses=[self._mapping.address])

    # -- messages of the peer --------------------------------------------------------------------------------

    async def _tell(self, **fields: Any) -> None:
        await self._session.send(json.dumps(fields).encode())

    async def _listen(self) -> None:
        """Process the messages of the peer's helper. Never returns."""
        while True:
            match _read(await self._session.receive()):
                case {"addresses": [*entries]}:
                    self._learn(entries)
                case {"ping": int(number)}:
                    await self._tell(pong=number)
                case {"pong": int(number)} if number in self._pongs and not self._pongs[number].done():
                    self._pongs[number].set_result(None)
                case {"round": int()} if not self._configuration.controlling:
                    self._begin_round()

    def _learn(self, entries: list[object]) -> None:
        for entry in entries[:MAX_ADDRESSES]:
            address = read_address(entry)
            if address is None or address in self._remote or address in self._own:
                continue
            if len(self._remote) < MAX_ADDRESSES:
                self._remote.append(address)
                self._race.expect(address[0])
                if self._dials:  # a round is running
                    self._dial(address)
        self._introduced.set()

    # -- rounds ----------------------------------------------------------------------------------------------

    async def _conduct(self) -> None:
        """Controlling side: begin rounds at the same time as the other side."""
        loop = asyncio.get_running_loop()
        await self._gathered.wait()
        await self._introduced.wait()
        for number in range(ROUNDS):
            self._pongs = {number: loop.create_future()}
            asked_s = loop.time()
            await self._tell(ping=number)
            await self._pongs[number]
            round_trip_s = loop.time() - asked_s
            await self._tell(round=number)
            await asyncio.sleep(min(round_trip_s / 2, _MAX_LEAD_S))
            self._begin_round()
            await asyncio.sleep(ROUND_S)
        await self._race.deserted()  # a connection may still complete its hello, delayed by losses
        raise PathUnavailable(self.failure())

    def _begin_round(self) -> None:
        """Dial all addresses again: connections without an answer so far were begun too early or too late."""
        for dial in self._dials:
            dial.cancel()
        self._dials = []
        for address in self._remote:
            self._dial(address)

    def _dial(self, address: Address) -> None:
        self._dials.append(asyncio.get_running_loop().create_task(self._keep_dialling(address)))

    async def _keep_dialling(self, address: Address) -> None:
        """Dial until the address answers or the round is over."""
        pause_s = _FIRST_PAUSE_S
        while True:
            with contextlib.suppress(OSError):
                self._race.enter(await self._port.dial(address))
                return
            await asyncio.sleep(pause_s)
            pause_s *= 2


def _read(payload: bytes) -> object:
    try:
        return json_.read(payload, object)
    except ValueError:
        raise RemoteProtocolError("the peer's helper sent a malformed message") from None


def _words(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
