"""One port of this machine from which several connections leave and at which others arrive.

A NAT tells connections apart by their local port. Only what leaves from the port that a STUN server has seen,
and at which the peer is told to knock, opens the way for the peer.
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
    """The same number for IPv4 and IPv6, as far as this machine has both. Taken at once; close it.

    With `listen`, an address of this machine, it is a port of that alone.
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
        """A new one that is bound to the port.

        Raises OSError where the machine does not have that family, or may not use it.
        """
        if family not in self._hosts:
            raise OSError(errno.EAFNOSUPPORT, "this side listens at an address of the other family")
        sock = socket.socket(family, socket.SOCK_STREAM)
        try:
            sock.setblocking(False)
            # all before bind, on all sockets of the port
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if sys.platform != "win32":  # where SO_REUSEADDR is enough
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
        """From now on call this with every connection that arrives."""

        class Arrived(TcpConnection):
            def connection_made(self, transport: asyncio.BaseTransport) -> None:
                super().connection_made(transport)
                on_wire(self)

        loop = asyncio.get_running_loop()
        for listener in self._listeners.values():
            self._servers.append(await loop.create_server(Arrived, sock=listener, backlog=_BACKLOG))

    def close(self) -> None:
        """Let no more arrive; what has arrived or left stays. Again is harmless."""
        for server in self._servers:
            server.close()
        for listener in self._listeners.values():
            listener.close()

    def _take(self) -> bool:
        """Bind to one number for all families; False where that of another family is taken."""
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
