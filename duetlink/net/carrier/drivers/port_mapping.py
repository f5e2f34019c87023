"""A port of the router that leads to a port of this machine, by UPnP (Internet Gateway Device), if allowed.

miniupnpc blocks, so it runs on threads. A mapping is requested for a short time and renewed, so that a killed
process leaves it behind only for a while.
"""

from __future__ import annotations

import asyncio
import contextlib
import importlib
import random
import threading
from typing import Any

from duetlink.errors import PathUnavailable
from duetlink.net.stun.address import Address, read_address

LEASE_S = 1200
_CLOSE_TIMEOUT_S = 0.7
_DISCOVERY_MS = 800
_DESCRIPTION = "duetlink"
_TRIES = 3  # different port numbers


class PortMapping:
    """Renewed until it is closed. `address` is the public address that a peer may dial."""

    def __init__(self, router: _Router, address: Address) -> None:
        self.address = address
        self._router = router
        self._renewing = asyncio.ensure_future(self._renew())

    async def close(self) -> None:
        """Return the port to the router, if that can be done in a moment."""
        self._renewing.cancel()
        await asyncio.wait((self._router.withdraw(),), timeout=_CLOSE_TIMEOUT_S)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 2)
            with contextlib.suppress(
                PathUnavailable
            ):  # there is time for another attempt before the lease ends
                await self._router.request()


async def map_port(port: int) -> PortMapping:
    """Ask the router for a public port that leads to `port` of this machine.

    Takes about a second if no router answers. A cancelled call leaves no mapping behind.

    Raises:
        PathUnavailable: the router gives none; the message says why.
    """
    router = _Router(port)
    mapping: PortMapping | None = None
    try:
        host, external_port = await router.request()
        address = read_address([host, external_port])
        if address is None:
            raise PathUnavailable(f"the router has no address outside, but {host}")
        mapping = PortMapping(router, address)
        return mapping
    finally:
        if mapping is None:
            router.withdraw()


class _Router:
    """The router's mapping for one port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._external_port = port
        self._client: Any = None
        self._lock = threading.Lock()
        self._withdrawn = False

    async def request(self) -> tuple[str, int]:
        """Request or renew the mapping; return its public address. Raises PathUnavailable."""
        return await asyncio.to_thread(self._request)

    def withdraw(self) -> asyncio.Future[None]:
        """Start to delete the mapping, now or as soon as it is made. Call it once; waiting is optional."""
        self._withdrawn = True
        return asyncio.get_running_loop().run_in_executor(None, self._delete)

    def _request(self) -> tuple[str, int]:
        with self._lock:
            if self._withdrawn:
                raise PathUnavailable("the port mapping was withdrawn")
            try:
                if self._client is None:
                    self._client = _discover()
                host = self._client.externalipaddress()
                self._add()
            except PathUnavailable:
                raise
            except Exception as error:  # the library has no class for its errors
                raise PathUnavailable(f"the router gives no port by UPnP: {error}") from None
            return host, self._external_port

    def _add(self) -> None:
        for tries in range(_TRIES):
            try:
                # no remote host: the peer's address is not known
                self._client.addportmapping(
                    self._external_port, "TCP", self._client.lanaddr, self._port, _DESCRIPTION, "", LEASE_S
                )
                return
            except Exception:
                if tries == _TRIES - 1:
                    raise
                self._external_port = random.randrange(
                    20_000, 60_000
                )  # the number may be in use by another machine

    def _delete(self) -> None:
        with self._lock:
            if self._client is not None:
                try:
                    self._client.deleteportmapping(self._external_port, "TCP", "")
                except Exception:  # the router removes it when the lease ends
                    return


def _discover() -> Any:
    try:
        library = importlib.import_module("miniupnpc")
    except ImportError:
        raise PathUnavailable("UPnP needs miniupnpc: pip install 'duetlink[upnp]'") from None
    client = library.UPnP()
    client.discoverdelay = _DISCOVERY_MS
    client.discover()
    client.selectigd()
    return client
