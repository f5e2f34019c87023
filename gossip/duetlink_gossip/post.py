"""What a gossip asks of a network: datagrams to and from the other members, and nothing promised of them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duetlink_gossip.base import ReceivedOffer


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

    def send(self, letters: Sequence[ReceivedOffer]) -> list[ReceivedOffer]:
        """Send each to its rank, without waiting; returns those for which there is no room now."""

    def receive(self, timeout_s: float) -> list[ReceivedOffer]:
        """What has arrived, with the rank of the sender; waits so long for the first, or for `wake`."""

    def wake(self) -> None:
        """Have `receive` return."""

    def close(self) -> None:
        """Free everything. Safe to call twice."""
