"""What is known of one transfer, on either side, and the frozen snapshot of it that others see."""

from __future__ import annotations

import time
from dataclasses import dataclass

RUNNING, COMPLETE, CANCELLED, FAILED = "running", "complete", "cancelled", "failed"


@dataclass(frozen=True, slots=True)
class TransferStatus:
    """One transfer as of now. `path` is the one that carried the most recent bytes."""

    name: str
    direction: str  # "in" or "out"
    size_bytes: int
    done_bytes: int
    path: str
    state: str
    duration_s: float
    wire_bytes: int = 0  # what had to move for `done_bytes`

    @property
    def bytes_per_s(self) -> float:
        """The average rate since the transfer began."""
        return self.done_bytes / self.duration_s if self.duration_s > 0 else 0.0


class Transfer:
    """The running record of one transfer. Written on the loop thread; any thread may read."""

    def __init__(self, name: str, direction: str, size_bytes: int, elapsed_s: float = 0.0) -> None:
        self.name = name
        self.direction = direction
        self.size_bytes = size_bytes
        self.done_bytes = 0
        self.wire_bytes = 0
        self.path = ""
        self.state = RUNNING
        self._started_s = time.monotonic() - elapsed_s
        self._ended_s: float | None = None

    def end(self, state: str) -> None:
        if self.state == RUNNING:
            self.state = state
            self._ended_s = time.monotonic()

    def status(self) -> TransferStatus:
        until_s = time.monotonic() if self._ended_s is None else self._ended_s
        return TransferStatus(
            self.name,
            self.direction,
            self.size_bytes,
            self.done_bytes,
            self.path,
            self.state,
            until_s - self._started_s,
            self.wire_bytes,
        )
