"""The two ends of a transfer: the bytes that leave and the place where they land.

`Outgoing` is an encoded value as its own memory, cut into chunks without copying. `Landing` is one buffer of
the final size that chunks are copied into, or a mapping that is taken over whole.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence

import numpy as np
import pyarrow as pa

from duetlink.errors import AssetChanged, LocalProtocolError, TransferFailed
from duetlink.flight.fingerprint import LEAF_BYTES, Fingerprint, join_leaves, leaf_digest

# Pieces below this are gathered: a message of its own costs more than copying so little.
_GATHER_BYTES = 64 * 1024

# What a process may go on holding after its values are gone is bounded by this.
_POOLED_BYTES = 2 * 1024 * 1024 * 1024


class Outgoing:
    """A byte string as a gather list of the object's own memory. Immutable, hence thread-safe.

    Making one reads everything once (16 GB/s, without the GIL): its fingerprint is the revision that leaves.
    What has changed since does not leave: `chunks` reads each leaf once more before it gives it out.
    """

    def __init__(self, segments: Sequence[memoryview], size_bytes: int) -> None:
        self._segments = segments
        self.size_bytes = size_bytes
        self._digests = [leaf_digest(self.leaf_pieces(leaf)) for leaf in range(self.leaves)]
        self.fingerprint = join_leaves(self._digests)

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
        """The bytes from `offset_bytes` on in chunks that end where leaves end. Pieces are not copied, except
        that runs of small ones come joined.

        Raises:
            AssetChanged: the next leaf is not what it was; nothing of it has been given out.
        """
        for leaf in range(offset_bytes // LEAF_BYTES, self.leaves):
            self.check_leaf(leaf, leaf_digest(self.leaf_pieces(leaf)))
            start = max(offset_bytes, leaf * LEAF_BYTES)
            yield from _gathered(self.pieces(start, (leaf + 1) * LEAF_BYTES, chunk_bytes), chunk_bytes)

    def check_leaf(self, leaf: int, digest: bytes) -> None:
        """Raise AssetChanged unless `digest` is that of the leaf as it was."""
        if digest != self._digests[leaf]:
            raise AssetChanged("the content changed after it was shared; its owner should share it again")


def _gathered(pieces: Iterator[memoryview], chunk_bytes: int) -> Iterator[memoryview]:
    waiting: list[memoryview] = []
    waiting_bytes = 0
    for piece in pieces:
        small = len(piece) < _GATHER_BYTES
        if waiting and (not small or waiting_bytes + len(piece) > chunk_bytes):
            yield memoryview(b"".join(waiting))
            waiting, waiting_bytes = [], 0
        if small:
            waiting.append(piece)
            waiting_bytes += len(piece)
        else:
            yield piece
    if waiting:
        yield memoryview(b"".join(waiting))


def _allocate(size_bytes: int) -> np.ndarray:
    """Uninitialised memory for a value. Up to _POOLED_BYTES from Arrow's pool, which keeps what it was given
    back for the next one: memory new from the system costs as much as to receive and decrypt into it.
    """
    if size_bytes <= _POOLED_BYTES:
        return np.frombuffer(pa.allocate_buffer(size_bytes), np.uint8)
    return np.empty(size_bytes, np.uint8)


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
                self._target = _allocate(self.size_bytes)
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
