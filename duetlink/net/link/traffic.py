"""The transfers of one link and its byte counters, from which `statistics()` and `history()` are made."""

from __future__ import annotations

import itertools
import time
from dataclasses import dataclass

from duetlink.base.events import Sink, TransferBegan, Word
from duetlink.base.runtime.meters import RateMeter, RoundTripMeter
from duetlink.net.link.counting import Counting
from duetlink.net.link.history import Second, Seconds
from duetlink.net.link.transfer import Mover, Transfer, TransferStatus
from duetlink.net.paths.path_selector import PathStatus

_STREAMING_S = 0.5  # for this long after its last bytes, a stream counts as busy: it may slow a measurement

HISTORY = 200  # transfers that are kept; running ones are always kept


@dataclass(frozen=True, slots=True)
class Statistics:
    """A link at one moment.

    Bytes and rates count values (not control messages) as they are in memory; the `wire` fields count the
    bytes that were sent for them.
    """

    state: str
    path: str | None
    round_trip_s: float | None
    sent_bytes: int
    received_bytes: int
    sent_bytes_per_s: float
    received_bytes_per_s: float
    paths: tuple[PathStatus, ...] = ()
    transfers: tuple[TransferStatus, ...] = ()
    reconnects: int = 0
    sent_wire_bytes: int = 0
    received_wire_bytes: int = 0
    sent_wire_bytes_per_s: float = 0.0
    received_wire_bytes_per_s: float = 0.0


class Traffic:
    """Written on the loop thread only; any thread may call `statistics`, and count by `counting`."""

    def __init__(self, sink: Sink) -> None:
        """`sink` receives an event for each transfer that begins, pauses, resumes or ends."""
        self._sink = sink
        now_s = time.monotonic()
        self.round_trip = RoundTripMeter()
        self._meters = {"in": RateMeter(now_s), "out": RateMeter(now_s)}
        self._wire_meters = {"in": RateMeter(now_s), "out": RateMeter(now_s)}
        self._transfers: dict[int, Transfer] = {}  # by number, oldest first
        self._numbers = itertools.count()
        self._seconds = Seconds()
        self._streamed_s = float("-inf")  # when a stream last moved
        self.counting = Counting(self.count)

    def begin(
        self, name: str, direction: str, size_bytes: int, mover: Mover, elapsed_s: float = 0.0
    ) -> Transfer:
        """Record a new transfer, on which `elapsed_s` of work was already spent."""
        number = next(self._numbers)
        transfer = Transfer(
            name, direction, size_bytes, elapsed_s, number, mover, self._sink, self.counting.settle
        )
        self._make_room()
        self._transfers[transfer.number] = transfer
        self._sink.emit(TransferBegan(transfer.number, Word(direction), size_bytes))
        self._sink.changed()
        return transfer

    def _make_room(self) -> None:
        excess = len(self._transfers) - HISTORY + 1
        if excess > 0:  # running ones stay: a user who paused one must find it again
            ended = (known.number for known in self._transfers.values() if not known.running)
            for number in list(itertools.islice(ended, excess)):
                del self._transfers[number]

    @property
    def transfers(self) -> list[Transfer]:
        """All recorded transfers, oldest first."""
        return list(self._transfers.values())

    @property
    def busy(self) -> bool:
        """True if a transfer or a stream is moving bytes, in either direction."""
        streams_move = time.monotonic() - self._streamed_s < _STREAMING_S
        return streams_move or any(
            transfer.running and not transfer.paused for transfer in self._transfers.values()
        )

    def count(self, transfer: Transfer, size_bytes: int, wire_bytes: int) -> None:
        """Add `size_bytes` to `transfer`, for which `wire_bytes` were sent."""
        now_s = time.monotonic()
        transfer.done_bytes += size_bytes
        transfer.wire_bytes += wire_bytes
        self._meters[transfer.direction].add(size_bytes, now_s)
        self._wire_meters[transfer.direction].add(wire_bytes, now_s)
        self._seconds.count(transfer.direction, size_bytes, wire_bytes, time.time(), self._queued_bytes)

    def count_stream(self, direction: str, size_bytes: int) -> None:
        """Add `size_bytes` that moved on streams, which are not transfers."""
        now_s = self._streamed_s = time.monotonic()
        self._meters[direction].add(size_bytes, now_s)
        self._wire_meters[direction].add(size_bytes, now_s)
        self._seconds.count(direction, size_bytes, size_bytes, time.time(), self._queued_bytes)

    def round_trip_took(self, elapsed_s: float) -> None:
        """Add one measured round trip over the control channel."""
        self.round_trip.add(elapsed_s)
        self._seconds.round_trip(elapsed_s, time.time(), self._queued_bytes)

    def history(self, since_s: float = 0) -> tuple[Second, ...]:
        """Return the last 15 minutes by seconds, from `since_s` (Unix time) on, without idle seconds."""
        return self._seconds.since(since_s)

    def _queued_bytes(self) -> int:
        return sum(
            transfer.size_bytes - transfer.done_bytes
            for transfer in self._transfers.values()
            if transfer.direction == "out" and transfer.running
        )

    def statistics(
        self, state: str, path: str | None, paths: tuple[PathStatus, ...], reconnects: int = 0
    ) -> Statistics:
        now_s = time.monotonic()
        received, sent = self._meters["in"], self._meters["out"]
        received_wire, sent_wire = self._wire_meters["in"], self._wire_meters["out"]
        return Statistics(
            state,
            path,
            self.round_trip.typical_s,
            sent.total_bytes,
            received.total_bytes,
            sent.rate_bytes_per_s(now_s),
            received.rate_bytes_per_s(now_s),
            paths,
            tuple(transfer.status() for transfer in self.transfers),
            reconnects,
            sent_wire.total_bytes,
            received_wire.total_bytes,
            sent_wire.rate_bytes_per_s(now_s),
            received_wire.rate_bytes_per_s(now_s),
        )
