"""An array by pyarrow's Flight as it is, between two processes, with mutual TLS as ours or without."""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection

import numpy as np
import pyarrow as pa
from pyarrow import flight

from duetlink.net.flight.certificate import HOST_NAME, Identity, create_identity


class BareFlight:
    """A pyarrow.flight server in another process and its client: DoGet, nothing of duetlink."""

    def __init__(self, items: int, batch_mib: int, *, tls: bool = True) -> None:
        self._items = items
        server, client = create_identity(), create_identity()
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        self._process = context.Process(
            target=_serve, args=(there, server, client.certificate_pem, items, batch_mib, tls), daemon=True
        )
        self._process.start()
        assert self._process.pid is not None
        self.pid = self._process.pid
        port = self._pipe.recv()
        if not tls:
            self._client = flight.FlightClient(f"grpc://127.0.0.1:{port}")
            return
        self._client = flight.FlightClient(
            f"grpc+tls://127.0.0.1:{port}",
            tls_root_certs=server.certificate_pem,
            cert_chain=client.certificate_pem,
            private_key=client.private_key_pem,
            override_hostname=HOST_NAME,
        )

    def get(self) -> pa.Table:
        """All items, as float64."""
        table = self._client.do_get(flight.Ticket(b"")).read_all()
        assert table.num_rows == self._items
        return table

    def close(self) -> None:
        self._client.close()
        self._pipe.send(None)
        self._process.join(20)


def _serve(
    pipe: Connection, identity: Identity, peer_pem: bytes, items: int, batch_mib: int, tls: bool
) -> None:
    values = np.random.default_rng(1).random(items)
    rows = batch_mib * 2**20 // 8
    table = pa.table(
        {"values": pa.chunked_array([values[i : i + rows] for i in range(0, len(values), rows)])}
    )

    class Server(flight.FlightServerBase):  # type: ignore[misc]
        def do_get(self, context: object, ticket: object) -> flight.RecordBatchStream:
            return flight.RecordBatchStream(table)

    if tls:
        server = Server(
            "grpc+tls://127.0.0.1:0",
            tls_certificates=[(identity.certificate_pem, identity.private_key_pem)],
            verify_client=True,
            root_certificates=peer_pem,
        )
    else:
        server = Server("grpc://127.0.0.1:0")
    pipe.send(server.port)
    pipe.recv()
    server.shutdown()
