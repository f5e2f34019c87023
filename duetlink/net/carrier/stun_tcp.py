"""STUN over TCP (RFC 8489 §6.2.2): messages one after another, framed by the length in their header.

Not all STUN servers listen for TCP; those that are TURN servers as well do.
"""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from collections.abc import Sequence

from aioice import stun

from duetlink.errors import RemoteProtocolError
from duetlink.net.carrier.local_port import LocalPort
from duetlink.net.carrier.wire import CAPACITY_BYTES, Wire
from duetlink.net.stun.address import Address
from duetlink.net.stun.server_url import ServerUrl

MAX_SERVERS = 6

_HEADER_BYTES = 20
_COOKIE = struct.pack("!I", stun.COOKIE)


async def read_message(wire: Wire) -> stun.Message:
    """The next message. Raises RemoteProtocolError for what is none, OSError where none can come any more."""
    header = await wire.read(_HEADER_BYTES)
    size_bytes = int.from_bytes(header[2:4], "big")
    if header[0] > 3 or header[4:8] != _COOKIE or size_bytes % 4 or size_bytes > CAPACITY_BYTES:
        raise RemoteProtocolError("the server sent something that is no STUN message")
    return parse(header + await wire.read(size_bytes))


def parse(data: bytes) -> stun.Message:
    """Raises RemoteProtocolError for what is no STUN message."""
    try:
        return stun.parse_message(data)
    except (ValueError, struct.error):  # the latter for an attribute shorter than its type
        raise RemoteProtocolError("the server sent a malformed STUN message") from None


async def ask_mapped(port: LocalPort, servers: Sequence[ServerUrl]) -> tuple[Address, Wire] | None:
    """How the first server that answers sees connections from `port`, and the connection to it.

    A NAT keeps what the server saw for as long as that connection stands: the caller aborts it. IPv4 only,
    since nothing translates IPv6. None where no server answers; bounded by the caller.
    """
    where = dict.fromkeys((one.host, one.port) for one in servers if one.transport in ("udp", "tcp"))
    asking = [asyncio.ensure_future(_ask(port, *one)) for one in list(where)[:MAX_SERVERS]]
    won: tuple[Address, Wire] | None = None
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
                task.result()[1].abort()


async def _ask(port: LocalPort, host: str, server_port: int) -> tuple[Address, Wire]:
    loop = asyncio.get_running_loop()
    found = await loop.getaddrinfo(host, server_port, family=socket.AF_INET, type=socket.SOCK_STREAM)
    address = found[0][4]
    wire = await port.dial((str(address[0]), int(address[1])))
    try:
        request = stun.Message(message_method=stun.Method.BINDING, message_class=stun.Class.REQUEST)
        wire.write(bytes(request))
        return _mapped(await read_message(wire), request), wire
    except BaseException:
        wire.abort()
        raise


def _mapped(answer: stun.Message, request: stun.Message) -> Address:
    mapped = answer.attributes.get("XOR-MAPPED-ADDRESS") or answer.attributes.get("MAPPED-ADDRESS")
    if (
        answer.transaction_id != request.transaction_id
        or answer.message_class != stun.Class.RESPONSE
        or mapped is None
    ):
        raise RemoteProtocolError("the STUN server answered something else than was asked")
    return str(mapped[0]), int(mapped[1])
