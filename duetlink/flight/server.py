"""The Flight server of one side: mutual TLS with the peer's pinned certificate, DoGet by ticket, no more.

Everything else that Flight offers (listing, DoPut, DoExchange, schemas) stays unimplemented and is refused by
pyarrow. A stranger without the peer's key does not get through the TLS handshake.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pyarrow as pa
from pyarrow import flight

from duetlink.errors import AssetChanged, PathUnavailable, TicketRefused
from duetlink.flight.certificate import Identity
from duetlink.flight.tickets import Admission, TicketTable

# One column of bytes: a batch's body is a chunk, as it lies in the sender's memory.
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
        *,
        on_bytes: Callable[[bytes, int], None] = lambda transfer_id, size_bytes: None,
        on_changed: Callable[[bytes], None] = lambda transfer_id: None,
        host: str = "0.0.0.0",
    ) -> None:
        self._tickets = tickets
        self._on_bytes = on_bytes
        self._on_changed = on_changed
        try:
            super().__init__(
                f"grpc+tls://{host}:0",
                tls_certificates=[(identity.certificate_pem, identity.private_key_pem)],
                verify_client=True,
                root_certificates=peer_certificate_pem,
            )
        except (pa.ArrowException, OSError) as error:
            raise PathUnavailable(f"no Flight server can listen on {host}: {error}") from None

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.RecordBatchStream:
        try:
            admission = self._tickets.redeem(ticket.ticket)
        except TicketRefused as error:
            raise flight.FlightUnauthorizedError(str(error)) from None
        batches = pa.RecordBatchReader.from_batches(SCHEMA, self._batches(admission))
        return flight.RecordBatchStream(batches)

    def do_action(self, context: flight.ServerCallContext, action: flight.Action) -> Iterator[bytes]:
        """`probe`: an authenticated round trip, by which the peer learns that a path works."""
        if action.type != PROBE:
            raise NotImplementedError(action.type)
        return iter([b"ok"])

    def close(self) -> None:
        """Stop listening, abort what is being served, wait for gRPC's threads."""
        self.shutdown()
        self.wait()

    def _batches(self, admission: Admission) -> Iterator[pa.RecordBatch]:
        # runs on a gRPC thread, with the GIL for the few instructions per chunk
        try:
            for chunk in admission.outgoing.chunks(admission.offset_bytes, admission.chunk_bytes):
                column = pa.Array.from_buffers(pa.uint8(), len(chunk), [None, pa.py_buffer(chunk)])
                yield pa.RecordBatch.from_arrays([column], schema=SCHEMA)
                self._on_bytes(admission.transfer_id, len(chunk))
        except AssetChanged:
            self._on_changed(admission.transfer_id)
            raise flight.FlightServerError(CHANGED) from None
