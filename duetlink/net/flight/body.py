"""The two ends of a transfer: the bytes to send, and the buffer in which they arrive.

`Outgoing` is an encoded value in its own memory, cut into blocks without copying. `ReceiveBuffer` is one
buffer of the final size into which chunks are copied, or a mapping that is taken over as a whole.
"""

from __future__ import annotations

import threading
from bisect import bisect_right
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np
import pyarrow as pa

from duetlink.base.runtime.holdings import Retained
from duetlink.base.runtime.mappable import SealedBody
from duetlink.data.codecs.base import Array
from duetlink.data.tuning.sample import places
from duetlink.data.values.base import Part
from duetlink.errors import AssetChanged, LocalProtocolError, TransferFailed
from duetlink.net.flight import layout
from duetlink.net.flight.fingerprint import LEAF_BYTES, Fingerprint, join_leaves, leaf_digest
from duetlink.net.flight.layout import Run

# Limits the memory that Arrow's pool keeps after the values are gone.
_POOLED_BYTES = 2 * 1024 * 1024 * 1024


class Outgoing:
    """A byte string as a list of views of the object's own memory. Immutable, hence thread-safe.

    Making one reads all bytes once (16 GB/s, without the GIL): the fingerprint identifies the revision that
    may be sent. Content that has changed since is not sent: `blocks` reads each leaf again before it yields
    its blocks.
    """

    def __init__(
        self,
        segments: Sequence[memoryview],
        size_bytes: int,
        parts: Sequence[Part] = (),
        held: Retained | None = None,
        sealed: SealedBody | None = None,
    ) -> None:
        """`held` keeps account of why the body is kept; pass one if there are reasons besides its
        transfers. `sealed` is the whole body, if it is in sealed memory; then the segments are there, too.
        """
        self.sealed = sealed
        self.held = held if held is not None else Retained(size_bytes=size_bytes)
        self._segments = segments
        self._starts = list(accumulate((len(segment) for segment in segments[:-1]), initial=0))
        self.size_bytes = size_bytes
        self.parts = tuple(parts)
        self.runs = layout.runs(parts, size_bytes)
        self._digests = [leaf_digest(self.leaf_pieces(leaf)) for leaf in range(self.leaves)]
        self.fingerprint = join_leaves(self._digests)

    @property
    def whole(self) -> list[tuple[int, int]]:
        """One range that covers the whole body."""
        return [(0, self.size_bytes)]

    @property
    def leaves(self) -> int:
        return -(-self.size_bytes // LEAF_BYTES)

    def pieces(
        self, start_bytes: int = 0, end_bytes: int | None = None, limit_bytes: int = 1 << 62
    ) -> Iterator[memoryview]:
        """Yield the bytes from `start_bytes` up to `end_bytes`, in pieces of at most `limit_bytes`."""
        end_bytes = self.size_bytes if end_bytes is None else min(end_bytes, self.size_bytes)
        index = bisect_right(self._starts, start_bytes) - 1
        while index < len(self._segments) and self._starts[index] < end_bytes:
            start, segment = self._starts[index], self._segments[index]
            position = max(0, start_bytes - start)
            stop = min(len(segment), end_bytes - start)
            while position < stop:
                piece = segment[position : min(stop, position + limit_bytes)]
                yield piece
                position += len(piece)
            index += 1

    def leaf_pieces(self, leaf: int, limit_bytes: int = 1 << 62) -> Iterator[memoryview]:
        return self.pieces(leaf * LEAF_BYTES, (leaf + 1) * LEAF_BYTES, limit_bytes)

    def read(self) -> bytes:
        """Return a copy of the body. Raises AssetChanged if it no longer has its fingerprint."""
        for leaf in range(self.leaves):
            self.verify_leaf(leaf)
        return b"".join(self.pieces())

    def blocks(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Run]:
        """Yield the blocks in these (start, end) ranges, in order, each within one leaf and of one item type.

        Raises:
            AssetChanged: the leaf of the next block has changed; no block of it was yielded.
        """
        checked = -1
        for start_bytes, end_bytes in ranges:
            for block in layout.blocks(self.runs, start_bytes, end_bytes, LEAF_BYTES):
                leaf = block.start_bytes // LEAF_BYTES
                if leaf != checked:
                    self.verify_leaf(leaf)
                    checked = leaf
                yield block

    def array(self, run: Run) -> Array:
        """Return the items of a run as an array: a view, or a copy if they are in several places or not
        aligned.
        """
        pieces = list(self.pieces(run.start_bytes, run.end_bytes))
        octets = np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)
        if octets.ctypes.data % run.element.size_bytes:
            octets = octets.copy()
        return octets.view(run.element.storage)

    def sample(self, block: Run, ahead_bytes: int) -> Array:
        """Return a few items from the `ahead_bytes` that follow the start of `block`, of the same item
        type.
        """
        index = bisect_right(self.runs, block.start_bytes, key=lambda run: run.end_bytes)
        end_bytes = max(block.end_bytes, min(self.runs[index].end_bytes, block.start_bytes + ahead_bytes))
        width = block.element.size_bytes
        return np.concatenate(
            [
                self.array(
                    Run(block.start_bytes + start * width, block.start_bytes + end * width, block.element)
                )
                for start, end in places((end_bytes - block.start_bytes) // width, width)
            ]
        )

    def verify_leaf(self, leaf: int) -> None:
        """Read a leaf again. Raises AssetChanged if its digest has changed."""
        self.check_leaf(leaf, leaf_digest(self.leaf_pieces(leaf)))

    def check_leaf(self, leaf: int, digest: bytes) -> None:
        """Raise AssetChanged unless `digest` is the leaf's original digest."""
        if digest != self._digests[leaf]:
            raise AssetChanged("the content changed after it was shared; its owner should share it again")


def _allocate(size_bytes: int) -> np.ndarray:
    """Return uninitialised memory for a value.

    Up to _POOLED_BYTES it comes from Arrow's pool, which reuses freed memory: new memory from the system
    costs as much time as receiving and decrypting the bytes for it.
    """
    if size_bytes <= _POOLED_BYTES:
        return np.frombuffer(pa.allocate_buffer(size_bytes), np.uint8)
    return np.empty(size_bytes, np.uint8)


def _ignore(raw_bytes: int, wire_bytes: int) -> None:
    pass


@dataclass(frozen=True, slots=True)
class Version:
    """A whole body that this side has, and its fingerprint."""

    fingerprint: bytes
    body: memoryview


class ReceiveBuffer:
    """The buffer in which a body of known size arrives in order, from one path after another.

    Only one thread writes at a time (that of the path in use). Any thread may read `position_bytes` or call
    `stop`.
    """

    def __init__(self, size_bytes: int, on_bytes: Callable[[int, int], None] = _ignore) -> None:
        """`on_bytes(size_bytes, wire_bytes)` is called for bytes that have arrived, with the bytes sent for
        them.
        """
        self.size_bytes = size_bytes
        self.position_bytes = 0
        self._on_bytes = on_bytes
        self._body: memoryview | None = None
        self._target: np.ndarray | None = None
        self._digest = Fingerprint()
        # a version of the same size that both sides have: chunks may be encoded as differences to it
        self.reference: Version | None = None
        self._adopted: deque[tuple[int, int]] = deque()  # (start, end) of adopted bytes beyond the position
        self.mapped = False  # True for sealed shared memory, which was verified before it was sealed
        self._discarded = False
        self._stopped = threading.Event()

    @property
    def complete(self) -> bool:
        return self.position_bytes == self.size_bytes

    @property
    def stopped(self) -> bool:
        """True if the writer should stop after the current chunk."""
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def resume(self) -> None:
        """Allow writing again from `position_bytes` on, by another path."""
        self._stopped.clear()

    def write(self, chunk: memoryview, wire_bytes: int | None = None) -> None:
        """Copy the next chunk, which arrived as `wire_bytes`, to its position.

        Releases the GIL while it copies and digests.

        Raises:
            TransferFailed: more bytes than announced, or no memory for the value.
        """
        end = self.position_bytes + len(chunk)
        if end > self.size_bytes:
            raise TransferFailed(
                f"the peer sent {end} bytes of a value that it announced with {self.size_bytes}"
            )
        if self._adopted and end > self._adopted[0][0]:
            raise TransferFailed(f"the peer sent bytes at {self._adopted[0][0]} that were not asked for")
        self._place()[self.position_bytes : end] = np.frombuffer(chunk, np.uint8)
        self._digest.update(chunk)
        self.position_bytes = end
        self._on_bytes(len(chunk), len(chunk) if wire_bytes is None else wire_bytes)
        self._pass_adopted()

    def adopt(self, pieces: Sequence[tuple[int, memoryview]]) -> None:
        """Copy bytes that this side already has, as ordered and disjoint (start, bytes), before the first
        `write`.
        """
        for start, piece in pieces:
            end = start + len(piece)
            self._place()[start:end] = np.frombuffer(piece, np.uint8)
            self._adopted.append((start, end))
        self._pass_adopted()

    @property
    def missing(self) -> list[tuple[int, int]]:
        """The (start, end) ranges that have not arrived, in order."""
        ends = [self.position_bytes, *(end for _, end in self._adopted)]
        starts = [*(start for start, _ in self._adopted), self.size_bytes]
        return [(start, end) for start, end in zip(ends, starts, strict=True) if start < end]

    def _place(self) -> np.ndarray:
        if self._target is None:
            if self._discarded:  # a thread that was not notified yet
                raise TransferFailed("the transfer has ended")
            try:
                self._target = _allocate(self.size_bytes)
            except MemoryError:
                raise TransferFailed(f"no memory for a value of {self.size_bytes} bytes here") from None
        return self._target

    def _pass_adopted(self) -> None:
        while self._adopted and self._adopted[0][0] == self.position_bytes:
            start, end = self._adopted.popleft()
            self._digest.update(self._place()[start:end].data)
            self.position_bytes = end
            self._on_bytes(end - start, 0)

    def map(self, body: memoryview) -> None:
        """Take over a whole mapped body without a copy, and drop what had arrived before."""
        if len(body) != self.size_bytes:
            raise TransferFailed(f"the mapping has {len(body)} bytes, the value {self.size_bytes}")
        self._target = None
        self._adopted.clear()
        self._body = body
        self.mapped = True
        self._on_bytes(self.size_bytes - self.position_bytes, 0)
        self.position_bytes = self.size_bytes

    def discard(self) -> None:
        """Free what has arrived; later writes raise TransferFailed."""
        self._discarded = True
        self._target = self._body = self.reference = None

    def digest(self) -> bytes:
        """Return the fingerprint of the bytes so far."""
        return self._digest.digest()

    def body(self) -> memoryview:
        """Return the complete bytes, writable; the caller owns them."""
        if not self.complete:
            raise LocalProtocolError(f"{self.position_bytes} of {self.size_bytes} bytes have arrived")
        if self._body is None:
            target = np.empty(0, np.uint8) if self._target is None else self._target
            self._body = target.data
        return self._body
