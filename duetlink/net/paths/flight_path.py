"""The common part of all paths that carry Flight: tickets on the sender, a Flight client on the receiver."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import ClassVar, TypeVar

from duetlink.base.wire import schema_pb2 as pb
from duetlink.errors import PathUnavailable, TransferFailed
from duetlink.net.flight.body import Outgoing, ReceiveBuffer
from duetlink.net.flight.client import FlightClient
from duetlink.net.flight.sending import Order
from duetlink.net.paths.base import Path, PathContext

T = TypeVar("T")

# Limits the wait for an aborted call: one that has not begun cannot be aborted, and over a dead path it
# begins only after minutes.
_ABORT_S = 2.0


class FlightPath(Path):
    """A path that carries Flight. A subclass's `open` sets `self._client`."""

    # the fastest of 0.5, 1, 2 and 4 MiB for a body of 1 GiB over TLS on loopback
    chunk_bytes: ClassVar[int] = 2 * 1024 * 1024

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        self._client: FlightClient | None = None

    def _client_at(self, host: str, port: int) -> FlightClient:
        """Return a client that accepts only the peer's certificate at this address."""
        context = self._context
        return FlightClient(host, port, context.client, context.peer_certificate_pem, context.decoding)

    async def offer(self, transfer_id: bytes, outgoing: Outgoing, order: Order) -> pb.Ticket:
        ticket = self._context.tickets.issue(transfer_id, outgoing, order, most_chunk_bytes=self.chunk_bytes)
        return pb.Ticket(path=self.name, flight=ticket)

    def release(self, transfer_id: bytes) -> None:
        self._context.tickets.revoke(transfer_id)

    async def fetch(self, ticket: pb.Ticket, receive_buffer: ReceiveBuffer) -> None:
        client = self._client
        if client is None:
            raise PathUnavailable(f"path {self.name} is not open")
        if ticket.WhichOneof("way") != "flight":
            raise TransferFailed(f"the peer's ticket for path {self.name} is of another kind")
        await self._pull(client.fetch, ticket.flight, receive_buffer, receive_buffer.stop)

    async def follow(
        self, ticket: bytes, take: Callable[[bytes, memoryview], None], stop: Callable[[], None]
    ) -> None:
        """Receiver: call `take` on a thread with each record batch of the peer's feed, until the feed ends.

        If cancelled, `stop` is called, after which `take` must not block; `take` is not called again after
        this has returned.

        Raises:
            PathUnavailable, TicketRefused, RemoteProtocolError: see `FlightClient.follow`.
        """
        if self._client is None:
            raise PathUnavailable(f"path {self.name} is not open")
        await self._pull(self._client.follow, ticket, take, stop, patience_s=_ABORT_S)

    async def _pull(
        self,
        call: Callable[[bytes, T, Callable[[Callable[[], None]], None]], None],
        ticket: bytes,
        into: T,
        stop: Callable[[], None],
        patience_s: float | None = None,
    ) -> None:
        """Make a receiving call on a thread.

        If cancelled, abort it and wait at most `patience_s` for the thread.
        """
        abort: list[Callable[[], None]] = []
        pulling = asyncio.get_running_loop().run_in_executor(
            self._context.waiting, call, ticket, into, abort.append
        )
        pulling.add_done_callback(_retrieve_error)
        try:
            await asyncio.shield(pulling)
        except asyncio.CancelledError:
            stop()
            for cancel in abort:
                cancel()
            with contextlib.suppress(
                Exception
            ):  # until the thread returns, it passes on what it has received
                await asyncio.wait_for(asyncio.shield(pulling), patience_s)
            raise

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.close()


def _retrieve_error(pulling: asyncio.Future[None]) -> None:
    if not pulling.cancelled():
        pulling.exception()  # mark the error as retrieved: the caller may have been cancelled
