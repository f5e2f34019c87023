"""An array over plain gRPC: a grpcio server in a process of its own, its client, protobuf `bytes` in between.

The message is protobuf's own `BytesValue`. Two ways: one message with all of it (unary), and a stream of
messages of 1 MiB, which was the fastest of 64 KiB, 256 KiB, 1 MiB and 4 MiB. Limits on sizes are lifted, and
the receiver's window is the one that duetlink's Flight client has.
"""

from __future__ import annotations

import multiprocessing
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from typing import Any

import grpc
import numpy as np
from google.protobuf.wrappers_pb2 import BytesValue

from benchmarks.owner import array
from duetlink.net.flight.certificate import HOST_NAME, Identity, create_identity

PIECE_BYTES = 1 << 20
_SERVICE = "benchmarks.Array"
_OPTIONS = [
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.http2.lookahead_bytes", 16 << 20),
]


class GrpcArray:
    """Serves one float32 array, and fetches it; with mutual TLS, as duetlink's Flight has it, or without."""

    def __init__(self, *, tls: bool) -> None:
        server, client = create_identity(), create_identity()
        context = multiprocessing.get_context("spawn")
        self._pipe, there = context.Pipe()
        peers = (server, client.certificate_pem) if tls else None
        self._process = context.Process(target=_serve, args=(there, peers), daemon=True)
        self._process.start()
        address = f"127.0.0.1:{self._pipe.recv()}"
        if tls:
            credentials = grpc.ssl_channel_credentials(
                server.certificate_pem, client.private_key_pem, client.certificate_pem
            )
            options = [*_OPTIONS, ("grpc.ssl_target_name_override", HOST_NAME)]
            self._channel = grpc.secure_channel(address, credentials, options=options)
        else:
            self._channel = grpc.insecure_channel(address, options=_OPTIONS)
        codec = (BytesValue.SerializeToString, BytesValue.FromString)
        self._unary: Callable[..., Any] = self._channel.unary_unary(f"/{_SERVICE}/unary", *codec)
        self._streamed: Callable[..., Any] = self._channel.unary_stream(f"/{_SERVICE}/streamed", *codec)

    def serve(self, count: int, seed: int) -> None:
        """Serve so many random items from now on."""
        self._pipe.send((count, seed))
        self._pipe.recv()

    def get_unary(self) -> np.ndarray:
        """In one message; the array is a read-only view of what protobuf made, without a copy of ours."""
        return np.frombuffer(self._unary(BytesValue()).value, np.float32)

    def get_streamed(self, count: int) -> np.ndarray:
        """In pieces, each copied to its place."""
        receive_buffer, position = np.empty(4 * count, np.uint8), 0
        for message in self._streamed(BytesValue()):
            piece = np.frombuffer(message.value, np.uint8)
            receive_buffer[position : position + len(piece)] = piece
            position += len(piece)
        return receive_buffer.view(np.float32)

    def close(self) -> None:
        self._channel.close()
        self._pipe.send(None)
        self._process.join(20)


def _serve(pipe: Connection, peers: tuple[Identity, bytes] | None) -> None:
    served = np.zeros(0, np.float32)

    def unary(request: BytesValue, context: object) -> BytesValue:
        return BytesValue(value=served.tobytes())

    def streamed(request: BytesValue, context: object) -> Iterator[BytesValue]:
        octets = served.data.cast("B")
        for start in range(0, len(octets), PIECE_BYTES):
            yield BytesValue(value=bytes(octets[start : start + PIECE_BYTES]))

    codec = (BytesValue.FromString, BytesValue.SerializeToString)
    methods = {
        "unary": grpc.unary_unary_rpc_method_handler(unary, *codec),
        "streamed": grpc.unary_stream_rpc_method_handler(streamed, *codec),
    }
    server = grpc.server(ThreadPoolExecutor(2), options=_OPTIONS)
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(_SERVICE, methods),))
    if peers is None:
        port = server.add_insecure_port("127.0.0.1:0")
    else:
        identity, peer_pem = peers
        pair = (identity.private_key_pem, identity.certificate_pem)
        credentials = grpc.ssl_server_credentials([pair], peer_pem, require_client_auth=True)
        port = server.add_secure_port("127.0.0.1:0", credentials)
    server.start()
    pipe.send(port)
    while (order := pipe.recv()) is not None:
        count, seed = order
        served = array("float32", (count,), seed)
        pipe.send(None)
    server.stop(1).wait()
