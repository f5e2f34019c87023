"""The network of a gossip: unreliable datagrams to and from the other members."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from duetlink_gossip.base import AddressedDatagram


class Post(Protocol):
    """One member's end of the network. One thread calls `send` and `receive`; any may call `wake` and
    `close`.

    A datagram arrives whole or not at all, perhaps twice, and was sent by the named rank.
    """

    @property
    def rank(self) -> int: ...

    @property
    def size(self) -> int: ...

    @property
    def mtu_bytes(self) -> int:
        """The longest datagram, in bytes."""

    def send(self, datagrams: Sequence[AddressedDatagram]) -> list[AddressedDatagram]:
        """Send each datagram to its rank, without waiting; returns those for which there is no room now."""

    def receive(self, timeout_s: float) -> list[AddressedDatagram]:
        """Return arrived datagrams with their sender's rank; waits up to `timeout_s` for the first, or for
        `wake`.
        """

    def wake(self) -> None:
        """Make `receive` return."""

    def close(self) -> None:
        """Free everything. Safe to call twice."""
