"""The record of one transfer, on either side, and the frozen snapshot of it that users see."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from duetlink.base.events import Sink, TransferFinished, TransferPaused, Word
from duetlink.base.wire.text import harmless
from duetlink.errors import TransferEnded

RUNNING, COMPLETE, CANCELLED, FAILED = "running", "complete", "cancelled", "failed"


@dataclass(frozen=True, slots=True)
class TransferStatus:
    """One transfer at one moment.

    `path` is the path of the most recent bytes. `why` says why it failed or was cancelled. `paused_here` and
    `paused_there` say which side has paused it.
    """

    name: str
    direction: str  # "in" or "out"
    size_bytes: int
    done_bytes: int
    path: str
    state: str
    duration_s: float
    wire_bytes: int = 0  # bytes that were sent for `done_bytes`
    number: int = -1  # 0, 1, 2, … on this side of a link
    why: str = ""
    paused_here: bool = False
    paused_there: bool = False
    paused_s: float = 0.0  # the part of the duration in which it was paused
    placed_bytes: int = 0  # what the sender has copied to shared memory, if it is large

    @property
    def bytes_per_s(self) -> float:
        """The average rate since the transfer began, without the time in which it was paused."""
        moving_s = self.duration_s - self.paused_s
        return self.done_bytes / moving_s if moving_s > 0 else 0.0


class Mover(Protocol):
    """The owner of running transfers: this side's exports, or its pulls."""

    def pause_transfer(self, transfer: Transfer, paused: bool) -> None:
        """Pause or resume it on this side."""

    def cancel_transfer(self, transfer: Transfer) -> None:
        """End it on both sides."""


class Transfer:
    """The running record of one transfer. Written on the loop thread; any thread may read."""

    def __init__(
        self,
        name: str,
        direction: str,
        size_bytes: int,
        elapsed_s: float = 0.0,
        number: int = -1,
        mover: Mover | None = None,
        sink: Sink | None = None,
        settle: Callable[[], None] = lambda: None,
    ) -> None:
        """`sink` receives an event when it is paused, is resumed, or has ended. `settle` is called before it
        ends: it counts bytes that have moved and are not counted yet.
        """
        self._mover = mover
        self._sink = sink
        self._settle = settle
        self._at_end: list[Callable[[], None]] = []
        self.number = number
        self.name = name
        self.direction = direction
        self.size_bytes = size_bytes
        self.done_bytes = 0
        self.wire_bytes = 0
        self.placed_bytes = 0  # what the sender has copied to shared memory, where that takes long
        self.path = ""
        self.mapped = False  # the receiver can read all of it, whatever was counted so far
        self.state = RUNNING
        self.why = ""
        self.paused_here = self.paused_there = False
        self._paused_since_s: float | None = None
        self._paused_s = 0.0  # total of the pauses that have ended
        # what it was made from, for a retry; None once it is complete: see duet/transfers.py
        self.origin: object = None
        self._started_s = time.monotonic() - elapsed_s
        self._ended_s: float | None = None

    @property
    def running(self) -> bool:
        return self.state == RUNNING

    @property
    def paused(self) -> bool:
        """True if either side has paused it."""
        return self.paused_here or self.paused_there

    def pause(self, paused: bool) -> None:
        """Pause or resume it on this side. Raises TransferEnded."""
        self._check_running()
        if self._mover is not None:
            self._mover.pause_transfer(self, paused)

    def cancel(self) -> None:
        """End it on both sides. Raises TransferEnded."""
        self._check_running()
        if self._mover is not None:
            self._mover.cancel_transfer(self)

    def set_paused(self, *, here: bool | None = None, there: bool | None = None) -> bool:
        """Record which side has paused it. Return True if that is new and must be put into effect."""
        before = self.paused_here, self.paused_there
        now = before[0] if here is None else here, before[1] if there is None else there
        if not self.running or now == before:
            return False
        self.paused_here, self.paused_there = now
        self._count_pause()
        if self._sink is not None:
            self._sink.emit(TransferPaused(self.number, here=self.paused_here, there=self.paused_there))
            self._sink.changed()
        return True

    def _count_pause(self) -> None:
        """Update the paused time, after a change of the pauses."""
        now_s = time.monotonic()
        if self.paused:
            self._paused_since_s = self._paused_since_s or now_s
        elif self._paused_since_s is not None:
            self._paused_s += now_s - self._paused_since_s
            self._paused_since_s = None

    def when_ended(self, act: Callable[[], None]) -> None:
        """Call `act` when the transfer has ended; immediately if it already has."""
        if self.running:
            self._at_end.append(act)
        else:
            act()

    def end(self, state: str, why: str = "") -> None:
        if not self.running:
            return
        self._settle()
        self.state, self.why = state, why
        self.paused_here = self.paused_there = False
        self._count_pause()
        self._ended_s = time.monotonic()
        self._mover = None  # the record outlives its mover, and must not keep its memory alive
        if state == COMPLETE:
            self.origin = None
        if self._sink is not None:
            self._sink.emit(self._finished())
            self._sink.changed()
        acts, self._at_end = self._at_end, []
        for act in acts:
            act()

    def _finished(self) -> TransferFinished:
        status = self.status()
        return TransferFinished(
            self.number,
            Word(self.direction),
            Word(self.state),
            Word(self.path),
            self.size_bytes,
            self.done_bytes,
            self.wire_bytes,
            status.duration_s,
            status.paused_s,
        )

    def _check_running(self) -> None:
        if not self.running:
            raise TransferEnded(
                f"transfer {self.number} of {self.name!r} has ended ({self.state}); only one that runs can "
                "be paused, resumed or cancelled"
            )

    def status(self) -> TransferStatus:
        until_s = time.monotonic() if self._ended_s is None else self._ended_s
        since_s = self._paused_since_s
        return TransferStatus(
            harmless(self.name),
            self.direction,
            self.size_bytes,
            self.done_bytes,
            self.path,
            self.state,
            until_s - self._started_s,
            self.wire_bytes,
            self.number,
            self.why,
            self.paused_here,
            self.paused_there,
            self._paused_s + (until_s - since_s if since_s is not None else 0.0),
            self.placed_bytes,
        )
