"""What the paths that carry Flight share: tickets on one side, a pulling client on the other."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ClassVar

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import PathUnavailable, TransferFailed
from duetlink.net.flight.body import Landing, Outgoing
from duetlink.net.flight.client import FlightClient
from duetlink.net.flight.sending import Order
from duetlink.net.paths.base import Path, PathContext


class FlightPath(Path):
    """A path over which Flight is spoken. A subclass's `open` sets `self._client`."""

    # of 0.5, 1, 2, 4 MiB the fastest for 1 GiB over TLS on loopback
    chunk_bytes: ClassVar[int] = 2 * 1024 * 1024

    def __init__(self, context: PathContext) -> None:
        self._context = context
        self._client: FlightClient | None = None

    async def offer(self, transfer_id: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        ticket = self._context.tickets.issue(transfer_id, outgoing, order, most_chunk_bytes=self.chunk_bytes)
        return pb.Ticket(path=self.name, flight=ticket)

    def release(self, transfer_id: bytes) -> None:
        self._context.tickets.revoke(transfer_id)

    async def fetch(self, ticket: pb.Ticket, landing: Landing) -> None:
        client = self._client
        if client is None:
            raise PathUnavailable(f"path {self.name} is not open")
        if ticket.WhichOneof("way") != "flight":
            raise TransferFailed(f"the peer's ticket for path {self.name} is of another kind")
        abort: list[Callable[[], None]] = []
        pulling = asyncio.get_running_loop().run_in_executor(
            self._context.waiting, client.fetch, ticket.flight, landing, abort.append
        )
        try:
            await asyncio.shield(pulling)
        except asyncio.CancelledError:
            landing.stop()
            for cancel in abort:
                cancel()
            with contextlib.suppress(Exception):
                await pulling  # the thread writes into the landing until it returns
            raise

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.close()
