"""What the paths that carry Flight share: tickets on one side, a pulling client on the other."""

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

# A call that has not begun yet cannot be aborted, and over a dead path it begins after minutes.
_ABORT_S = 2.0


class FlightPath(Path):
    """A path over which Flight is spoken. A subclass's `open` sets `self._client`."""

    # of 0.5, 1, 2, 4 MiB the fastest for 1 GiB over TLS on loopback
    chunk_bytes: ClassVar[int] = 2 * 1024 * 1024

    def __init__(self, context: PathContext) -> None:
        super().__init__(context)
        self._client: FlightClient | None = None

    def _client_at(self, host: str, port: int) -> FlightClient:
        """A client that takes nobody but the peer for the server there."""
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
        """Receiver: hand every parcel of the peer's feed to `take`, on a thread, until it ends. If cancelled,
        `stop` is called, and `take` must not wait any more; nothing is handed over after that.

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
        """Make a call that receives, on a thread; if cancelled, abort it and wait for the thread, so long."""
        abort: list[Callable[[], None]] = []
        pulling = asyncio.get_running_loop().run_in_executor(
            self._context.waiting, call, ticket, into, abort.append
        )
        pulling.add_done_callback(_look)
        try:
            await asyncio.shield(pulling)
        except asyncio.CancelledError:
            stop()
            for cancel in abort:
                cancel()
            with contextlib.suppress(Exception):  # the thread hands over what it has until it returns
                await asyncio.wait_for(asyncio.shield(pulling), patience_s)
            raise

    async def close(self) -> None:
        if self._client is not None:
            client, self._client = self._client, None
            client.close()


def _look(pulling: asyncio.Future[None]) -> None:
    if not pulling.cancelled():
        pulling.exception()  # it may be that nobody waits any more
