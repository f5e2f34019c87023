"""The contract of datagrams. For what is of no use when it is late: gossip, sketches, measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Datagrams(ABC):
    """One end. Methods belong to the loop thread.

    Each datagram arrives once, unchanged, or not at all; nothing is said of their order. The peer, and nobody
    else, has sent what `receive` returns.
    """

    @property
    @abstractmethod
    def mtu_bytes(self) -> int:
        """The longest payload; what is not longer goes in one packet."""

    @abstractmethod
    def send(self, payload: bytes) -> None:
        """Send one datagram. Never waits: beyond the pace that the path allows it is dropped, and counted in
        `dropped`. Without a connection all are.

        Raises:
            LocalProtocolError: the payload is longer than `mtu_bytes`.
            LinkClosed, PeerLost: the link is closed for good.
        """

    @abstractmethod
    async def receive(self) -> bytes:
        """The next datagram, waiting for one. A queue of bounded length holds those that nobody has received
        yet; where it is full, the oldest is dropped.

        Raises:
            LinkClosed, PeerLost: the link is closed for good.
        """

    @property
    @abstractmethod
    def dropped(self) -> int:
        """How many this side has not sent, since they were beyond the pace."""

    @property
    @abstractmethod
    def loss(self) -> float | None:
        """The share of what this side has sent in the last seconds that did not arrive, 0 to 1, as the peer
        tells. None while it has told nothing.
        """

    @property
    @abstractmethod
    def delivered_bytes_per_s(self) -> float | None:
        """How fast this side's payload has arrived in the last seconds, as the peer tells; None as `loss`."""
