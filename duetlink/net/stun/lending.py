"""TURN servers that one side lends to a peer that has none of its own.

Only credentials that expire by themselves are lent: their user name begins with the Unix time at which they
expire, as servers with a shared secret check it (draft-uberti-behave-turn-rest-00 §2.2; coturn's
`use-auth-secret`). A password that stays valid never leaves this side.
"""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterable

from duetlink.errors import RemoteProtocolError, SettingError
from duetlink.net.stun.address import read_address
from duetlink.net.stun.server_url import ServerUrl, parse_servers
from duetlink.settings import IceServer

MAX_LENT = 8
MAX_LIFETIME_S = 24 * 3600.0  # an expiry further away protects nothing; TURN services give a day at most
MAX_TEXT = 256  # characters of a user name, and of a password

_EXPIRING = re.compile(r"(?P<end_s>[0-9]{10})(:.*)?", re.DOTALL)


async def lent(servers: tuple[IceServer, ...], now_s: float, timeout_s: float) -> tuple[IceServer, ...]:
    """Return the servers that the peer may use from `now_s` on, one URL each, with IP addresses instead of
    names.

    `now_s` is Unix time. Names are resolved here, within `timeout_s`, because no side resolves names for its
    peer. Servers that are used over TLS are not lent, since their certificates are issued for names.
    """
    urls = [url for url in parse_servers(servers)[0] if is_lendable(url, now_s)]
    found = await asyncio.gather(*(_addresses(url, timeout_s) for url in urls))
    return tuple(server for lendable in found for server in lendable)[:MAX_LENT]


def is_lendable(url: ServerUrl, now_s: float) -> bool:
    """Return True if this is a TURN server over UDP or TCP whose credentials are valid and expire within a
    day.
    """
    end_s = expiry_s(url.username)
    return (
        end_s is not None
        and 0 < end_s - now_s <= MAX_LIFETIME_S
        and url.kind == "turn"
        and url.transport in ("udp", "tcp")
        and len(url.username or "") <= MAX_TEXT
        and 0 < len(url.credential or "") <= MAX_TEXT
    )


def expiry_s(username: str | None) -> int | None:
    """Return the Unix time in a user name such as `1800003600:ada`; None if it has none."""
    end = _EXPIRING.fullmatch(username or "")
    return int(end["end_s"]) if end is not None else None


def borrowed(url: str, username: str, credential: str) -> IceServer:
    """Return the server that the peer lends. Raises RemoteProtocolError if this side must not use it."""
    server = IceServer((url,), username, credential) if url.startswith("turn:") else None
    try:
        parsed = ServerUrl.parse(url, server) if server is not None else None
    except SettingError:
        parsed = None
    if server is None or parsed is None or read_address([parsed.host, parsed.port]) is None:
        raise RemoteProtocolError("the peer lends a TURN server that has no IP address of another machine")
    if len(username) > MAX_TEXT or len(credential) > MAX_TEXT:
        raise RemoteProtocolError(
            f"the peer lends a TURN server with credentials of over {MAX_TEXT} characters"
        )
    return server


def has_turn(servers: Iterable[IceServer]) -> bool:
    return any(url.startswith("turn") for server in servers for url in server.urls)


async def _addresses(url: ServerUrl, timeout_s: float) -> list[IceServer]:
    try:
        async with asyncio.timeout(timeout_s):
            found = await asyncio.get_running_loop().getaddrinfo(url.host, url.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError, TimeoutError):
        return []
    hosts = dict.fromkeys(str(address[0]) for *_, address in found)
    return [
        IceServer((f"{url.at(host)}?transport={url.transport}",), url.username, url.credential)
        for host in hosts
        if read_address([host, url.port]) is not None
    ]
