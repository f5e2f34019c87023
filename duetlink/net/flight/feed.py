"""What the Flight server serves beside bodies: parcels without an end, made while they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol


class Feed(Protocol):
    """One pull, on a thread of the server."""

    def parcels(self) -> Iterator[tuple[bytes, bytes | memoryview]]:
        """A table and bodies, see `net/streams/frames.py`; waits for the next one, and ends with its feed.

        Something comes at least every few seconds: that a call was cancelled is noticed only by sending.
        """
