"""The resources that all links of a process share: an identity, Flight servers, and thread pools.

Everything that belongs to one peer belongs to its link instead: its tickets, the client certificate that it
was issued, what it holds in memory, the threads that wait for it. So no peer can learn of another one through
the endpoint, or slow it down.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
from concurrent.futures import ThreadPoolExecutor

from duetlink.base.runtime import cpu
from duetlink.data.values.registry import registered
from duetlink.errors import LinkClosed, PathUnavailable
from duetlink.net.fixed_port import free_ports
from duetlink.net.flight.certificate import Authority, create_identity
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.server import FlightServer
from duetlink.net.paths.registry import path_class
from duetlink.settings import Settings

_MOST_CODEC_THREADS = 4
_READING_THREADS = 2  # two threads saturate the memory bus


class Endpoint:
    """Made on the loop thread, to which its methods belong; `close` ends it."""

    def __init__(self) -> None:
        self.identity = create_identity()
        self.authority = Authority()
        self.workers = min(cpu.count(), _MOST_CODEC_THREADS)
        self.codec_pool = ThreadPoolExecutor(self.workers, thread_name_prefix="duetlink-codec")
        # for work that reads or writes a whole object in memory and never waits for a peer
        self.reading = ThreadPoolExecutor(_READING_THREADS, thread_name_prefix="duetlink-read")
        self._servers: dict[tuple[str, range | None], asyncio.Task[FlightServer]] = {}
        self._closed = False

    async def open_fixed(self, settings: Settings) -> None:
        """Load value types and paths of other packages, and open the Flight port that the settings fix.

        Called before there is a peer, so that a port that is in use is an error of `launch`. Opens nothing if
        the settings fix no port or do not allow the path "tcp".

        Raises PortUnavailable, or ExtensionFailed for an error in another package.
        """
        registered()
        for name in settings.allowed_paths:
            path_class(name)
        if settings.flight_ports is not None and "tcp" in settings.allowed_paths:
            await self._server(settings.listen or "::", settings.flight_ports)

    async def admit(
        self, host: str, subject: bytes, guest: Guest, ports: range | None = None
    ) -> FlightServer:
        """Admit `guest` to the Flight server that listens on `host` at one of `ports`, and return the server.

        There is one server for each pair of host and ports in use. Links that the peer may dial share one;
        the others are not reachable from other machines.

        Raises:
            PathUnavailable: this side cannot listen there.
            PortUnavailable: none of the ports is free.
            LinkClosed: the endpoint is closed.
        """
        server = await self._server(host, ports)
        server.admit(subject, guest)
        return server

    async def _server(self, host: str, ports: range | None) -> FlightServer:
        if self._closed:
            raise LinkClosed("this duet is closed; launch or join a new one")
        place = host, ports
        if place not in self._servers:
            self._servers[place] = asyncio.ensure_future(asyncio.to_thread(self._listen, host, ports))
        starting = self._servers[place]
        try:
            return await asyncio.shield(starting)
        except Exception:
            if self._servers.get(place) is starting:  # let the next link try again
                del self._servers[place]
            raise

    async def dismiss(self, server: FlightServer, subject: bytes) -> None:
        """Remove the guest of a link that has closed."""
        await asyncio.to_thread(server.dismiss, subject)

    async def close(self) -> None:
        """Free everything. Safe to call twice."""
        self._closed = True
        servers = list(self._servers.values())
        self._servers.clear()
        for starting in servers:
            with contextlib.suppress(Exception):
                server = await starting
                await asyncio.to_thread(server.close)
        for pool in (self.codec_pool, self.reading):
            pool.shutdown(wait=False, cancel_futures=True)

    def _listen(self, host: str, ports: range | None) -> FlightServer:
        make = functools.partial(
            FlightServer, self.identity, self.authority.certificate_pem, self.codec_pool, host=host
        )
        if ports is None:
            return make()
        for port in free_ports(host, ports, "flight_port"):
            with contextlib.suppress(PathUnavailable):  # another process has just taken it
                return make(port=port)
        raise AssertionError("free_ports ends with an error")
