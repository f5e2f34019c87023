"""Receives a Flight stream: batches are received, decoded and copied to the buffer in parallel.

Each of these steps releases the GIL. Chunks are decoded by a pool and written in order. At most one more
chunk than the pool has threads is in memory, so memory is bounded whatever the peer sends.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor

import numpy as np
from pyarrow import flight

from duetlink.base.runtime.cpu import Stopwatch
from duetlink.data.codecs import chunk
from duetlink.data.codecs.base import Array
from duetlink.data.codecs.registry import by_number
from duetlink.data.tuning.tuner import SMALL_BYTES
from duetlink.errors import DuetError, TransferFailed, UndecodableChunk
from duetlink.net.flight.body import ReceiveBuffer, Version

CODED = b"\x01"
MAX_BLOCK_BYTES = 4 * 1024 * 1024

# below this, a second thread costs more than it saves
_TWO_THREADS_BYTES = 16 * 1024 * 1024


class Decoding:
    """Decodes chunks on a pool, and records by codec how long that took: (array bytes, seconds).

    Thread-safe.
    """

    def __init__(self, pool: Executor, workers: int) -> None:
        self.pool = pool
        self.workers = workers
        self._lock = threading.Lock()
        self._times: dict[str, tuple[int, float]] = {}

    def decode(self, data: memoryview, reference: Version | None = None) -> memoryview:
        """Return all bytes of a chunk. Raises UndecodableChunk."""
        try:
            header = chunk.read_header(data, MAX_BLOCK_BYTES)
            by_number(header.codec).load()  # loading is not counted as decoding time
            stopwatch = Stopwatch()

            def version(name: bytes) -> Array:  # see sending.Reference
                start = int.from_bytes(name[8:], "little")
                known = b"" if reference is None else reference.body[start : start + header.array_bytes]
                whole_bytes = len(known) // header.element.size_bytes * header.element.size_bytes
                return np.frombuffer(known[:whole_bytes], header.element.storage)

            array, header = chunk.decode(data, MAX_BLOCK_BYTES, references=version)
        except DuetError as error:
            raise UndecodableChunk(f"the peer sent a chunk that does not decode: {error}") from None
        except ImportError as error:
            raise UndecodableChunk(f"a codec is installed here, but does not load: {error}") from None
        if not header.bound.lossless:
            raise UndecodableChunk("the peer encoded bytes with a lossy codec")
        if array.nbytes >= SMALL_BYTES:
            self._add(by_number(header.codec).name, array.nbytes, stopwatch.elapsed_s())
        return chunk.as_bytes(array)

    def _add(self, codec: str, raw_bytes: int, elapsed_s: float) -> None:
        with self._lock:
            known_bytes, known_s = self._times.get(codec, (0, 0.0))
            self._times[codec] = (known_bytes + raw_bytes, known_s + elapsed_s)

    def take(self) -> dict[str, tuple[int, float]]:
        """Return and reset the times recorded since the last call."""
        with self._lock:
            taken, self._times = self._times, {}
            return taken


class Receiving:
    """Receives one stream into one buffer."""

    def __init__(
        self, reader: flight.FlightStreamReader, receive_buffer: ReceiveBuffer, decoding: Decoding
    ) -> None:
        self._reader = reader
        self._receive_buffer = receive_buffer
        self._decoding = decoding
        self._failed = False  # after a failed block, the following ones are dropped

    def receive(self) -> None:
        """Receive until the stream ends or the buffer is stopped.

        Raises:
            TransferFailed: the peer sent something that it did not announce.
            pyarrow's errors: the connection broke.
        """
        left_bytes = self._receive_buffer.size_bytes - self._receive_buffer.position_bytes
        if left_bytes < _TWO_THREADS_BYTES:
            for data, coded in self._batches():
                decoded = self._decoding.decode(data, self._receive_buffer.reference) if coded else data
                self._receive_buffer.write(decoded, len(data))
            return
        with ThreadPoolExecutor(1, thread_name_prefix="duetlink-land") as writer:
            self._receive_in_parallel(writer)

    def _receive_in_parallel(self, writer: Executor) -> None:
        """Receive and decrypt on this thread while the pool decodes and one more thread writes."""
        pending: deque[Future[None]] = deque()
        for data, coded in self._batches():
            waiting: memoryview | Future[memoryview] = data
            if coded:
                waiting = self._decoding.pool.submit(
                    self._decoding.decode, data, self._receive_buffer.reference
                )
            pending.append(writer.submit(self._write, waiting, len(data)))
            while len(pending) > self._decoding.workers:
                pending.popleft().result()
        while pending:
            pending.popleft().result()

    def _write(self, waiting: memoryview | Future[memoryview], wire_bytes: int) -> None:
        if self._failed:
            return
        try:
            decoded = waiting if isinstance(waiting, memoryview) else waiting.result()
            self._receive_buffer.write(decoded, wire_bytes)
        except BaseException:
            self._failed = True
            raise

    def _batches(self) -> Iterator[tuple[memoryview, bool]]:
        """Yield the bytes of each batch, and True if they are an encoded chunk (`codecs.chunk`)."""
        while not self._receive_buffer.stopped:
            try:
                batch, metadata = self._reader.read_chunk()
            except StopIteration:
                return
            column = batch.column(0)
            if column.null_count or len(column) == 0:
                raise TransferFailed("the peer's Flight stream holds an empty or null chunk")
            mark = metadata.to_pybytes() if metadata is not None else b""
            if mark not in (b"", CODED):
                raise TransferFailed("the peer's Flight stream holds a chunk of an unknown kind")
            yield memoryview(column.buffers()[1])[column.offset : column.offset + len(column)], mark == CODED
