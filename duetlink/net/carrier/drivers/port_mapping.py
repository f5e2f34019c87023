"""A port of the router that leads to one of ours, by UPnP (Internet Gateway Device), if the user allows it.

miniupnpc blocks, so it runs on threads. A port is asked for a short time only, again and again: nothing is
left for long of a killed process.
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
_TRIES = 3  # of port numbers


class PortMapping:
    """Kept until it is closed. `address` is where a peer may dial."""

    def __init__(self, router: _Router, address: Address) -> None:
        self.address = address
        self._router = router
        self._renewing = asyncio.ensure_future(self._renew())

    async def close(self) -> None:
        """Give the port back, as far as that is done in a moment."""
        self._renewing.cancel()
        await asyncio.wait((self._router.withdraw(),), timeout=_CLOSE_TIMEOUT_S)

    async def _renew(self) -> None:
        while True:
            await asyncio.sleep(LEASE_S / 2)
            with contextlib.suppress(PathUnavailable):  # there is time for another try
                await self._router.request()


async def map_port(port: int) -> PortMapping:
    """Ask the router for a port outside that leads to `port` here.

    Takes about a second where no router answers; a cancelled call leaves nothing behind.

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
    """What a router gives for one port of this machine."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._external_port = port
        self._client: Any = None
        self._lock = threading.Lock()
        self._withdrawn = False

    async def request(self) -> tuple[str, int]:
        """Ask for the mapping, or for more time; returns where it is outside. Raises PathUnavailable."""
        return await asyncio.to_thread(self._request)

    def withdraw(self) -> asyncio.Future[None]:
        """Begin to give back what was given or may yet be. Once; nobody has to wait for it."""
        self._withdrawn = True
        return asyncio.get_running_loop().run_in_executor(None, self._delete)

    def _request(self) -> tuple[str, int]:
        with self._lock:
            if self._withdrawn:
                raise PathUnavailable("the port is not wanted any more")
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
                self._external_port = random.randrange(20_000, 60_000)  # it may be somebody else's

    def _delete(self) -> None:
        with self._lock:
            if self._client is not None:
                try:
                    self._client.deleteportmapping(self._external_port, "TCP", "")
                except Exception:  # the router forgets it after its time
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
