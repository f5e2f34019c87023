"""The two ends of a transfer: the bytes that leave and the place where they land.

`Outgoing` is an encoded value as its own memory, cut into chunks without copying. `Landing` is one buffer of
the final size that chunks are copied into, or a mapping that is taken over whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from duetlink.errors import LocalProtocolError, TransferFailed
from duetlink.flight.fingerprint import LEAF_BYTES, Fingerprint, join_leaves, leaf_digest

# Pieces below this are gathered: a message of its own costs more than copying so little.
_GATHER_BYTES = 64 * 1024


class Outgoing:
    """A byte string as a gather list of the object's own memory. Immutable, hence thread-safe.

    Making one reads everything once (16 GB/s, without the GIL): its fingerprint is the revision that leaves.
    """

    def __init__(self, segments: Sequence[memoryview], size_bytes: int) -> None:
        self._segments = segments
        self.size_bytes = size_bytes
        self.fingerprint = join_leaves(leaf_digest(self.leaf_pieces(leaf)) for leaf in range(self.leaves))

    @property
    def leaves(self) -> int:
        """How many leaves the fingerprint has."""
        return -(-self.size_bytes // LEAF_BYTES)

    def pieces(
        self, start_bytes: int = 0, end_bytes: int | None = None, limit_bytes: int = 1 << 62
    ) -> Iterator[memoryview]:
        """The bytes from `start_bytes` up to `end_bytes`, in pieces of at most `limit_bytes`."""
        end_bytes = self.size_bytes if end_bytes is None else min(end_bytes, self.size_bytes)
        start = 0
        for segment in self._segments:
            position = max(0, start_bytes - start)
            stop = min(len(segment), end_bytes - start)
            while position < stop:
                piece = segment[position : min(stop, position + limit_bytes)]
                yield piece
                position += len(piece)
            start += len(segment)
            if start >= end_bytes:
                return

    def leaf_pieces(self, leaf: int, limit_bytes: int = 1 << 62) -> Iterator[memoryview]:
        """The pieces of one leaf of the fingerprint."""
        return self.pieces(leaf * LEAF_BYTES, (leaf + 1) * LEAF_BYTES, limit_bytes)

    def chunks(self, offset_bytes: int, chunk_bytes: int) -> Iterator[memoryview]:
        """Like `pieces`, but runs of small pieces come joined (copied) in one chunk."""
        gathered: list[memoryview] = []
        gathered_bytes = 0
        for piece in self.pieces(offset_bytes, None, chunk_bytes):
            small = len(piece) < _GATHER_BYTES
            if gathered and (not small or gathered_bytes + len(piece) > chunk_bytes):
                yield memoryview(b"".join(gathered))
                gathered, gathered_bytes = [], 0
            if small:
                gathered.append(piece)
                gathered_bytes += len(piece)
            else:
                yield piece
        if gathered:
            yield memoryview(b"".join(gathered))


class Landing:
    """Where a value of known size arrives, in order, from one path after another.

    One thread writes at a time (the path in use); any thread may read `position_bytes` or call `stop`.
    """

    def __init__(self, size_bytes: int, on_bytes: Callable[[int], None] = lambda size_bytes: None) -> None:
        self.size_bytes = size_bytes
        self.position_bytes = 0
        self._on_bytes = on_bytes
        self._body: memoryview | None = None
        self._target: np.ndarray | None = None
        self._digest = Fingerprint()
        self._mapped = False
        self._stopped = threading.Event()

    @property
    def complete(self) -> bool:
        return self.position_bytes == self.size_bytes

    @property
    def mapped(self) -> bool:
        """Whether the body is memory that the kernel vouches for, so that there is nothing to verify."""
        return self._mapped

    @property
    def stopped(self) -> bool:
        """Whether the writer should leave after the chunk at hand."""
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def resume(self) -> None:
        """Allow writing again, by another path, from `position_bytes` on."""
        self._stopped.clear()

    def write(self, chunk: memoryview) -> None:
        """Copy the next chunk to its place. Releases the GIL while it copies and digests.

        Raises:
            TransferFailed: more bytes than announced, or no memory for the value.
        """
        end = self.position_bytes + len(chunk)
        if end > self.size_bytes:
            raise TransferFailed(
                f"the peer sent {end} bytes of a value that it announced with {self.size_bytes}"
            )
        if self._target is None:
            try:
                self._target = np.empty(self.size_bytes, np.uint8)
            except MemoryError:
                raise TransferFailed(f"no memory for a value of {self.size_bytes} bytes here") from None
        self._target[self.position_bytes : end] = np.frombuffer(chunk, np.uint8)
        self._digest.update(chunk)
        self.position_bytes = end
        self._on_bytes(len(chunk))

    def map(self, body: memoryview) -> None:
        """Take over a whole body that needs no copy, whatever had arrived before."""
        if len(body) != self.size_bytes:
            raise TransferFailed(f"the mapping has {len(body)} bytes, the value {self.size_bytes}")
        self._target = None
        self._body = body
        self._mapped = True
        self._on_bytes(self.size_bytes - self.position_bytes)
        self.position_bytes = self.size_bytes

    def digest(self) -> bytes:
        """The fingerprint of what `write` has taken."""
        return self._digest.digest()

    def body(self) -> memoryview:
        """The complete bytes, writable; the landing gives them up."""
        if not self.complete:
            raise LocalProtocolError(f"{self.position_bytes} of {self.size_bytes} bytes have arrived")
        if self._body is None:
            target = np.empty(0, np.uint8) if self._target is None else self._target
            self._body = target.data
        return self._body
