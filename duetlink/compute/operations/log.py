"""The steps of a peer, as they came: kept for whoever wants to know how a result was made."""

from __future__ import annotations

import json
import threading
import zlib
from array import array
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from duetlink.compute.operations.lineage import Lineage, lineage
from duetlink.compute.operations.trace import LoggedValue, Trace
from duetlink.errors import LimitExceeded

MAX_BYTES = 256 * 1024 * 1024  # of all batches, before they are compressed
_SEGMENT_BYTES = 1024 * 1024  # are compressed as one stream


class LoggedBatch(NamedTuple):
    """A batch and what is known of the values that came with it."""

    content: bytes
    values: tuple[LoggedValue, ...]


class ProgramLog:
    """All batches of one program, in order.

    To append one costs its compression, some ten microseconds per KiB, and looks at none of its steps. They
    are read when a lineage is asked for, each once; what is kept of them then takes `trace.MAX_HELD_BYTES` of
    memory at most. Methods may be called from any thread.
    """

    def __init__(self, max_bytes: int = MAX_BYTES, *, may_learn: bool = True) -> None:
        """With `may_learn` false, no tensor among assets and values comes with `requires_grad`; lineages name
        fewer steps where that is known.
        """
        self._max_bytes = max_bytes
        self._may_learn = may_learn
        self._segments: list[bytes] = []
        self._stream = zlib.compressobj(1)
        self._open: list[bytes] = []  # compressed so far, of the segment that is not full
        self._open_bytes = 0
        self._sizes = array("q")  # of batch and values, alternately
        self._ends = array("q")  # how many batches are in the segments up to this one
        self.size_bytes = 0  # before compression
        self._lock = threading.Lock()
        self._reading = threading.Lock()
        self._trace: tuple[Callable[[str], str], Trace] | None = None
        self._failed = array("q")  # position and step, alternately, that the trace has not been told of

    @property
    def position(self) -> int:
        """How many batches there are."""
        return len(self._sizes) // 2

    @property
    def stored_bytes(self) -> int:
        """The memory that the batches take."""
        with self._lock:
            return sum(map(len, self._segments)) + sum(map(len, self._open))

    def append(self, batch: bytes, values: Sequence[LoggedValue] = ()) -> int:
        """Keep a batch, and what came with it; returns the position behind it.

        Raises:
            LimitExceeded: the program has become too long; nothing is kept of this batch.
        """
        words = json.dumps(values).encode() if values else b""
        size_bytes = len(batch) + len(words)
        if self.size_bytes + size_bytes > self._max_bytes:
            raise LimitExceeded(
                f"a program of over {self._max_bytes:,} bytes is not kept; ask for results, and begin anew"
            )
        with self._lock:
            self._open.append(self._stream.compress(batch))
            self._open.append(self._stream.compress(words))
            self._open_bytes += size_bytes
            self.size_bytes += size_bytes
            self._sizes.extend((len(batch), len(words)))
            if self._open_bytes >= _SEGMENT_BYTES:
                self._segments.append(b"".join((*self._open, self._stream.flush())))
                self._ends.append(self.position)
                self._stream, self._open, self._open_bytes = zlib.compressobj(1), [], 0
            return self.position

    def fail(self, position: int, step: int) -> None:
        """The worker could not do a step of the batch before this position, which is its `step`-th from 0, or
        did a part of it only. Code that shows the step says so: else a peer could let noise be added to
        what does not take it.
        """
        with self._lock:
            self._failed.extend((position, step))

    def batches(self, start: int = 0, stop: int | None = None) -> Iterator[LoggedBatch]:
        """The batches from one position to another. Those that are appended meanwhile may be left out."""
        with self._lock:
            segments = [*self._segments, b"".join((*self._open, self._stream.copy().flush()))]
            sizes = self._sizes[:]
            ends = [*self._ends, len(sizes) // 2]
        stop = ends[-1] if stop is None else min(stop, ends[-1])
        first = 0
        for compressed, end in zip(segments, ends, strict=True):
            if first >= stop:
                return
            if end > start:
                yield from _unpacked(compressed, sizes, first, end, start, stop)
            first = end

    def lineage(self, result: int, effects: Callable[[str], str], position: int | None = None) -> Lineage:
        """How a result was made, by the batches up to a position; by all without one. `effects` says what an
        operation does, by its name on the wire. What has come since the last time is read now, three seconds
        for a million steps; then the slice, its digest and its code take half of that again.

        Raises:
            LookupError: there is no such result.
            LimitExceeded: what is to be kept of the program takes too much memory.
        """
        position = self.position if position is None else min(position, self.position)
        with self._reading:
            if self._trace is None or self._trace[0] is not effects:
                self._trace = effects, Trace(effects, may_learn=self._may_learn)
            trace = self._trace[1]
            for batch in self.batches(trace.position, position):
                trace.add(batch.content, batch.values)
            self._tell_failed(trace)
            return lineage(trace, result, position)

    def _tell_failed(self, trace: Trace) -> None:
        with self._lock:
            told = 0
            while told < len(self._failed) and self._failed[told] <= trace.position:
                trace.fail(self._failed[told], self._failed[told + 1])
                told += 2
            del self._failed[:told]


def _unpacked(
    compressed: bytes, sizes: Sequence[int], first: int, end: int, start: int, stop: int
) -> Iterator[LoggedBatch]:
    """Batches first…end are in this segment; those from start to stop are wanted."""
    content = memoryview(zlib.decompress(compressed))
    offset = 0
    for number in range(first, min(end, stop)):
        batch_bytes, words_bytes = sizes[2 * number : 2 * number + 2]
        if number >= start:
            words = bytes(content[offset + batch_bytes : offset + batch_bytes + words_bytes])
            values = tuple(LoggedValue(*value) for value in json.loads(words)) if words else ()
            yield LoggedBatch(bytes(content[offset : offset + batch_bytes]), values)
        offset += batch_bytes + words_bytes
