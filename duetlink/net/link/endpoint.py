"""What all links of a process share, below them: an identity, one Flight server, and threads.

A link is one peer on an endpoint. What belongs to a peer (its tickets, the certificate that it comes with,
what it holds, the threads that wait for it) belongs to its link. Nothing here lets one peer learn of another,
or keep it waiting.
"""

from __future__ import annotations

import asyncio
import contextlib
from concurrent.futures import ThreadPoolExecutor

from duetlink.base.runtime import cpu
from duetlink.errors import LinkClosed
from duetlink.net.flight.certificate import Authority, create_identity
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.server import FlightServer

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
        self._servers: dict[str, asyncio.Task[FlightServer]] = {}
        self._closed = False

    async def admit(self, host: str, subject: bytes, guest: Guest) -> FlightServer:
        """The Flight server that listens on `host`, with this guest admitted. There is one for each host in
        use: links that may be dialled share one, and those that may not are not reachable from outside.

        Raises:
            PathUnavailable: nothing can listen there.
            LinkClosed: the endpoint is closed.
        """
        if self._closed:
            raise LinkClosed("this duet is closed; launch or join a new one")
        if host not in self._servers:
            self._servers[host] = asyncio.ensure_future(self._listen(host))
        starting = self._servers[host]
        try:
            server = await asyncio.shield(starting)
        except Exception:
            if self._servers.get(host) is starting:  # the next link may have more luck
                del self._servers[host]
            raise
        server.admit(subject, guest)
        return server

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

    async def _listen(self, host: str) -> FlightServer:
        return await asyncio.to_thread(
            FlightServer, self.identity, self.authority.certificate_pem, self.codec_pool, host=host
        )
