"""The path `tcp`: Flight dials the peer's own address, if that is reachable (LAN, VPN, one host)."""

from __future__ import annotations

import asyncio
import ipaddress
from typing import ClassVar

from duetlink.base.events import Address, AddressDialled, Word
from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import DuetError, PathUnavailable
from duetlink.net.flight.client import FlightClient
from duetlink.net.paths.base import PathContext
from duetlink.net.paths.flight_path import FlightPath
from duetlink.net.stun import ice

MAX_HOSTS = 8

# A connection attempt without an answer would otherwise wait a minute.
DIAL_TIMEOUT_S = 3.0


class TcpPath(FlightPath):
    """Flight over a TCP connection of its own to the peer."""

    name: ClassVar[str] = "tcp"
    query = pb.FlightAddressQuery

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        context.rpc.handle(pb.FlightAddressQuery, self._where)

    async def open(self) -> None:
        try:
            where = await self._context.rpc.call(pb.FlightAddressQuery(), pb.FlightAddress)
        except DuetError as error:
            raise PathUnavailable(f"the peer gave no address: {error}") from None
        hosts = [host for host in where.hosts[:MAX_HOSTS] if _is_unicast(host)]
        if not hosts or not 0 < where.port < 65536:
            raise PathUnavailable("the peer has no address that could be dialled")
        dials = [asyncio.ensure_future(self._dial(host, where.port)) for host in hosts]
        failures: list[str] = []
        try:
            for next_done in asyncio.as_completed(dials):
                try:
                    client = await next_done
                except PathUnavailable as error:
                    failures.append(str(error))
                    continue
                await self.close()
                self._client = client
                return
        finally:
            for dial in dials:
                dial.add_done_callback(self._close_loser)
        raise PathUnavailable("; ".join(failures))

    async def _dial(self, host: str, port: int) -> FlightClient:
        def dial() -> FlightClient:
            client = self._client_at(host, port)
            error: type[PathUnavailable] | None = None
            try:
                client.probe(DIAL_TIMEOUT_S)
            except PathUnavailable as caught:
                error = type(caught)
                client.close()
                raise
            finally:
                address = Address(f"{host} port {port}")
                self._context.sink.emit(AddressDialled(Word(self.name), address, error))
            return client

        return await asyncio.get_running_loop().run_in_executor(self._context.waiting, dial)

    def _close_loser(self, dial: asyncio.Future[FlightClient]) -> None:
        if not dial.cancelled() and dial.exception() is None and dial.result() is not self._client:
            dial.result().close()

    async def _where(self, query: pb.FlightAddressQuery) -> pb.FlightAddress:
        server = await self._context.server
        addresses = ice.get_host_addresses(use_ipv4=True, use_ipv6=True) if server.everywhere else []
        return pb.FlightAddress(hosts=[*addresses[: MAX_HOSTS - 1], server.host_here], port=server.port)


def _is_unicast(host: str) -> bool:
    """Return True if `host` is an IP literal of one machine.

    Names are rejected: they are not resolved for a peer.
    """
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return False
    return not (address.is_multicast or address.is_unspecified or address.is_reserved)
