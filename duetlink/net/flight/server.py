"""The Flight server of an endpoint: mutual TLS with the peers of its links, and DoGet by ticket.

All other operations of Flight (listing, DoPut, DoExchange, schemas) are not implemented, and pyarrow refuses
them. A client without a peer's key fails the TLS handshake, and leaves no line on standard error; gRPC does
not report how many there were. `doorkeeper.py` limits their number.
"""

from __future__ import annotations

import ipaddress
import weakref
from collections.abc import Iterator
from concurrent.futures import Executor

import pyarrow as pa
from pyarrow import flight

from duetlink.base.runtime.forks import in_child
from duetlink.errors import AssetChanged, LimitExceeded, PathUnavailable, TicketRefused
from duetlink.net.fixed_port import check_free
from duetlink.net.flight import freed_memory
from duetlink.net.flight.certificate import Identity
from duetlink.net.flight.doorkeeper import Doorkeeper
from duetlink.net.flight.guest import Guest
from duetlink.net.flight.receiving import CODED
from duetlink.net.flight.sending import Sending, rest
from duetlink.net.flight.silence import silenced
from duetlink.net.flight.tickets import REFUSED, Admission, Feed

# One column of bytes: a batch is a block as it is in the sender's memory, or an encoded one if the batch's
# metadata says so.
SCHEMA = pa.schema([pa.field("chunk", pa.uint8(), nullable=False)])

PROBE = "probe"
CHANGED = "duetlink: the content changed"


class FlightServer:
    """Serves each guest the bodies for which that guest has tickets.

    It listens when constructed (which blocks for some milliseconds), and serves on gRPC's own threads until
    `close`, which blocks too.
    """

    def __init__(
        self,
        identity: Identity,
        client_root_pem: bytes,
        pool: Executor,
        *,
        host: str = "0.0.0.0",
        port: int = 0,
    ) -> None:
        """`client_root_pem`: the authority whose certificates name the guests, see certificate.py.

        `host`: an IP address; "::" includes IPv4. `port`: 0 for any free one.
        """
        freed_memory.keep()
        self._pool = pool
        self._guests: dict[bytes, Guest] = {}
        try:
            # gRPC does not say why it cannot listen, and after a failure pyarrow does not free all that it
            # made
            if port or not ipaddress.ip_address(host).is_unspecified:
                check_free(host, port)
            with silenced():
                self._service: _Service | None = _Service(
                    self,
                    f"grpc+tls://[{host}]:{port}" if ":" in host else f"grpc+tls://{host}:{port}",
                    tls_certificates=[(identity.certificate_pem, identity.private_key_pem)],
                    verify_client=True,
                    root_certificates=client_root_pem,
                )
        except (pa.ArrowException, OSError) as error:
            at = f"{host}, port {port}" if port else host
            raise PathUnavailable(f"no Flight server can listen on {at}: {error}") from None

        self.host = host
        self.port: int = self._service.port
        self._doorkeeper = Doorkeeper(self.port)

    @property
    def everywhere(self) -> bool:
        """True if it listens on all addresses of this machine."""
        return ipaddress.ip_address(self.host).is_unspecified

    @property
    def host_here(self) -> str:
        """The address by which this machine reaches it."""
        return "127.0.0.1" if self.everywhere else self.host

    def admit(self, subject: bytes, guest: Guest) -> None:
        """Serve clients with a certificate of this name as `guest` from here on."""
        self._guests[subject] = guest

    def dismiss(self, subject: bytes) -> None:
        """Stop serving this guest and close its connections. Blocks for a moment."""
        if self._guests.pop(subject, None) is not None:
            self._doorkeeper.hang_up(subject)

    def get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        try:
            guest = self._guest(context)
            feed = guest.tickets.redeem_feed(ticket.ticket)
            if feed is not None:
                return flight.GeneratorStream(SCHEMA, self._feed_batches(guest, feed, context))
            admission = guest.tickets.redeem(ticket.ticket)
        except TicketRefused as error:
            raise flight.FlightUnauthorizedError(str(error)) from None
        return flight.GeneratorStream(SCHEMA, self._batches(guest, admission, context))

    def act(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """Answer `probe`, an authenticated round trip with which the peer checks that a path works."""
        if action.type != PROBE:
            raise NotImplementedError(action.type)
        try:
            self._guest(context)
        except TicketRefused as error:
            raise flight.FlightUnauthorizedError(str(error)) from None
        return iter([b"ok"])

    def _guest(self, context: flight.ServerCallContext) -> Guest:
        """Return the guest that is named in the caller's certificate, which this side's authority signed."""
        subject = context.peer_identity()
        guest = self._guests.get(subject)
        if guest is None:  # its link has closed; the answer is the same as for a wrong ticket
            raise TicketRefused(REFUSED)
        self._doorkeeper.admitted(context.peer(), subject)
        return guest

    def close(self) -> None:
        """Stop listening, abort running calls, and wait for gRPC's threads. Safe to call twice.

        gRPC's own server is freed here, although this object may live on in a closed link: an interpreter
        that exits while one exists waits for 2 s (`grpc_wait_for_shutdown_with_timeout`).
        """
        service, self._service = self._service, None
        if service is None:
            return
        for subject in list(self._guests):  # a stream to a peer that does not read would not end
            self._doorkeeper.hang_up(subject)
        self._doorkeeper.close()
        service.shutdown()
        service.wait()

    def _batches(
        self, guest: Guest, admission: Admission, context: flight.ServerCallContext
    ) -> Iterator[pa.RecordBatch | tuple[pa.RecordBatch, bytes]]:
        # runs on a gRPC thread; holds the GIL only for a few instructions per batch
        sending = Sending(
            admission.outgoing,
            admission.order,
            self._pool,
            guest.rate_cap,
            admission.most_chunk_bytes,
            context.is_cancelled,
        )
        try:
            with guest.stream():
                for batch in sending.batches():
                    record = _batch(batch.data)
                    yield (record, CODED) if batch.coded else record
                    guest.on_bytes(admission.transfer_id, batch.raw_bytes, len(batch.data))
        except LimitExceeded as error:
            raise flight.FlightUnavailableError(str(error)) from None
        except AssetChanged:
            guest.on_changed(admission.transfer_id)
            raise flight.FlightServerError(CHANGED) from None

    def _feed_batches(
        self, guest: Guest, feed: Feed, context: flight.ServerCallContext
    ) -> Iterator[tuple[pa.RecordBatch, bytes]]:
        try:
            with guest.stream():
                for table, bodies in feed.batches():
                    rest(guest.rate_cap, len(bodies), context.is_cancelled)
                    yield _batch(bodies), table
        except LimitExceeded as error:
            raise flight.FlightUnavailableError(str(error)) from None


_services: weakref.WeakSet[_Service] = weakref.WeakSet()


def _leave_to_the_parent() -> None:
    """Remove pyarrow's finalizers in a forked child.

    At exit they would wait for threads of gRPC that the child does not have.
    """
    for service in _services:
        for reference in weakref.getweakrefs(service):
            if isinstance(finalizer := reference.__callback__, weakref.finalize):
                finalizer.detach()


class _Service(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no type information
    """The object that gRPC calls while the server is open."""

    def __init__(self, server: FlightServer, *arguments: object, **settings: object) -> None:
        self._server = server
        super().__init__(*arguments, **settings)
        in_child(_leave_to_the_parent)
        _services.add(self)

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        return self._server.get(context, ticket)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        return self._server.act(context, action)


def _batch(data: bytes | memoryview) -> pa.RecordBatch:
    """Return a record batch that refers to these bytes, without a copy."""
    column = pa.Array.from_buffers(pa.uint8(), len(data), [None, pa.py_buffer(data)])
    return pa.RecordBatch.from_arrays([column], schema=SCHEMA)
