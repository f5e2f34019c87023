"""Adds up the bytes that threads move, and passes the sums to the loop thread a few times a second.

A wake-up of the loop thread for every block of a fast transfer costs both sides processor time.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

from duetlink.net.link.transfer import Transfer

EVERY_S = 0.05  # people and meters see no difference


class Counting:
    """The counts of one link. Construct it on the loop thread."""

    def __init__(self, count: Callable[[Transfer, int, int], None]) -> None:
        """`count(transfer, size_bytes, wire_bytes)` is called on the loop thread, for running transfers."""
        self._count = count
        self._loop = asyncio.get_running_loop()
        self._lock = threading.Lock()
        self._sums: dict[Transfer, tuple[int, int]] = {}
        self._expected = False  # a call of `_pass_on` is due

    def add(self, transfer: Transfer, size_bytes: int, wire_bytes: int) -> None:
        """Count `size_bytes` of a transfer, for which `wire_bytes` were sent. Any thread may call.

        The first bytes after a silence are passed on at once, later ones within EVERY_S.
        """
        with self._lock:
            known_bytes, known_wire_bytes = self._sums.get(transfer, (0, 0))
            self._sums[transfer] = known_bytes + size_bytes, known_wire_bytes + wire_bytes
            expected, self._expected = self._expected, True
        if not expected:
            self._loop.call_soon_threadsafe(self._pass_on)

    def settle(self) -> None:
        """Pass on all that was counted so far. Call it on the loop thread before a transfer ends."""
        with self._lock:
            sums, self._sums = self._sums, {}
        for transfer, (size_bytes, wire_bytes) in sums.items():
            if transfer.running:
                self._count(transfer, size_bytes, wire_bytes)

    def _pass_on(self) -> None:
        with self._lock:
            self._expected = bool(self._sums)
        if self._expected:
            self.settle()
            self._loop.call_later(EVERY_S, self._pass_on)
