"""STUN over UDP."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import sys
from typing import Any, ClassVar, Self

from duetlink.tools.doctor.message import Address
from duetlink.tools.doctor.wire import Wire

# linux/in.h, linux/in6.h. PROBE: never fragment, and never mind what the kernel has heard about this way
_IP_MTU_DISCOVER, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE = 10, 23, 3


class UdpWire(Wire, asyncio.DatagramProtocol):
    """A UDP socket. Connected, it is told when nobody listens there; else it hears from anywhere."""

    pauses_s: ClassVar[tuple[float, ...]] = (0.5, 0.5, 1.0)

    @classmethod
    async def open(cls, to: Address, *, connected: bool = False, dont_fragment: bool = False) -> Self:
        """A socket of the family of `to`. Raises OSError."""
        family = socket.AF_INET6 if ":" in to[0] else socket.AF_INET
        sock = socket.socket(family, socket.SOCK_DGRAM)
        try:
            sock.setblocking(False)
            if dont_fragment:
                forbid_fragments(sock)
            sock.bind(("::" if family == socket.AF_INET6 else "0.0.0.0", 0))
            if connected:
                sock.connect(to)
            _, wire = await asyncio.get_running_loop().create_datagram_endpoint(cls, sock=sock)
        except BaseException:
            sock.close()
            raise
        return wire

    @property
    def port(self) -> int:
        """The local port."""
        return int(self._transport.get_extra_info("sockname")[1])

    def connection_made(self, transport: asyncio.DatagramTransport) -> None:  # type: ignore[override]
        self._transport = transport

    def datagram_received(self, data: bytes, addr: tuple[Any, ...]) -> None:
        self._arrived(data, addr[:2])

    def error_received(self, exc: Exception) -> None:
        # EMSGSIZE says that one datagram was too large, which the missing answer says as well
        if isinstance(exc, ConnectionRefusedError):
            self._fail(exc)

    def send(self, data: bytes, to: Address) -> None:
        connected = self._transport.get_extra_info("peername") is not None
        with contextlib.suppress(OSError):
            self._transport.sendto(data, None if connected else to)

    def close(self) -> None:
        self._transport.close()


def forbid_fragments(sock: socket.socket) -> None:
    """Have the network drop what is too large instead of cutting it. Raises OSError where it cannot be."""
    if sys.platform != "linux":
        raise OSError("not on this system")
    if sock.family == socket.AF_INET6:
        sock.setsockopt(socket.IPPROTO_IPV6, _IPV6_MTU_DISCOVER, _PMTUDISC_PROBE)
    else:
        sock.setsockopt(socket.IPPROTO_IP, _IP_MTU_DISCOVER, _PMTUDISC_PROBE)
