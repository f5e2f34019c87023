"""duetlink's own paths with one more copy on each side: through buffers that belong to the transport.

An application whose arrays are not the network's buffers pays for two copies: the sender's bytes into a
buffer of the transport, and what arrives out of one. Here the paths `tcp` and `local` are made to pay them,
and all else stays as it is. The buffers are allocated once and used in turn, as such a transport would do it.
"""

from __future__ import annotations

import contextlib
import dataclasses
import itertools
import threading
from collections.abc import Iterator
from typing import ClassVar

import numpy as np

from duetlink.net.flight import body, server
from duetlink.net.flight.body import ReceiveBuffer
from duetlink.net.flight.receiving import MAX_BLOCK_BYTES
from duetlink.net.flight.sending import FlightBatch, Sending
from duetlink.net.paths.shared_memory import SharedMemory

# gRPC holds a buffer until it is written: a window of 16 MiB, and what the sockets hold
_BUFFERS = 16


class _CopyingSending(Sending):
    """Gives out copies in the buffers instead of the object's own memory. One stream at a time."""

    buffers: ClassVar[Iterator[np.ndarray]]

    def batches(self) -> Iterator[FlightBatch]:
        for batch in super().batches():
            yield dataclasses.replace(batch, data=_copy(batch.data, next(self.buffers)))


_mine = threading.local()


def _own_buffer() -> np.ndarray:
    """A buffer of this thread."""
    if not hasattr(_mine, "buffer"):
        _mine.buffer = np.empty(MAX_BLOCK_BYTES, np.uint8)
    buffer: np.ndarray = _mine.buffer
    return buffer


def _copy(data: memoryview, buffer: np.ndarray) -> memoryview:
    buffer[: len(data)] = np.frombuffer(data, np.uint8)
    return buffer[: len(data)].data


def copy_what_is_sent() -> None:
    """From now on this process copies what it sends, by Flight or into shared memory, once more."""
    _CopyingSending.buffers = itertools.cycle([np.empty(MAX_BLOCK_BYTES, np.uint8) for _ in range(_BUFFERS)])
    write = SharedMemory.write

    def write_copy(memory: SharedMemory, piece: memoryview, offset_bytes: int) -> None:
        write(memory, _copy(piece, _own_buffer()), offset_bytes)

    server.Sending = _CopyingSending  # type: ignore[attr-defined]
    SharedMemory.write = write_copy  # type: ignore[assignment, method-assign]


@contextlib.contextmanager
def copying_what_arrives() -> Iterator[None]:
    """Within the block this process copies what arrives, by Flight or in shared memory, once more."""
    write, take = ReceiveBuffer.write, ReceiveBuffer.map

    def write_copy(receive_buffer: ReceiveBuffer, chunk: memoryview, wire_bytes: int | None = None) -> None:
        write(receive_buffer, _copy(chunk, _own_buffer()), wire_bytes)

    def take_copy(receive_buffer: ReceiveBuffer, mapped: memoryview) -> None:
        target = body._allocate(len(mapped))  # as for what comes by Flight
        target[:] = np.frombuffer(mapped, np.uint8)
        take(receive_buffer, target.data)

    ReceiveBuffer.write, ReceiveBuffer.map = write_copy, take_copy  # type: ignore[assignment, method-assign]
    try:
        yield
    finally:
        ReceiveBuffer.write, ReceiveBuffer.map = write, take  # type: ignore[method-assign]
