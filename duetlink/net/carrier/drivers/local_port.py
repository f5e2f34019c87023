"""One port of this machine for several outgoing and incoming connections.

A NAT distinguishes connections by their local port. Only packets from the port that a STUN server has seen,
and to which the peer connects, open the NAT for the peer.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import sys
from collections.abc import Callable

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.drivers.wire import TcpConnection
from duetlink.net.stun.address import Address, family_of

_BACKLOG = 32
_TRIES = 10

_ANY = {socket.AF_INET: "0.0.0.0", socket.AF_INET6: "::"}
_FAMILIES = (socket.AF_INET6, socket.AF_INET)


class LocalPort:
    """The same port number for IPv4 and IPv6, if this machine has both.

    It is taken on construction; close it.

    With `listen`, an address of this machine, the port is bound to that address only.
    """

    def __init__(self, listen: str | None = None) -> None:
        self._hosts = dict(_ANY)
        if listen is not None and listen not in _ANY.values():
            self._hosts = {family_of(listen): listen}
        self._listeners: dict[socket.AddressFamily, socket.socket] = {}
        self._servers: list[asyncio.Server] = []
        self.number = 0
        for _ in range(_TRIES):
            if self._take():
                return
        raise PathUnavailable("this machine has no TCP port that is free for IPv4 and IPv6")

    def socket(self, family: socket.AddressFamily) -> socket.socket:
        """Return a new socket that is bound to the port.

        Raises OSError if the machine does not have that address family, or `listen` is of the other one.
        """
        if family not in self._hosts:
            raise OSError(errno.EAFNOSUPPORT, "this side listens at an address of the other family")
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # set before bind, on all sockets of the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if sys.platform != "win32":  # on Windows, SO_REUSEADDR is enough
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
            if family == socket.AF_INET6:
                sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
            sock.bind((self._hosts[family], self.number))
        except BaseException:
            sock.close()
            raise
        return sock

    async def dial(self, address: Address) -> TcpConnection:
        """Connect from the port. Raises OSError."""
        sock = self.socket(family_of(address[0]))
        try:
            await asyncio.get_running_loop().sock_connect(sock, address)
        except BaseException:
            sock.close()
            raise
        return await TcpConnection.adopt(sock)

    async def listen(self, on_wire: Callable[[TcpConnection], object]) -> None:
        """Call `on_wire` with every connection that arrives from here on."""

        class Arrived(TcpConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                on_wire(self)

        loop = asyncio.get_running_loop()
        for listener in self._listeners.values():
            self._servers.append(await loop.create_server(Arrived, sock=listener, backlog=_BACKLOG))

    def close(self) -> None:
        """Stop listening; existing connections stay. Safe to call twice."""
        for server in self._servers:
            server.close()
        for listener in self._listeners.values():
            listener.close()

    def _take(self) -> bool:
        """Bind to one number for all families; return False if the number is in use for the second one."""
        self.number = 0
        for family in _FAMILIES:
            try:
                self._listeners[family] = self.socket(family)
            except OSError as error:
                if error.errno != errno.EADDRINUSE:
                    continue  # this machine does not have that family
                self.close()
                self._listeners.clear()
                return False
            self.number = self._listeners[family].getsockname()[1]
        return bool(self._listeners)
