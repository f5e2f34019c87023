"""The Flight client: connects to the peer at the address that a path gives, and pulls bodies.

Its calls block, as pyarrow's do, so paths call them on their I/O threads. The GIL is released while it waits
and copies.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable

import pyarrow as pa
from pyarrow import flight

from duetlink.errors import AssetChanged, PathUnavailable, RemoteProtocolError, TicketRefused, TransferFailed
from duetlink.net.flight import freed_memory
from duetlink.net.flight.body import ReceiveBuffer
from duetlink.net.flight.certificate import HOST_NAME, Identity
from duetlink.net.flight.receiving import Decoding, Receiving
from duetlink.net.flight.server import CHANGED, PROBE, SCHEMA
from duetlink.net.flight.silence import silenced

# The HTTP/2 window; without it a first transfer starts with 64 KiB and waits for gRPC's estimates.
_LOOKAHEAD_BYTES = 16 * 1024 * 1024

_NEVER_MS = 2**31 - 1

_MOST_MESSAGE_BYTES = 16 * 1024 * 1024


class FlightClient:
    """A mutually authenticated connection to the peer's Flight server at one address."""

    def __init__(
        self,
        host: str,
        port: int,
        identity: Identity,
        peer_certificate_pem: bytes,
        decoding: Decoding,
    ) -> None:
        self._decoding = decoding
        self.address = f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
        freed_memory.keep()
        with silenced():
            self._client = flight.FlightClient(
                f"grpc+tls://{self.address}",
                tls_root_certs=peer_certificate_pem,
                cert_chain=identity.certificate_pem,
                private_key=identity.private_key_pem,
                override_hostname=HOST_NAME,
                generic_options=[
                    ("grpc.http2.lookahead_bytes", _LOOKAHEAD_BYTES),
                    # one connection per client: the next client must not reuse that of a dead path
                    ("grpc.use_local_subchannel_pool", 1),
                    # blocks and batches are smaller; gRPC's own limit would be 2 GiB
                    ("grpc.max_receive_message_length", _MOST_MESSAGE_BYTES),
                    # a channel path accepts only one connection
                    ("grpc.client_idle_timeout_ms", _NEVER_MS),
                    # ignore the environment's proxy: it would be another path
                    ("grpc.enable_http_proxy", 0),
                ],
            )

    def probe(self, timeout_s: float) -> None:
        """Make one authenticated round trip. Raises PathUnavailable."""
        try:
            options = flight.FlightCallOptions(timeout=timeout_s)
            list(self._client.do_action(flight.Action(PROBE, b""), options))
        except (pa.ArrowException, OSError) as error:
            raise PathUnavailable(
                f"no Flight server of the peer at {self.address}: {_brief(error)}"
            ) from None

    def fetch(
        self, ticket: bytes, receive_buffer: ReceiveBuffer, on_reader: Callable[[Callable[[], None]], None]
    ) -> None:
        """Pull the body of `ticket` into `receive_buffer`, from its position on, until it ends or is stopped.

        `on_reader` is given a function that aborts the transfer from another thread.

        Raises:
            PathUnavailable: the connection broke; the buffer keeps all complete chunks.
            TicketRefused: the peer does not know the ticket, or no longer.
            TransferFailed: the peer sent something that it did not announce.
            AssetChanged: the peer found that its content has changed since the offer.
        """
        try:
            reader = self._client.do_get(flight.Ticket(ticket))
            on_reader(reader.cancel)
            if not reader.schema.equals(SCHEMA):
                raise TransferFailed(f"the peer's Flight stream has schema {str(reader.schema)[:200]!r}")
            Receiving(reader, receive_buffer, self._decoding).receive()
            if receive_buffer.stopped:
                reader.cancel()
        except flight.FlightUnauthorizedError as error:
            raise TicketRefused(_brief(error)) from None
        except (pa.ArrowException, OSError) as error:
            if isinstance(error, TransferFailed):
                raise
            if CHANGED in str(error):
                raise AssetChanged(
                    "the content changed at its owner since it was shared; the owner should share it again"
                ) from None
            if not receive_buffer.stopped:
                raise PathUnavailable(f"Flight over {self.address} broke: {_brief(error)}") from None

    def follow(
        self,
        ticket: bytes,
        take: Callable[[bytes, memoryview], None],
        on_reader: Callable[[Callable[[], None]], None],
    ) -> None:
        """Call `take` with each batch of the peer's feed (table, bodies), until the feed ends.

        `on_reader` is given a function that ends it from another thread.

        Raises:
            PathUnavailable: the connection broke, or this side ended the feed.
            TicketRefused: the peer does not know the ticket, or no longer.
            RemoteProtocolError: the peer sent something other than batches of frames.
        """
        try:
            reader = self._client.do_get(flight.Ticket(ticket))
            on_reader(reader.cancel)
            if not reader.schema.equals(SCHEMA):
                raise RemoteProtocolError(f"the peer's feed has schema {str(reader.schema)[:200]!r}")
            while True:
                try:
                    batch, metadata = reader.read_chunk()
                except StopIteration:
                    return
                if batch is None or metadata is None or batch.column(0).null_count:
                    raise RemoteProtocolError("the peer's feed contains a malformed batch")
                column = batch.column(0)
                bodies = memoryview(column.buffers()[1] or b"")
                take(metadata.to_pybytes(), bodies[column.offset : column.offset + len(column)])
        except flight.FlightUnauthorizedError as error:
            raise TicketRefused(_brief(error)) from None
        except (pa.ArrowException, OSError) as error:
            raise PathUnavailable(f"Flight over {self.address} broke: {_brief(error)}") from None

    def close(self) -> None:
        with contextlib.suppress(pa.ArrowException):
            self._client.close()


def _brief(error: BaseException) -> str:
    """Return the first sentence of gRPC's long error texts."""
    return str(error).split(". gRPC client debug context", 1)[0].split("\n", 1)[0][:300]
