"""The Flight server of one side: mutual TLS with the peer's pinned certificate, DoGet by ticket, no more.

Everything else that Flight offers (listing, DoPut, DoExchange, schemas) stays unimplemented and is refused by
pyarrow. A stranger without the peer's key does not get through the TLS handshake, and leaves no line on
standard error; gRPC does not tell how many there were.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Executor

import pyarrow as pa
from pyarrow import flight

from duetlink.data.tuning import RateCap
from duetlink.errors import AssetChanged, PathUnavailable, TicketRefused
from duetlink.net.flight.certificate import Identity
from duetlink.net.flight.receiving import CODED
from duetlink.net.flight.sending import Sending
from duetlink.net.flight.silence import silenced
from duetlink.net.flight.tickets import Admission, TicketTable

# One column of bytes: a batch's body is a block, as it lies in the sender's memory, or, where the batch's
# metadata says so, an encoded one.
SCHEMA = pa.schema([pa.field("chunk", pa.uint8(), nullable=False)])

PROBE = "probe"
CHANGED = "duetlink: the content changed"


class FlightServer(flight.FlightServerBase):  # type: ignore[misc] # pyarrow has no type information
    """Serves the bodies in a ticket table to the one peer whose certificate it pins.

    Starts listening when constructed (some milliseconds, blocking) and serves on gRPC's own threads until
    `close`, which blocks too.
    """

    def __init__(
        self,
        identity: Identity,
        peer_certificate_pem: bytes,
        tickets: TicketTable,
        pool: Executor,
        rate_cap: RateCap,
        *,
        on_bytes: Callable[[bytes, int, int], None] = lambda transfer_id, raw_bytes, wire_bytes: None,
        on_changed: Callable[[bytes], None] = lambda transfer_id: None,
        host: str = "0.0.0.0",
    ) -> None:
        self._tickets = tickets
        self._pool = pool
        self._rate_cap = rate_cap
        self._on_bytes = on_bytes
        self._on_changed = on_changed
        try:
            with silenced():
                super().__init__(
                    f"grpc+tls://{host}:0",
                    tls_certificates=[(identity.certificate_pem, identity.private_key_pem)],
                    verify_client=True,
                    root_certificates=peer_certificate_pem,
                )
        except (pa.ArrowException, OSError) as error:
            raise PathUnavailable(f"no Flight server can listen on {host}: {error}") from None

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.GeneratorStream:
        try:
            admission = self._tickets.redeem(ticket.ticket)
        except TicketRefused as error:
            raise flight.FlightUnauthorizedError(str(error)) from None
        return flight.GeneratorStream(SCHEMA, self._batches(admission, context))

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """`probe`: an authenticated round trip, by which the peer learns that a path works."""
        if action.type != PROBE:
            raise NotImplementedError(action.type)
        return iter([b"ok"])

    def close(self) -> None:
        """Stop listening, abort what is being served, wait for gRPC's threads."""
        self.shutdown()
        self.wait()

    def _batches(
        self, admission: Admission, context: flight.ServerCallContext
    ) -> Iterator[pa.RecordBatch | tuple[pa.RecordBatch, bytes]]:
        # runs on a gRPC thread, with the GIL for the few instructions per parcel
        sending = Sending(
            admission.outgoing,
            admission.order,
            self._pool,
            self._rate_cap,
            admission.most_chunk_bytes,
            context.is_cancelled,
        )
        try:
            for parcel in sending.parcels():
                buffer = pa.py_buffer(parcel.data)
                column = pa.Array.from_buffers(pa.uint8(), len(parcel.data), [None, buffer])
                batch = pa.RecordBatch.from_arrays([column], schema=SCHEMA)
                yield (batch, CODED) if parcel.coded else batch
                self._on_bytes(admission.transfer_id, parcel.raw_bytes, len(parcel.data))
        except AssetChanged:
            self._on_changed(admission.transfer_id)
            raise flight.FlightServerError(CHANGED) from None
