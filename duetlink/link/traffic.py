"""Every transfer of one link, and the bytes both ways: what `statistics()` is made from."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass

from duetlink.link.transfer import RUNNING, Transfer, TransferStatus
from duetlink.paths.ladder import PathStatus
from duetlink.runtime.meters import RateMeter, RoundTripMeter

HISTORY = 200  # transfers that the record keeps


@dataclass(frozen=True, slots=True)
class Statistics:
    """A link at one moment. Bytes and rates count values (not control messages): as they are in memory, and,
    as `wire`, as they were sent.
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
    """Written on the loop thread only; `statistics` may be asked for on any."""

    def __init__(self) -> None:
        now_s = time.monotonic()
        self.round_trip = RoundTripMeter()
        self._meters = {"in": RateMeter(now_s), "out": RateMeter(now_s)}
        self._wire_meters = {"in": RateMeter(now_s), "out": RateMeter(now_s)}
        self._transfers: deque[Transfer] = deque(maxlen=HISTORY)

    def begin(self, name: str, direction: str, size_bytes: int, elapsed_s: float = 0.0) -> Transfer:
        """A new transfer, into which `elapsed_s` of work have gone already."""
        transfer = Transfer(name, direction, size_bytes, elapsed_s)
        self._transfers.append(transfer)
        return transfer

    @property
    def busy(self) -> bool:
        """Whether a transfer runs, in either direction."""
        return any(transfer.state == RUNNING for transfer in self._transfers)

    def count(self, transfer: Transfer, size_bytes: int, wire_bytes: int) -> None:
        """`size_bytes` more of `transfer` are there, for which `wire_bytes` had to move."""
        now_s = time.monotonic()
        transfer.done_bytes += size_bytes
        transfer.wire_bytes += wire_bytes
        self._meters[transfer.direction].add(size_bytes, now_s)
        self._wire_meters[transfer.direction].add(wire_bytes, now_s)

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
            tuple(transfer.status() for transfer in list(self._transfers)),
            reconnects,
            sent_wire.total_bytes,
            received_wire.total_bytes,
            sent_wire.rate_bytes_per_s(now_s),
            received_wire.rate_bytes_per_s(now_s),
        )
