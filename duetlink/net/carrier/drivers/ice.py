"""Drivers `udp` and `relay`: ICE (RFC 8445) finds a route for datagrams, and the tunnel makes a stream of it.

Candidates are sent as they become known (RFC 8838): a STUN or TURN server that is slow or dead delays only
its own candidate. For `relay`, only pairs with a relayed side are checked. One TURN server is enough if the
other side can send UDP to it; if neither side can, each uses its own by TCP or TLS.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Coroutine
from typing import Any

from aioice import ice, stun

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.configuration import Configuration
from duetlink.net.carrier.drivers.allocation import allocate_first
from duetlink.net.carrier.drivers.driver import Established, Session
from duetlink.net.carrier.drivers.ice_signals import MAX_CANDIDATES, read_candidate, read_message
from duetlink.net.carrier.drivers.takeover import (
    OnlyRelayed,
    Pair,
    add_local,
    check_aioice,
    local_protocols,
    make_connection,
)
from duetlink.net.stun.server_url import ServerUrl, parse_servers
from duetlink.net.tunnel.transport import TunnelTransport

# shorter than the kernel's time limit, so that the kernel receives the reason
CONNECT_TIMEOUT_S = 7.0
MAPPED_TIMEOUT_S = 3.0  # for STUN servers; allows for one lost packet

_CLOSE_TIMEOUT_S = 0.1
_MAX_WHY = 500


async def establish_direct(session: Session) -> Established:
    """Connect directly, without a relay."""
    return await _establish(_Agent(session, relayed=False))


async def establish_relayed(session: Session) -> Established:
    """Connect through a TURN server of either side, or one of each."""
    return await _establish(_Agent(session, relayed=True))


async def _establish(agent: _Agent) -> Established:
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            return await agent.connect()
    except TimeoutError:
        await agent.close()
        raise PathUnavailable(agent.failure()) from None
    except BaseException:
        await agent.close()
        raise


class Tunnelled(Established):
    """The tunnel between a pair of addresses."""

    def __init__(self, agent: _Agent, configuration: Configuration, pair: Pair, description: str) -> None:
        self.description = description
        self._agent = agent
        self._configuration = configuration
        self._pair = pair

    async def attach(self, protocol: asyncio.Protocol) -> asyncio.Transport:
        return TunnelTransport(
            asyncio.get_running_loop(),
            self._pair.take_over(),
            protocol,
            key=self._configuration.key,
            initiator=self._configuration.controlling,
        )

    async def wait_lost(self) -> str:
        await self._agent.connection.get_event()
        return "the peer has not answered at its address for half a minute"

    async def close(self) -> None:
        await self._agent.close()


class _Agent:
    """This side of one ICE negotiation."""

    def __init__(self, session: Session, *, relayed: bool) -> None:
        check_aioice()
        self.connection = make_connection(controlling=session.configuration.controlling)
        self._session = session
        self._relayed = relayed
        self._servers, self._unusable = parse_servers(session.configuration.ice_servers)
        self._turn: tuple[ServerUrl, ice.StunProtocol] | None = None
        self._no_turn = ""  # why this side has no relayed candidate
        self._introduced = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []

    async def connect(self) -> Established:
        """Check pairs until one works on both sides. Raises PathUnavailable."""
        connection = self.connection
        await connection.gather_candidates()
        if self._relayed:
            for protocol in local_protocols(connection):
                protocol.local_candidate = OnlyRelayed(protocol.local_candidate)
        await self._tell(
            ufrag=connection.local_username,
            password=connection.local_password,
            candidates=[candidate.to_sdp() for candidate in connection.local_candidates][:20],
        )
        gathering = self._start(self._gather())
        listening = self._start(self._listen(gathering))
        checking = self._start(self._check())
        done, _ = await asyncio.wait((listening, checking), return_when=asyncio.FIRST_COMPLETED)
        for task in done:
            task.result()
        pair = Pair(connection)
        return Tunnelled(self, self._session.configuration, pair, self._describe(pair))

    async def close(self) -> None:
        """Free sockets and allocations, the latter by a message without waiting for its answer."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_CLOSE_TIMEOUT_S):
                await self.connection.close()

    def failure(self) -> str:
        """Return why no route was found, as text for a person."""
        here = len(self.connection.local_candidates) + (self._turn is not None)
        there = len(self.connection.remote_candidates)
        if not self._introduced.is_set():
            return "the other side's helper did not answer"
        words = f"no route was found ({here} addresses here, {there} at the peer)"
        if self._relayed:
            return f"{words}; {self._no_turn}" if self._no_turn else f"{words}, though {self._turn_words()}"
        return f"{words}: UDP is blocked or a NAT is too strict"

    def _start(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(coroutine)
        self._tasks.append(task)
        return task

    def _describe(self, pair: Pair) -> str:
        if self._turn is not None and pair.local is self._turn[1]:
            return f"through {self._turn[0]}, {pair}"
        return f"UDP, {pair}" + (" (the peer's relay)" if self._relayed else "")

    def _turn_words(self) -> str:
        return f"{self._turn[0]} would relay" if self._turn is not None else "no TURN server answered"

    # -- candidates of this side -----------------------------------------------------------------------------

    async def _gather(self) -> None:
        """Find the addresses by which the peer can reach this side, and send them."""
        finding = [self._gather_mapped()]
        if self._relayed:
            finding.append(self._gather_relayed())
        await asyncio.gather(*finding)
        await self._tell(end=True, no_turn=self._no_turn[:_MAX_WHY])

    async def _gather_mapped(self) -> None:
        """Ask every server for the public address of every socket; send each different answer once."""
        known: set[tuple[str, int]] = set()

        async def ask(protocol: ice.StunProtocol, server: ServerUrl) -> None:
            with contextlib.suppress(stun.TransactionError, OSError, KeyError, TimeoutError):
                async with asyncio.timeout(MAPPED_TIMEOUT_S):
                    candidate, _ = await ice.server_reflexive_candidate(protocol, (server.host, server.port))
                if (candidate.host, candidate.port) not in known:
                    known.add((candidate.host, candidate.port))
                    await self._tell(candidates=[candidate.to_sdp()])

        # a TURN server is a STUN server too
        servers = [server for server in self._servers if server.transport == "udp"]
        ipv4 = [
            protocol
            for protocol in local_protocols(self.connection)
            if ":" not in protocol.local_candidate.host
        ]
        await asyncio.gather(*(ask(protocol, server) for protocol in ipv4 for server in servers))

    async def _gather_relayed(self) -> None:
        try:
            self._turn = await allocate_first(self.connection, self._servers)
        except PathUnavailable as error:
            self._no_turn = "; ".join((*self._unusable, str(error)))
            return
        add_local(self.connection, self._turn[1])
        await self._tell(candidates=[self._turn[1].local_candidate.to_sdp()])

    # -- messages of the peer --------------------------------------------------------------------------------

    async def _tell(self, **fields: Any) -> None:
        await self._session.send(json.dumps(fields).encode())

    async def _listen(self, gathering: asyncio.Task[None]) -> None:
        """Process the messages of the peer's agent. Never returns."""
        while True:
            message = read_message(await self._session.receive())
            if message.ufrag is not None and not self._introduced.is_set():
                self.connection.remote_username = message.ufrag
                self.connection.remote_password = message.password
                self._introduced.set()
            for candidate in filter(None, map(read_candidate, message.candidates)):
                if len(self.connection.remote_candidates) < MAX_CANDIDATES:
                    await self.connection.add_remote_candidate(candidate)
            if message.end:
                # aioice must not give up before this side has gathered all its candidates
                await gathering
                if self._relayed and self._no_turn and message.no_turn:
                    raise PathUnavailable(
                        f"no relay. Here: {self._no_turn}. At the peer: {message.no_turn[:300]}"
                    )
                await self.connection.add_remote_candidate(None)
                await asyncio.get_running_loop().create_future()

    async def _check(self) -> None:
        await self._introduced.wait()
        try:
            await self.connection.connect()
        except ConnectionError:
            raise PathUnavailable(self.failure()) from None
