"""What all links of a process share, below them: an identity, one Flight server, and threads.

A link is one peer on an endpoint. What belongs to a peer (its tickets, the certificate that it comes with,
what it holds, the threads that wait for it) belongs to its link. Nothing here lets one peer learn of another,
or keep it waiting.
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
_READING_THREADS = 2  # two keep the memory bus busy


class Endpoint:
    """Made on the loop thread, where its methods belong; `close` ends it."""

    def __init__(self) -> None:
        self.identity = create_identity()
        self.authority = Authority()
        self.workers = min(cpu.count(), _MOST_CODEC_THREADS)
        self.codec_pool = ThreadPoolExecutor(self.workers, thread_name_prefix="duetlink-codec")
        # what reads or writes a whole object in memory; none of it waits for a peer
        self.reading = ThreadPoolExecutor(_READING_THREADS, thread_name_prefix="duetlink-read")
        self._servers: dict[tuple[str, range | None], asyncio.Task[FlightServer]] = {}
        self._closed = False

    async def open_fixed(self, settings: Settings) -> None:
        """Before there is a peer, load the value types of other packages, and the paths that the settings
        allow, and open the Flight port that they fix: whoever asked for it is told at once that it is taken.
        Nothing is opened where they fix none, or let nobody dial.

        Raises PortUnavailable, and ExtensionFailed for what another package has.
        """
        registered()
        for name in settings.allowed_paths:
            path_class(name)
        if settings.flight_ports is not None and "tcp" in settings.allowed_paths:
            await self._server(settings.listen or "::", settings.flight_ports)

    async def admit(
        self, host: str, subject: bytes, guest: Guest, ports: range | None = None
    ) -> FlightServer:
        """The Flight server that listens on `host`, at one of these ports, with this guest admitted. There is
        one for each host and ports in use: links that may be dialled share one, and those that may not are
        not reachable from outside.

        Raises:
            PathUnavailable: nothing can listen there.
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
            if self._servers.get(place) is starting:  # the next link may have more luck
                del self._servers[place]
            raise

    async def dismiss(self, server: FlightServer, subject: bytes) -> None:
        """This guest's link has closed."""
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
            with contextlib.suppress(PathUnavailable):  # taken meanwhile
                return make(port=port)
        raise AssertionError("free_ports ends with an error")
