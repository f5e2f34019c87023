"""The listening socket of a signaling server: counts connections from their accept on, and ends silent ones.

asyncio's own server reports a TLS connection only when its handshake is done, and a stranger may take a
minute for that. So connections are accepted here, and each has one deadline from its first packet to the
WebSocket upgrade.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any

from aiohttp import web

from duetlink.net.signaling.limits import Limits
from duetlink.net.signaling.mailboxes import network_of

_BACKLOG = 128
_PAUSE_S = 0.25  # the pause if this process has no descriptor left
_REFUSAL_S = 0.001  # bounds the time that a flood of connections takes from the rest of the loop


class Reception:
    """Call `listen`, then `stop`. Belongs to the loop thread."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._counts: Counter[str] = Counter()  # number of connections, by network
        self._counted: dict[web.RequestHandler, str] = {}
        self._silent: dict[web.RequestHandler, asyncio.TimerHandle] = {}
        self._listeners: list[socket.socket] = []
        self._tasks: set[asyncio.Task[None]] = set()

    def of(self, network: str) -> int:
        """Return the number of connections of this network, including silent ones."""
        return self._counts[network]

    async def listen(
        self, host: str, port: int, server: CountingServer, ssl_context: ssl.SSLContext | None
    ) -> tuple[str, int]:
        """Accept connections for `server`; return the address in use. Raises OSError."""
        loop = asyncio.get_running_loop()
        found = await loop.getaddrinfo(host or None, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
        try:
            for family, _, _, _, address in dict.fromkeys(found):
                listener = socket.create_server(address, family=family, backlog=_BACKLOG)
                listener.setblocking(False)
                self._listeners.append(listener)
        except BaseException:
            await self.stop()
            raise
        for listener in self._listeners:
            self._start(self._accept(listener, server, ssl_context))
        bound_host, bound_port = self._listeners[0].getsockname()[:2]
        return str(bound_host), int(bound_port)

    async def stop(self) -> None:
        """Stop accepting, and end connections that were not handed over. Safe to call twice."""
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for listener in self._listeners:
            listener.close()
        self._listeners.clear()
        for timer in self._silent.values():
            timer.cancel()
        self._silent.clear()

    def greeted(self, protocol: web.RequestHandler) -> None:
        """Note that it has upgraded to a WebSocket, which has limits of its own."""
        if (timer := self._silent.pop(protocol, None)) is not None:
            timer.cancel()

    async def _accept(
        self, listener: socket.socket, server: CountingServer, ssl_context: ssl.SSLContext | None
    ) -> None:
        loop = asyncio.get_running_loop()
        while True:
            try:
                accepted, address = await loop.sock_accept(listener)
            except OSError:  # the connection is gone again, or no descriptor is left
                await asyncio.sleep(_PAUSE_S)
                continue
            network = network_of(address[0])
            limits = self._limits
            if (
                self._counts.total() >= limits.connections
                or self._counts[network] >= 2 * limits.connections_per_address
            ):
                accepted.close()
                await asyncio.sleep(_REFUSAL_S)
                continue
            self._counts[network] += 1
            self._start(self._serve(accepted, network, server, ssl_context))
            await asyncio.sleep(0)  # let the loop run: an accept that succeeds at once does not

    async def _serve(
        self,
        accepted: socket.socket,
        network: str,
        server: CountingServer,
        ssl_context: ssl.SSLContext | None,
    ) -> None:
        """Hand a connection to aiohttp, which must upgrade it in time."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + self._limits.opening_s
        protocol = server()
        self._counted[protocol] = network
        try:
            async with asyncio.timeout_at(deadline_s):
                await loop.connect_accepted_socket(lambda: protocol, accepted, ssl=ssl_context)
        except (OSError, TimeoutError):  # ssl.SSLError is an OSError
            accepted.close()
            self.ended(protocol)
        except BaseException:
            accepted.close()
            self.ended(protocol)
            raise
        else:
            if protocol in self._counted:
                self._silent[protocol] = loop.call_at(deadline_s, self._drop, protocol)

    def _drop(self, protocol: web.RequestHandler) -> None:
        self._silent.pop(protocol, None)
        if protocol.transport is not None:
            protocol.transport.abort()

    def ended(self, protocol: web.RequestHandler) -> None:
        """Stop counting a connection that has ended."""
        network = self._counted.pop(protocol, None)
        if network is None:
            return
        self.greeted(protocol)
        self._counts[network] -= 1
        if not self._counts[network]:
            del self._counts[network]

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


class CountingServer(web.Server):
    """aiohttp's server, which notifies `reception` when a connection has ended."""

    def __init__(
        self,
        handler: Callable[[web.BaseRequest], Awaitable[web.StreamResponse]],
        reception: Reception,
        logger: logging.Logger,
    ) -> None:
        super().__init__(handler, access_log=None, keepalive_timeout=5.0, logger=logger)
        self._reception = reception

    def connection_lost(self, handler: web.RequestHandler, exc: BaseException | None = None) -> None:
        super().connection_lost(handler, exc)
        self._reception.ended(handler)
