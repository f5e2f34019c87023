"""A port of the router that leads to one of ours, where the user allows to ask for it.

PCP, NAT-PMP and UPnP are tried at once; the first that gives a port is taken, and what another gives is given
back. A port is asked for a short time only, again and again: nothing is left for long of a killed process.
"""

from __future__ import annotations

import asyncio
import contextlib
import secrets
from collections.abc import Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from duetlink.errors import PathUnavailable
from duetlink.net.carrier import pcp
from duetlink.net.carrier.address import Address, read_address
from duetlink.net.carrier.gateway import find_gateway
from duetlink.net.carrier.pcp import Grant
from duetlink.net.carrier.upnp import Upnp

LEASE_S = 1200
_MIN_RENEWAL_S = 30.0
_CLOSE_TIMEOUT_S = 0.7

# RFC 6886 §3.1 begins with 250 ms as well, but goes on for over a minute
_PAUSES_S = (0.25, 0.5)

_T = TypeVar("_T")


class Asking(Protocol):
    """One way to ask for one port."""

    async def request(self, lifetime_s: int) -> Grant:
        """Ask for the mapping, or for more time. Raises PathUnavailable."""

    def withdraw(self) -> asyncio.Future[None]:
        """Begin to give back what was given or may yet be. Once; nobody has to wait for it."""


class PortMapping:
    """Kept until it is closed. `address` is where a peer may dial."""

    def __init__(self, asking: Asking, address: Address, lifetime_s: int) -> None:
        self.address = address
        self._asking = asking
        self._renewing = asyncio.ensure_future(self._renew(lifetime_s))

    async def close(self) -> None:
        """Give the port back, as far as that is done in a moment."""
        self._renewing.cancel()
        await asyncio.wait((self._asking.withdraw(),), timeout=_CLOSE_TIMEOUT_S)

    async def _renew(self, lifetime_s: int) -> None:
        while True:
            await asyncio.sleep(max(lifetime_s / 2, _MIN_RENEWAL_S))
            with contextlib.suppress(PathUnavailable):  # there is time for another try
                await self._asking.request(LEASE_S)


async def map_port(port: int, gateway: Address | None = None) -> PortMapping:
    """Ask the router, by default this machine's, for a port outside that leads to `port` here.

    Takes some two seconds where nobody answers; a cancelled call leaves nothing behind.

    Raises:
        PathUnavailable: it gives none; the message says why.
    """
    if gateway is None and (host := find_gateway()) is not None:
        gateway = host, pcp.PORT
    ways: list[Asking] = [Upnp(port)]
    if gateway is not None:
        ways.append(await Datagrams.open(port, gateway))
    asked = {asyncio.ensure_future(way.request(LEASE_S)): way for way in ways}
    whys = []
    taken: Asking | None = None
    try:
        pending = set(asked)
        while pending:
            done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                error = task.exception()
                if error is not None:
                    whys.append(str(error))
                    continue
                grant = task.result()
                address = read_address([grant.host, grant.port])
                if address is None:
                    whys.append(f"the router has no address outside, but {grant.host}")
                    continue
                taken = asked[task]
                return PortMapping(taken, address, grant.lifetime_s)
    finally:
        for task, way in asked.items():
            task.cancel()
            if way is not taken:
                way.withdraw()
    raise PathUnavailable("; ".join(whys))


class Datagrams(asyncio.DatagramProtocol):
    """By PCP, or by NAT-PMP where the gateway does not answer that."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._external_port = port  # the one to ask for: a NAT often keeps it anyway
        self._nonce = secrets.token_bytes(pcp.NONCE_BYTES)
        self._nat_pmp = False
        self._transport: asyncio.DatagramTransport
        self._host = ""
        self._take: Callable[[bytes], None] = lambda data: None

    @classmethod
    async def open(cls, port: int, gateway: Address) -> Datagrams:
        loop = asyncio.get_running_loop()
        transport, protocol = await loop.create_datagram_endpoint(lambda: cls(port), remote_addr=gateway)
        protocol._transport = transport
        protocol._host = transport.get_extra_info("sockname")[0]
        return protocol

    async def request(self, lifetime_s: int) -> Grant:
        if not self._nat_pmp:
            try:
                return self._granted(await self._ask(*self._pcp(lifetime_s)))
            except (pcp.OnlyNatPmp, TimeoutError):
                self._nat_pmp = True
        try:
            host = await self._ask(pcp.nat_pmp_address_request(), pcp.read_nat_pmp_address)
            grant = await self._ask(*self._older(lifetime_s))
        except TimeoutError:
            raise PathUnavailable("the router answers neither PCP nor NAT-PMP") from None
        return self._granted(Grant(grant.port, grant.lifetime_s, host))

    def withdraw(self) -> asyncio.Future[None]:
        # both, as it may not be known which of them has been understood
        self._send(self._pcp(0)[0])
        self._send(pcp.nat_pmp_request(self._port, 0, 0))
        self._transport.close()
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    def _pcp(self, lifetime_s: int) -> tuple[bytes, Callable[[bytes], Grant | None]]:
        request = pcp.pcp_request(self._nonce, self._host, self._port, self._external_port, lifetime_s)
        return request, partial(pcp.read_pcp, nonce=self._nonce, port=self._port)

    def _older(self, lifetime_s: int) -> tuple[bytes, Callable[[bytes], Grant | None]]:
        request = pcp.nat_pmp_request(self._port, self._external_port, lifetime_s)
        return request, partial(pcp.read_nat_pmp, port=self._port)

    def _granted(self, grant: Grant) -> Grant:
        self._external_port = grant.port
        return grant

    async def _ask(self, request: bytes, read: Callable[[bytes], _T | None]) -> _T:
        """The first answer that `read` takes. Raises TimeoutError, or what `read` raises of a refusal."""
        answered: asyncio.Future[_T] = asyncio.get_running_loop().create_future()

        def take(data: bytes) -> None:
            if answered.done():
                return
            try:
                answer = read(data)
            except PathUnavailable as error:
                answered.set_exception(error)
            else:
                if answer is not None:
                    answered.set_result(answer)

        self._take = take
        for pause_s in _PAUSES_S:
            self._send(request)
            done, _ = await asyncio.wait((answered,), timeout=pause_s)
            if done:
                return answered.result()
        raise TimeoutError

    def _send(self, data: bytes) -> None:
        with contextlib.suppress(OSError):
            self._transport.sendto(data)

    # -- asyncio.DatagramProtocol ----------------------------------------------------------------------------

    def datagram_received(self, data: bytes, addr: Any) -> None:
        self._take(data)
