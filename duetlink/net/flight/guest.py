"""One link as the Flight server knows it: what its peer may fetch."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

from duetlink.data.tuning import RateCap
from duetlink.errors import LimitExceeded
from duetlink.net.flight.tickets import TicketTable

# At once. A peer of ours opens 8; those of a connection that was lost stay for a while. With more, one peer
# could fill the queue of the threads that encode for all.
MOST_STREAMS = 64


@dataclass(slots=True, eq=False)
class Guest:
    """Each link has a ticket table of its own: the ticket of another link is unknown in it."""

    tickets: TicketTable
    rate_cap: RateCap
    on_bytes: Callable[[bytes, int, int], None] = lambda transfer_id, raw_bytes, wire_bytes: None
    on_changed: Callable[[bytes], None] = lambda transfer_id: None
    _streams: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @contextlib.contextmanager
    def stream(self) -> Iterator[None]:
        """While one of its streams is served. Raises LimitExceeded."""
        with self._lock:
            if self._streams >= MOST_STREAMS:
                raise LimitExceeded(f"{MOST_STREAMS} streams are open; finish some before you open more")
            self._streams += 1
        try:
            yield
        finally:
            with self._lock:
                self._streams -= 1
