"""A port of the router by UPnP (Internet Gateway Device), with the library miniupnpc, which blocks."""

from __future__ import annotations

import asyncio
import importlib
import random
import threading
from typing import Any

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.pcp import Grant

_DISCOVERY_MS = 800
_DESCRIPTION = "duetlink"
_TRIES = 3  # of port numbers


class Upnp:
    """Of one port."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._external_port = port
        self._client: Any = None
        self._lock = threading.Lock()
        self._withdrawn = False

    async def request(self, lifetime_s: int) -> Grant:
        """Ask for the mapping, or for more time. Raises PathUnavailable."""
        return await asyncio.to_thread(self._request, lifetime_s)

    def withdraw(self) -> asyncio.Future[None]:
        """Begin to give it back. Once."""
        self._withdrawn = True
        return asyncio.get_running_loop().run_in_executor(None, self._delete)

    def _request(self, lifetime_s: int) -> Grant:
        with self._lock:
            if self._withdrawn:
                raise PathUnavailable("the port is not wanted any more")
            try:
                if self._client is None:
                    self._client = _discover()
                host = self._client.externalipaddress()
                self._add(lifetime_s)
            except PathUnavailable:
                raise
            except Exception as error:  # the library has no class for its errors
                raise PathUnavailable(f"the router gives no port by UPnP: {error}") from None
            return Grant(self._external_port, lifetime_s, host)

    def _add(self, lifetime_s: int) -> None:
        for tries in range(_TRIES):
            try:
                # no remote host: the peer's address is not known
                self._client.addportmapping(
                    self._external_port, "TCP", self._client.lanaddr, self._port, _DESCRIPTION, "", lifetime_s
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
