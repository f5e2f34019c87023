"""The two ends of a transfer: the bytes that leave and the place where they land.

`Outgoing` is an encoded value as its own memory, cut into chunks without copying. `ReceiveBuffer` is one
buffer of the final size that chunks are copied into, or a mapping that is taken over whole.
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
from duetlink.data.codecs.base import Array
from duetlink.data.tuning.sample import places
from duetlink.data.values.base import Part
from duetlink.errors import AssetChanged, LocalProtocolError, TransferFailed
from duetlink.net.flight import layout
from duetlink.net.flight.fingerprint import LEAF_BYTES, Fingerprint, join_leaves, leaf_digest
from duetlink.net.flight.layout import Run

# What a process may go on holding after its values are gone is bounded by this.
_POOLED_BYTES = 2 * 1024 * 1024 * 1024


class Outgoing:
    """A byte string as a gather list of the object's own memory. Immutable, hence thread-safe.

    Making one reads everything once (16 GB/s, without the GIL): its fingerprint is the revision that leaves.
    What has changed since does not leave: `blocks` reads each leaf once more before it gives it out.
    """

    def __init__(
        self,
        segments: Sequence[memoryview],
        size_bytes: int,
        parts: Sequence[Part] = (),
        held: Retained | None = None,
    ) -> None:
        """`held` has the reasons for which it is kept, where others than those of its transfers count."""
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
        """All of it, as a range."""
        return [(0, self.size_bytes)]

    @property
    def leaves(self) -> int:
        """How many leaves the fingerprint has."""
        return -(-self.size_bytes // LEAF_BYTES)

    def pieces(
        self, start_bytes: int = 0, end_bytes: int | None = None, limit_bytes: int = 1 << 62
    ) -> Iterator[memoryview]:
        """The bytes from `start_bytes` up to `end_bytes`, in pieces of at most `limit_bytes`."""
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
        """The pieces of one leaf of the fingerprint."""
        return self.pieces(leaf * LEAF_BYTES, (leaf + 1) * LEAF_BYTES, limit_bytes)

    def read(self) -> bytes:
        """A copy of all of it; raises AssetChanged if it is no longer what was fingerprinted."""
        for leaf in range(self.leaves):
            self.verify_leaf(leaf)
        return b"".join(self.pieces())

    def blocks(self, ranges: Iterable[tuple[int, int]]) -> Iterator[Run]:
        """What lies in these (start, end), in order, each block within one leaf and of items of one kind.

        Raises:
            AssetChanged: the leaf of the next block is not what it was; nothing of it has been given out.
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
        """The items of a run as they lie in memory; gathered where they lie in several places."""
        pieces = list(self.pieces(run.start_bytes, run.end_bytes))
        octets = np.frombuffer(pieces[0] if len(pieces) == 1 else b"".join(pieces), np.uint8)
        if octets.ctypes.data % run.element.size_bytes:
            octets = octets.copy()
        return octets.view(run.element.storage)

    def sample(self, block: Run, ahead_bytes: int) -> Array:
        """A few items of what begins with `block`, goes on for `ahead_bytes` and is of its kind."""
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
        """Read a leaf once more; raises AssetChanged if it is not as it was."""
        self.check_leaf(leaf, leaf_digest(self.leaf_pieces(leaf)))

    def check_leaf(self, leaf: int, digest: bytes) -> None:
        """Raise AssetChanged unless `digest` is that of the leaf as it was."""
        if digest != self._digests[leaf]:
            raise AssetChanged("the content changed after it was shared; its owner should share it again")


def _allocate(size_bytes: int) -> np.ndarray:
    """Uninitialised memory for a value.

    Up to _POOLED_BYTES from Arrow's pool, which keeps what it was given back for the next one: memory new
    from the system costs as much as to receive and decrypt into it.
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
    """Where a value of known size arrives, in order, from one path after another.

    One thread writes at a time (the path in use); any thread may read `position_bytes` or call `stop`.
    """

    def __init__(self, size_bytes: int, on_bytes: Callable[[int, int], None] = _ignore) -> None:
        """`on_bytes` hears of bytes that are there, and of how many had to move for them."""
        self.size_bytes = size_bytes
        self.position_bytes = 0
        self._on_bytes = on_bytes
        self._body: memoryview | None = None
        self._target: np.ndarray | None = None
        self._digest = Fingerprint()
        # a version of the same size that both sides have: chunks may say what differs from it
        self.reference: Version | None = None
        self._adopted: deque[tuple[int, int]] = deque()  # (start, end) of what is there beyond the position
        self.mapped = False  # whether it is memory that the kernel vouches for: nothing is to be verified
        self._discarded = False
        self._stopped = threading.Event()

    @property
    def complete(self) -> bool:
        return self.position_bytes == self.size_bytes

    @property
    def stopped(self) -> bool:
        """Whether the writer should leave after the chunk at hand."""
        return self._stopped.is_set()

    def stop(self) -> None:
        self._stopped.set()

    def resume(self) -> None:
        """Allow writing again, by another path, from `position_bytes` on."""
        self._stopped.clear()

    def write(self, chunk: memoryview, wire_bytes: int | None = None) -> None:
        """Copy the next chunk, that came as `wire_bytes`, to its place.

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
        """Copy what this side has already, as (start, bytes) in order and apart, before the first `write`."""
        for start, piece in pieces:
            end = start + len(piece)
            self._place()[start:end] = np.frombuffer(piece, np.uint8)
            self._adopted.append((start, end))
        self._pass_adopted()

    @property
    def missing(self) -> list[tuple[int, int]]:
        """(start, end) of what is still to come, in order."""
        ends = [self.position_bytes, *(end for _, end in self._adopted)]
        starts = [*(start for start, _ in self._adopted), self.size_bytes]
        return [(start, end) for start, end in zip(ends, starts, strict=True) if start < end]

    def _place(self) -> np.ndarray:
        if self._target is None:
            if self._discarded:  # a thread that did not know yet
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
        """Take over a whole body that needs no copy, whatever had arrived before."""
        if len(body) != self.size_bytes:
            raise TransferFailed(f"the mapping has {len(body)} bytes, the value {self.size_bytes}")
        self._target = None
        self._adopted.clear()
        self._body = body
        self.mapped = True
        self._on_bytes(self.size_bytes - self.position_bytes, 0)
        self.position_bytes = self.size_bytes

    def discard(self) -> None:
        """Free what has arrived; nothing is to be written any more."""
        self._discarded = True
        self._target = self._body = self.reference = None

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
