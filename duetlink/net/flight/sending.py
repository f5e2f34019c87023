"""Sends a body on a Flight stream: its blocks, each plain or encoded, as the tuner decides.

    body -> blocks -> choose -> encode (pool) -> in order -> gRPC
                        ^                           |
                  controller <- how long each took -+

While gRPC sends one batch, the next ones are encoded on the pool, at most as many ahead as there are workers.
Blocks that are not encoded are sent from the sender's own memory. If the transfer is paused, batches that
were made ahead are dropped, and the leaves are verified again when it continues, since hours may have passed.
"""

from __future__ import annotations

import dataclasses
import functools
import time
from collections import deque
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import Executor, Future
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np

from duetlink.base.runtime.cpu import CpuMeter, Stopwatch
from duetlink.data.codecs import chunk, delta, zstd
from duetlink.data.codecs.base import Array
from duetlink.data.codecs.element import Element
from duetlink.data.tuning import Choice, RateCap
from duetlink.errors import AssetChanged, CodecFailed
from duetlink.net.flight.body import Outgoing
from duetlink.net.flight.fingerprint import LEAF_BYTES
from duetlink.net.flight.gate import Gate
from duetlink.net.flight.layout import Run

_CPU = CpuMeter()

# The longest single sleep, so that a cancelled call ends soon.
_NAP_S = 0.1

_SMALL_BYTES = 512  # smaller blocks are sent plain: a chunk's header and a decision cost more than they save
_SAMPLE_BYTES = 64 * 1024
_AHEAD_CHUNKS = 16  # codecs are tried on samples of so many chunks, because the columns of a table differ
_WORTHWHILE = 0.9  # differences are used only if they are smaller than this share of the block, both encoded


class StreamController(Protocol):
    """Chooses the codecs of one stream: the tuner's `CodecController`, or `PlainController`."""

    chunk_bytes: int
    workers: int

    def choose(
        self,
        array: Array,
        element: Element,
        now_s: float,
        others_load: float | None,
        sample: Callable[[], Array] | None,
    ) -> Choice | None: ...
    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None: ...
    def failed(self, choice: Choice) -> None: ...
    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None: ...
    def rested(self, now_s: float) -> None: ...
    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None: ...
    def finished(self, now_s: float) -> None: ...


class PlainController:
    """Sends everything plain."""

    def __init__(self, chunk_bytes: int = 1 << 30, workers: int = 1) -> None:
        self.chunk_bytes = chunk_bytes
        self.workers = workers

    def choose(
        self,
        array: Array,
        element: Element,
        now_s: float,
        others_load: float | None,
        sample: Callable[[], Array] | None,
    ) -> Choice | None:
        return None

    def encoded(self, choice: Choice, raw_bytes: int, encoded_bytes: int, elapsed_s: float) -> None:
        raise AssertionError("nothing is encoded")

    def failed(self, choice: Choice) -> None:
        raise AssertionError("nothing is encoded")

    def sent(self, raw_bytes: int, wire_bytes: int, elapsed_s: float, now_s: float) -> None:
        pass

    def rested(self, now_s: float) -> None:
        pass

    def decoded(self, codec_name: str, raw_bytes: int, elapsed_s: float) -> None:
        pass

    def finished(self, now_s: float) -> None:
        pass


@dataclass(frozen=True, slots=True)
class FlightBatch:
    """The bytes of one Flight batch: an encoded chunk (`codecs.chunk`), or a block of the body as it is."""

    data: memoryview
    coded: bool
    raw_bytes: int
    steered: bool = True  # True if the controller chose its codec


@dataclass(frozen=True, slots=True)
class Order:
    """A receiver's order: the `ranges` (start, end) of a body that it lacks, in order.

    `begin` makes the stream's controller, when the stream begins. `reference` is a version of the body that
    the receiver has. No bytes are sent while `gate` is shut.
    """

    ranges: Sequence[tuple[int, int]]
    begin: Callable[[float], StreamController] = lambda now_s: PlainController()
    reference: Outgoing | None = None
    gate: Gate = field(default_factory=Gate)


class Reference:
    """A version of a body that its receiver has: encodes blocks of the body as differences to it."""

    def __init__(self, outgoing: Outgoing, other: Outgoing) -> None:
        self._outgoing = outgoing
        self._other = other
        self._useful: bool | None = None  # decided at the first block that is large enough
        self._checked = -1

    def change(self, block: Run, array: Array) -> tuple[Array, Element] | None:
        """Return the differences of this block, of items `array`, to the other version.

        None if they do not help, or the other version no longer exists.
        """
        too_small = array.nbytes < min(_SAMPLE_BYTES, self._outgoing.size_bytes // 2)
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
        changed, element = delta.change(array, block.element, self._other.array(block))
        if self._useful is None:
            self._useful = _encoded_bytes(changed) < _WORTHWHILE * _encoded_bytes(array)
        return (changed, element) if self._useful else None

    def verify_again(self) -> None:
        """Verify the other version again before its next use, because it may have changed."""
        self._checked = -1

    def wrap(self, block: Run, inner: bytes) -> bytes:
        """Return the chunk of a block whose differences were encoded to `inner`."""
        count = (block.end_bytes - block.start_bytes) // block.element.size_bytes
        name = self._other.fingerprint[:8] + block.start_bytes.to_bytes(8, "little")
        return delta.wrap(inner, block.element, (count,), name)


def _encoded_bytes(array: Array) -> int:
    """Return the approximate compressed size of a sample from the middle of an array."""
    octets = array.reshape(-1).view(np.uint8)
    start = max(0, (len(octets) - _SAMPLE_BYTES) // 2)
    return len(zstd.compress(octets[start : start + _SAMPLE_BYTES].data, 1))


class Sending:
    """One stream: the ordered parts of a body, over one path."""

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
        self._gate = order.gate
        self._left_bytes = 0  # bytes of the body that were sent
        self._controller = order.begin(time.monotonic())
        self._reference = Reference(outgoing, order.reference) if order.reference is not None else None
        self._pool = pool
        self._rate_cap = rate_cap
        self._cancelled = cancelled
        self._most_chunk_bytes = most_chunk_bytes

    def batches(self) -> Iterator[FlightBatch]:
        """Yield the batches to send, in order. Waits while the gate is shut, and stops when it has ended.

        The time until the next batch is requested counts as the path's sending time.

        Raises:
            AssetChanged: the body no longer has its fingerprint; no block of the changed leaf was yielded.
        """
        ranges = self._ranges
        try:
            while True:
                if self._gate.shut:
                    if not self._gate.wait_open(self._cancelled):
                        return
                    self._resume()
                if (yield from self._batches(ranges)):
                    return
                ranges = list(_after(self._ranges, self._left_bytes))
        finally:  # also if the receiver leaves in the middle
            self._controller.finished(time.monotonic())

    def _resume(self) -> None:
        self._controller.rested(time.monotonic())
        if self._reference is not None:
            self._reference.verify_again()

    def _batches(self, ranges: Sequence[tuple[int, int]]) -> Generator[FlightBatch, None, bool]:
        """Yield batches. Return False if the gate was shut before all were sent."""
        ahead: deque[FlightBatch | Future[FlightBatch]] = deque()
        changed: AssetChanged | None = None
        try:
            for block in self._blocks(ranges):
                ahead.append(self._begin(block))
                due = len(ahead) > self._controller.workers or isinstance(ahead[0], FlightBatch)
                if due and not (yield from self._send_one(ahead.popleft())):
                    return False
        except AssetChanged as error:  # the batches made ahead are unchanged, and are still sent
            changed = error
        while ahead:
            if not (yield from self._send_one(ahead.popleft())):
                return False
        if changed is not None:
            raise changed
        return True

    def _blocks(self, ranges: Sequence[tuple[int, int]]) -> Iterator[Run]:
        """Yield blocks no larger than the controller's chunk size at that moment."""
        for block in self._outgoing.blocks(ranges):
            position = block.start_bytes
            while position < block.end_bytes:
                size_bytes = min(self._controller.chunk_bytes, self._most_chunk_bytes) // 64 * 64
                stop = min(block.end_bytes, position + size_bytes)
                yield Run(position, stop, block.element)
                position = stop

    def _begin(self, block: Run) -> FlightBatch | Future[FlightBatch]:
        array = self._outgoing.array(block)
        if array.nbytes < _SMALL_BYTES:
            return dataclasses.replace(_raw(array), steered=False)
        change = self._reference.change(block, array) if self._reference is not None else None
        content, element = (array, block.element) if change is None else change
        now_s = time.monotonic()
        ahead = functools.partial(self._outgoing.sample, block, _AHEAD_CHUNKS * self._controller.chunk_bytes)
        sample = ahead if change is None else None
        choice = self._controller.choose(content, element, now_s, _CPU.load(now_s), sample)
        if choice is None or choice.raw:
            return _raw(array)
        return self._pool.submit(self._encode, block, array, change, choice)

    def _encode(
        self, block: Run, array: Array, change: tuple[Array, Element] | None, choice: Choice
    ) -> FlightBatch:
        content, element = (array, block.element) if change is None else change
        try:
            choice.codec.load()  # not part of its speed
            stopwatch = Stopwatch()
            encoded = chunk.encode(content, choice.codec, choice.level, element)
        except (CodecFailed, ImportError):
            self._controller.failed(choice)
            return _raw(array)
        self._controller.encoded(choice, array.nbytes, len(encoded), stopwatch.elapsed_s())
        if change is not None and self._reference is not None:
            encoded = self._reference.wrap(block, encoded)
        if len(encoded) >= array.nbytes:
            return _raw(array)
        return FlightBatch(memoryview(encoded), True, array.nbytes)

    def _send_one(self, waiting: FlightBatch | Future[FlightBatch]) -> Generator[FlightBatch, None, bool]:
        """Yield one batch. Return False, without yielding, if the gate is shut."""
        batch = waiting if isinstance(waiting, FlightBatch) else waiting.result()
        rest(self._rate_cap, len(batch.data), lambda: self._cancelled() or self._gate.shut)
        if self._gate.shut:
            return False
        begin_s = time.monotonic()
        yield batch
        now_s = time.monotonic()
        self._left_bytes += batch.raw_bytes
        if batch.steered:
            self._controller.sent(batch.raw_bytes, len(batch.data), now_s - begin_s, now_s)
        return True


def rest(rate_cap: RateCap, size_bytes: int, cancelled: Callable[[], bool]) -> None:
    """Wait until `size_bytes` may be sent at the rate limit, the limit changes, or `cancelled()`."""
    now_s = time.monotonic()
    end_s, rate = now_s + rate_cap.delay_s(size_bytes, now_s), rate_cap.rate_bytes_per_s
    while (left_s := end_s - time.monotonic()) > 0 and not cancelled():
        if rate_cap.rate_bytes_per_s != rate:
            return
        time.sleep(min(left_s, _NAP_S))


def _raw(array: Array) -> FlightBatch:
    """Return the items as a plain batch."""
    return FlightBatch(chunk.as_bytes(array), False, array.nbytes)


def _after(ranges: Sequence[tuple[int, int]], size_bytes: int) -> Iterator[tuple[int, int]]:
    """Yield the parts of the ranges after their first `size_bytes`."""
    for start_bytes, end_bytes in ranges:
        skipped_bytes = min(size_bytes, end_bytes - start_bytes)
        size_bytes -= skipped_bytes
        if start_bytes + skipped_bytes < end_bytes:
            yield start_bytes + skipped_bytes, end_bytes
