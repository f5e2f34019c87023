"""What leaves on a Flight stream: blocks of a body, each as it is or encoded, as the tuner says.

    body -> blocks -> choose -> encode (pool) -> in order -> gRPC
                        ^                           |
                     Course  <- how long each took -+

While gRPC sends one parcel the next ones are encoded on the pool, no more ahead than there are workers. What
is not encoded goes out as the sender's own memory.
"""

from __future__ import annotations

import dataclasses
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from duetlink.codecs import chunk, delta, zstd
from duetlink.codecs.base import Array
from duetlink.codecs.element import UINT8, Element
from duetlink.errors import AssetChanged, CodecFailed
from duetlink.flight.body import Outgoing
from duetlink.flight.fingerprint import LEAF_BYTES
from duetlink.flight.layout import Run
from duetlink.runtime.cpu import CpuMeter
from duetlink.tuning import Choice, RateCap

_CPU = CpuMeter()

# Slept in pieces, so that a call that was cancelled ends soon.
_NAP_S = 0.1

_SMALL_BYTES = 512  # a chunk's header and a decision are not worth it
_SAMPLE_BYTES = 64 * 1024
_WORTHWHILE = 0.9  # a change that is no smaller than this, encoded, is not worth the trouble


class Course(Protocol):
    """What steers one stream: `tuning.Course`, or `PlainCourse`."""

    chunk_bytes: int
    workers: int

    def choose(
        self, array: Array, element: Element, now_s: float, cpu_load: float | None
    ) -> Choice | None: ...
    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None: ...
    def failed(self, choice: Choice) -> None: ...
    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None: ...
    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None: ...
    def finished(self, now_s: float) -> None: ...


class PlainCourse:
    """Everything goes as it is."""

    def __init__(self, chunk_bytes: int = 1 << 30, workers: int = 1) -> None:
        self.chunk_bytes = chunk_bytes
        self.workers = workers

    def choose(self, array: Array, element: Element, now_s: float, cpu_load: float | None) -> Choice | None:
        return None

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        raise AssertionError("nothing is encoded")

    def failed(self, choice: Choice) -> None:
        raise AssertionError("nothing is encoded")

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        pass

    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None:
        pass

    def finished(self, now_s: float) -> None:
        pass


@dataclass(frozen=True, slots=True)
class Parcel:
    """Bytes for one Flight batch: a chunk of codecs.chunk, or a block of the body as it is."""

    data: memoryview
    coded: bool
    raw_bytes: int
    steered: bool = True  # whether the course has chosen for it


@dataclass(frozen=True, slots=True)
class Order:
    """What a receiver wants of a body: the `ranges` (start, end) that it lacks, in order. `begin` gives what
    steers the stream, once it begins; `reference` is a version of the body that the receiver has.
    """

    ranges: Sequence[tuple[int, int]]
    begin: Callable[[float], Course] = lambda now_s: PlainCourse()
    reference: Outgoing | None = None


class Reference:
    """A version of a body that its receiver has: blocks of the body as what differs from it."""

    def __init__(self, outgoing: Outgoing, other: Outgoing) -> None:
        self._outgoing = outgoing
        self._other = other
        self._useful: bool | None = None  # found out by the first block that is large enough
        self._checked = -1

    def change(self, block: Run) -> tuple[Array, Element] | None:
        """What differs in this block; None where the other version is no help, or not there any more."""
        size_bytes = block.end_bytes - block.start_bytes
        too_small = size_bytes < min(_SAMPLE_BYTES, self._outgoing.size_bytes // 2)
        if self._useful is False or (self._useful is None and too_small):
            return None
        leaf = block.start_bytes // LEAF_BYTES
        if leaf != self._checked:
            try:
                self._other.verify_leaf(leaf)
            except AssetChanged:
                self._useful = False
                return None
            self._checked = leaf
        array = self._outgoing.array(block)
        changed, element = delta.change(array, block.element, self._other.array(block))
        if self._useful is None:
            self._useful = _encoded_bytes(changed) < _WORTHWHILE * _encoded_bytes(array)
        return (changed, element) if self._useful else None

    def wrap(self, block: Run, inner: bytes) -> bytes:
        """The chunk of a block whose change was encoded to `inner`."""
        count = (block.end_bytes - block.start_bytes) // block.element.size_bytes
        name = self._other.fingerprint[:8] + block.start_bytes.to_bytes(8, "little")
        return delta.wrap(inner, block.element, (count,), name)


def _encoded_bytes(array: Array) -> int:
    """About how small the middle of an array becomes."""
    octets = array.reshape(-1).view(np.uint8)
    start = max(0, (len(octets) - _SAMPLE_BYTES) // 2)
    return len(zstd.compress(octets[start : start + _SAMPLE_BYTES].data, 1))


class Sending:
    """One stream: what was ordered of a body, over one path."""

    def __init__(
        self,
        outgoing: Outgoing,
        order: Order,
        pool: Executor,
        rate_cap: RateCap,
        most_chunk_bytes: int,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> None:
        self._outgoing = outgoing
        self._ranges = order.ranges
        self._course = order.begin(time.monotonic())
        self._reference = Reference(outgoing, order.reference) if order.reference is not None else None
        self._pool = pool
        self._rate_cap = rate_cap
        self._cancelled = cancelled
        self._most_chunk_bytes = most_chunk_bytes

    def parcels(self) -> Iterator[Parcel]:
        """What to send, in order. The time until the next one is asked for counts as the path's.

        Raises:
            AssetChanged: the body is no longer what was fingerprinted; nothing of that leaf is given out.
        """
        try:
            yield from self._parcels()
        finally:  # also where the receiver left in the middle
            self._course.finished(time.monotonic())

    def _parcels(self) -> Iterator[Parcel]:
        ahead: deque[Parcel | Future[Parcel]] = deque()
        changed: AssetChanged | None = None
        try:
            for block in self._blocks():
                ahead.append(self._begin(block))
                if len(ahead) > self._course.workers or isinstance(ahead[0], Parcel):
                    yield from self._hand_over(ahead.popleft())
        except AssetChanged as error:  # what is ahead is from before it, and leaves
            changed = error
        while ahead:
            yield from self._hand_over(ahead.popleft())
        if changed is not None:
            raise changed

    def _blocks(self) -> Iterator[Run]:
        """Blocks no larger than the course has them at that moment."""
        for block in self._outgoing.blocks(self._ranges):
            position = block.start_bytes
            while position < block.end_bytes:
                size_bytes = min(self._course.chunk_bytes, self._most_chunk_bytes) // 64 * 64
                stop = min(block.end_bytes, position + size_bytes)
                yield Run(position, stop, block.element)
                position = stop

    def _begin(self, block: Run) -> Parcel | Future[Parcel]:
        if block.end_bytes - block.start_bytes < _SMALL_BYTES:
            return dataclasses.replace(self._raw(block), steered=False)
        change = self._reference.change(block) if self._reference is not None else None
        array, element = (self._outgoing.array(block), block.element) if change is None else change
        now_s = time.monotonic()
        choice = self._course.choose(array, element, now_s, _CPU.load(now_s))
        if choice is None or choice.raw:
            return self._raw(block)
        return self._pool.submit(self._encode, block, array, element, choice, change is not None)

    def _raw(self, block: Run) -> Parcel:
        memory = self._outgoing.array(Run(block.start_bytes, block.end_bytes, UINT8)).data
        return Parcel(memory, False, len(memory))

    def _encode(self, block: Run, array: Array, element: Element, choice: Choice, is_change: bool) -> Parcel:
        begin_s = time.monotonic()
        try:
            encoded = chunk.encode(array, choice.codec, choice.level, element)
        except CodecFailed:
            self._course.failed(choice)
            return self._raw(block)
        self._course.encoded(choice, array.nbytes, len(encoded), time.monotonic() - begin_s)
        if is_change and self._reference is not None:
            encoded = self._reference.wrap(block, encoded)
        if len(encoded) >= array.nbytes:
            return self._raw(block)
        return Parcel(memoryview(encoded), True, array.nbytes)

    def _hand_over(self, waiting: Parcel | Future[Parcel]) -> Iterator[Parcel]:
        parcel = waiting if isinstance(waiting, Parcel) else waiting.result()
        self._rest(self._rate_cap.delay_s(len(parcel.data), time.monotonic()))
        begin_s = time.monotonic()
        yield parcel
        now_s = time.monotonic()
        if parcel.steered:
            self._course.sent(parcel.raw_bytes, len(parcel.data), now_s - begin_s, now_s)

    def _rest(self, time_s: float) -> None:
        """Keep to the rate that was set, until another one is."""
        end_s, rate = time.monotonic() + time_s, self._rate_cap.rate_bytes_per_s
        while (left_s := end_s - time.monotonic()) > 0 and not self._cancelled():
            if self._rate_cap.rate_bytes_per_s != rate:
                return
            time.sleep(min(left_s, _NAP_S))
