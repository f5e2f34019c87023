"""What a gossip asks of a network: datagrams to and from the other members, and nothing promised of them."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Sequence
from typing import Protocol

from duetlink.learning.gossip.node import Letter


class Post(Protocol):
    """One member's end. `send` and `receive` are called by one thread, `wake` and `close` by any.

    A datagram arrives at most once too often, whole or not at all, and was sent by the rank that is named.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def mtu_bytes(self) -> int:
        """The longest datagram."""

    def send(self, letters: Sequence[Letter]) -> list[Letter]:
        """Send each to its rank, without waiting; returns those for which there is no room now."""

    def receive(self, timeout_s: float) -> list[Letter]:
        """What has arrived, with the rank of the sender; waits so long for the first, or for `wake`."""

    def wake(self) -> None:
        """Have `receive` return."""

    def close(self) -> None:
        """Free everything. Safe to call twice."""


class Inbox:
    """Holds what has arrived until it is received; beyond `most`, the oldest is dropped. For any thread."""

    def __init__(self, most: int) -> None:
        self._letters: deque[Letter] = deque(maxlen=most)
        self._stirred = threading.Condition()
        self._woken = False

    def put(self, of: int, payload: bytes) -> None:
        with self._stirred:
            self._letters.append((of, payload))
            self._stirred.notify()

    def wake(self) -> None:
        with self._stirred:
            self._woken = True
            self._stirred.notify()

    def receive(self, timeout_s: float) -> list[Letter]:
        """All that is there; waits for the first."""
        with self._stirred:
            if not self._letters and not self._woken:
                self._stirred.wait(timeout_s)
            self._woken = False
            found = list(self._letters)
            self._letters.clear()
            return found
