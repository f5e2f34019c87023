"""One link as the Flight server knows it: what its peer may fetch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from duetlink.data.tuning import RateCap
from duetlink.errors import LimitExceeded
from duetlink.net.flight.tickets import TicketTable

# Concurrent streams. Our client opens 8, and those of a lost connection stay for a while. With more, one peer
# could fill the queue of the encoding threads that all links share.
MOST_STREAMS = 64


@dataclass(slots=True, eq=False)
class Guest:
    """Each link has its own ticket table, so a ticket of another link is not valid here."""

    tickets: TicketTable
    rate_cap: RateCap
    on_bytes: Callable[[bytes, int, int], None] = lambda transfer_id, raw_bytes, wire_bytes: None
    on_changed: Callable[[bytes], None] = lambda transfer_id: None
    _streams: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """Count one stream while it is served. Raises LimitExceeded."""
        with self._lock:
            if self._streams >= MOST_STREAMS:
                raise LimitExceeded(f"{MOST_STREAMS} streams are open; finish some before you open more")
            self._streams += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1
