"""The contract of datagrams, for data that is useless when late: gossip, sketches, measurements."""

from __future__ import annotations

from abc import ABC, abstractmethod


class Datagrams(ABC):
    """One end of a datagram service. Methods belong to the loop thread.

    Each datagram arrives once and unchanged, or not at all. Their order is not kept. `receive` returns only
    what the peer has sent: packets of third parties are rejected.
    """

    @property
    @abstractmethod
    def mtu_bytes(self) -> int:
        """The longest payload, in bytes. A payload of this size travels in one packet."""

    @abstractmethod
    def send(self, payload: bytes) -> None:
        """Send one datagram without waiting.

        A datagram beyond the pace that the path allows is dropped and counted in `dropped`. Without a
        connection every datagram is dropped.

        Raises:
            LocalProtocolError: the payload is longer than `mtu_bytes`.
            LinkClosed, PeerLost: the link is closed for good.
        """

    @abstractmethod
    async def receive(self) -> bytes:
        """Wait for the next datagram and return its payload.

        Datagrams that have not been received yet wait in a queue of bounded length; when it is full, the
        oldest is dropped.

        Raises:
            LinkClosed, PeerLost: the link is closed for good.
        """

    @property
    @abstractmethod
    def dropped(self) -> int:
        """The number of datagrams that this side did not send because they were beyond the pace."""

    @property
    @abstractmethod
    def loss(self) -> float | None:
        """The share (0 to 1) of the datagrams sent in the last seconds that did not arrive.

        It comes from the peer's reports; None before the first one.
        """

    @property
    @abstractmethod
    def delivered_bytes_per_s(self) -> float | None:
        """The rate at which this side's payload arrived in the last seconds, by the peer's reports; None
        before the first one.
        """
