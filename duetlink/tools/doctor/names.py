"""Resolves names to addresses within a time limit, even if the DNS server never answers.

`getaddrinfo` cannot be cancelled. It runs on daemon threads, not in the loop's executor, which would wait for
every thread when it ends. So a resolver that is stuck delays neither the report nor the interpreter's exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Iterable

from duetlink.base.runtime.own_threads import OwnThreads
from duetlink.net.stun.address import family_of

# maps the name of a host to its addresses, as IP literals; raises OSError
Lookup = Callable[[str], Awaitable[list[str]]]


class NameUnresolved(Exception):
    """A name has no address, or none was found in time; the text says which, for a person."""


# IP literals of one host, IPv4 first, at most one of each family; or the error
Resolved = list[str] | NameUnresolved


async def resolve(
    hosts: Iterable[str], timeout_s: float, lookup: Lookup | None = None
) -> dict[str, Resolved]:
    """Look up all `hosts` in parallel. Addresses of a family without a route are dropped if others remain."""
    asked = list(dict.fromkeys(hosts))
    found = await asyncio.gather(*(_resolve(host, timeout_s, lookup or system_lookup) for host in asked))
    return dict(zip(asked, found, strict=True))


async def _resolve(host: str, timeout_s: float, lookup: Lookup) -> Resolved:
    with contextlib.suppress(ValueError):
        return [str(ipaddress.ip_address(host))]  # an address has no name to look up
    try:
        async with asyncio.timeout(timeout_s):
            found = await lookup(host)
    except TimeoutError:
        return NameUnresolved(f"the name {host} was not resolved within {timeout_s:g} s: DNS does not answer")
    except (OSError, UnicodeError):
        return NameUnresolved(f"the name {host} has no address: misspelt, or DNS cannot be reached")
    by_family: dict[int, str] = {}
    for text in found:
        with contextlib.suppress(ValueError):
            by_family.setdefault(ipaddress.ip_address(text).version, text)
    addresses = [by_family[family] for family in sorted(by_family)]
    if not addresses:
        return NameUnresolved(f"the name {host} has no address")
    return [address for address in addresses if has_route(address)] or addresses


def has_route(address: str) -> bool:
    """Return True if this machine has a route to `address`. Sends nothing."""
    try:
        with socket.socket(family_of(address), socket.SOCK_DGRAM) as sock:
            sock.connect((address, 9))
    except OSError:
        return False
    return True


async def system_lookup(host: str) -> list[str]:
    ask = functools.partial(socket.getaddrinfo, host, None, type=socket.SOCK_DGRAM)
    infos = await asyncio.get_running_loop().run_in_executor(OwnThreads(1, "doctor-resolve"), ask)
    return [str(info[4][0]) for info in infos]
