"""The public address of a port's TCP connections, by STUN. (STUN servers that are TURN servers too use
TCP.)
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
from collections.abc import Sequence

from aioice import stun

from duetlink.errors import RemoteProtocolError
from duetlink.net.carrier.drivers.local_port import LocalPort
from duetlink.net.stun.address import Address
from duetlink.net.stun.message import binding_request, mapped_address
from duetlink.net.stun.server_url import ServerUrl
from duetlink.net.stun.wire import StreamWire, dial

MAX_SERVERS = 6


async def ask_mapped(port: LocalPort, servers: Sequence[ServerUrl]) -> tuple[Address, StreamWire] | None:
    """Return the public address of connections from `port`, by the first server that answers, and its
    connection.

    A NAT keeps this address while that connection exists, so the caller closes it. IPv4 only, since IPv6 is
    not translated. None if no server answers. The caller limits the time.
    """
    where = dict.fromkeys((one.host, one.port) for one in servers if one.transport in ("udp", "tcp"))
    asking = [asyncio.ensure_future(_ask(port, *one)) for one in list(where)[:MAX_SERVERS]]
    won: tuple[Address, StreamWire] | None = None
    try:
        for next_done in asyncio.as_completed(asking):
            with contextlib.suppress(OSError, UnicodeError, RemoteProtocolError):
                won = await next_done
                return won
        return None
    finally:
        for task in asking:
            task.cancel()
        await asyncio.gather(*asking, return_exceptions=True)
        for task in asking:
            if not task.cancelled() and task.exception() is None and task.result() is not won:
                task.result()[1].close()


async def _ask(port: LocalPort, host: str, server_port: int) -> tuple[Address, StreamWire]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, server_port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    to = str(found[0][4][0]), server_port
    wire = await dial(StreamWire, to, sock=port.socket(socket.AF_INET))
    try:
        answer = (await wire.ask(binding_request(), to)).message
        mapped = mapped_address(answer)
        if answer.message_class != stun.Class.RESPONSE or mapped is None:
            raise RemoteProtocolError("the STUN server's answer contains no address")
        return mapped, wire
    except BaseException:
        wire.close()
        raise
