"""Names to addresses within a bound: a DNS server that never answers costs this much and no more.

`getaddrinfo` cannot be cancelled. It runs on daemon threads, not in the loop's executor, which waits at its
end for every thread: a resolver that is stuck is left behind, and holds up neither the report nor the
interpreter's exit.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import socket
import threading
from collections.abc import Awaitable, Callable

RESOLVE_TIMEOUT_S = 3.0

# a host's name to its addresses, IP literals; raises OSError
Lookup = Callable[[str], Awaitable[list[str]]]


class NameUnresolved(Exception):
    """A name has no address, or none was told in time; the text says which, for a person."""


class Resolver:
    """Remembers what it has asked: each name is looked up once, however many probes want it."""

    def __init__(self, lookup: Lookup | None = None, timeout_s: float = RESOLVE_TIMEOUT_S) -> None:
        self._lookup = lookup or system_lookup
        self._timeout_s = timeout_s
        self._asked: dict[str, asyncio.Future[list[str]]] = {}

    async def addresses(self, host: str) -> list[str]:
        """IP literals of `host`, IPv4 first, at most one of each family, and of a family that leads out of
        this machine if one does. Raises NameUnresolved.
        """
        if host not in self._asked:
            self._asked[host] = asyncio.ensure_future(self._resolve(host))
        # shielded: whoever gives up does not end the question of the others
        return await asyncio.shield(self._asked[host])

    async def close(self) -> None:
        """Give up what has not been answered."""
        for asked in self._asked.values():
            asked.cancel()
        await asyncio.gather(*self._asked.values(), return_exceptions=True)

    async def _resolve(self, host: str) -> list[str]:
        try:
            async with asyncio.timeout(self._timeout_s):
                found = await self._lookup(host)
        except TimeoutError:
            raise NameUnresolved(
                f"the name {host} was not resolved within {self._timeout_s:g} s: DNS does not answer"
            ) from None
        except (OSError, UnicodeError):
            raise NameUnresolved(
                f"the name {host} has no address: misspelt, or DNS cannot be reached"
            ) from None
        by_family: dict[int, str] = {}
        for text in found:
            with contextlib.suppress(ValueError):
                by_family.setdefault(ipaddress.ip_address(text).version, text)
        if not by_family:
            raise NameUnresolved(f"the name {host} has no address")
        addresses = [by_family[family] for family in sorted(by_family)]
        return [address for address in addresses if has_route(address)] or addresses


def has_route(address: str) -> bool:
    """Whether this machine knows where to send for `address`. Sends nothing."""
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_DGRAM) as sock:
            sock.connect((address, 9))
    except OSError:
        return False
    return True


async def system_lookup(host: str) -> list[str]:
    """The system's own resolver."""
    loop = asyncio.get_running_loop()
    answer: asyncio.Future[list[str]] = loop.create_future()

    def look_up() -> None:
        try:
            infos = socket.getaddrinfo(host, None, type=socket.SOCK_DGRAM)
            outcome: list[str] | Exception = [str(info[4][0]) for info in infos]
        except (OSError, UnicodeError) as error:
            outcome = error
        with contextlib.suppress(RuntimeError):  # the loop has been closed meanwhile
            loop.call_soon_threadsafe(tell, outcome)

    def tell(outcome: list[str] | Exception) -> None:
        if answer.done():  # given up
            return
        if isinstance(outcome, Exception):
            answer.set_exception(outcome)
        else:
            answer.set_result(outcome)

    threading.Thread(target=look_up, name="doctor-resolve", daemon=True).start()
    return await answer
