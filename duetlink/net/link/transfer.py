"""What is known of one transfer, on either side, and the frozen snapshot of it that others see."""

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
    """One transfer as of now. `path` is the one that carried the most recent bytes, `why` says why it failed
    or was cancelled, and `paused_here` and `paused_there` who keeps it back.
    """

    name: str
    direction: str  # "in" or "out"
    size_bytes: int
    done_bytes: int
    path: str
    state: str
    duration_s: float
    wire_bytes: int = 0  # what had to move for `done_bytes`
    number: int = -1  # 0, 1, 2, … on this side of a link
    why: str = ""
    paused_here: bool = False
    paused_there: bool = False
    paused_s: float = 0.0  # how much of the duration it was paused

    @property
    def bytes_per_s(self) -> float:
        """The average rate since the transfer began, without the time in which it was paused."""
        moving_s = self.duration_s - self.paused_s
        return self.done_bytes / moving_s if moving_s > 0 else 0.0


class Mover(Protocol):
    """What moves transfers: this side's exports, or its pulls."""

    def pause_transfer(self, transfer: Transfer, paused: bool) -> None:
        """Let this side keep it back, or no longer."""

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
    ) -> None:
        """`sink` hears when it is paused, is resumed, and has ended."""
        self._mover = mover
        self._sink = sink
        self._at_end: list[Callable[[], None]] = []
        self.number = number
        self.name = name
        self.direction = direction
        self.size_bytes = size_bytes
        self.done_bytes = 0
        self.wire_bytes = 0
        self.path = ""
        self.mapped = False  # the receiver can read all of it, whatever has been counted
        self.state = RUNNING
        self.why = ""
        self.paused_here = self.paused_there = False
        self._paused_since_s: float | None = None
        self._paused_s = 0.0  # in pauses that have ended
        # what it was made from and can be made from anew, unless it is complete: see duet/transfers.py
        self.origin: object = None
        self._started_s = time.monotonic() - elapsed_s
        self._ended_s: float | None = None

    @property
    def running(self) -> bool:
        return self.state == RUNNING

    @property
    def paused(self) -> bool:
        """Whether either side keeps it back."""
        return self.paused_here or self.paused_there

    def pause(self, paused: bool) -> None:
        """Let this side keep it back, or no longer. Raises TransferEnded."""
        self._check_running()
        if self._mover is not None:
            self._mover.pause_transfer(self, paused)

    def cancel(self) -> None:
        """End it on both sides. Raises TransferEnded."""
        self._check_running()
        if self._mover is not None:
            self._mover.cancel_transfer(self)

    def set_paused(self, *, here: bool | None = None, there: bool | None = None) -> bool:
        """Note who keeps it back; whether that is new, and is to be put into effect."""
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
        """A pause may have begun or ended."""
        now_s = time.monotonic()
        if self.paused:
            self._paused_since_s = self._paused_since_s or now_s
        elif self._paused_since_s is not None:
            self._paused_s += now_s - self._paused_since_s
            self._paused_since_s = None

    def when_ended(self, act: Callable[[], None]) -> None:
        """Call `act` once it has ended, at once where it has."""
        if self.running:
            self._at_end.append(act)
        else:
            act()

    def end(self, state: str, why: str = "") -> None:
        if not self.running:
            return
        self.state, self.why = state, why
        self.paused_here = self.paused_there = False
        self._count_pause()
        self._ended_s = time.monotonic()
        self._mover = None  # the record outlives what moved it, and must not hold its memory
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
        )
