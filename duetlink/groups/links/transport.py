"""The `Transport` contract: the messages between members of one epoch that collective operations need."""

from __future__ import annotations

from typing import Protocol

from duetlink.net.streams.frames import Message as Message


class Transport(Protocol):
    """Ordered, reliable messages between every two members of one epoch.

    Methods are called on the loop thread. Members are numbered by rank, 0 to size - 1. A member does not send
    to itself. Messages from one member to another arrive in the order in which they were sent, each once and
    unchanged. The order among messages of different senders is not defined.
    """

    @property
    def rank(self) -> int:
        """This member's rank."""

    @property
    def size(self) -> int:
        """The number of members in the epoch."""

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        """Send one message. Returns when the memory of `body` may be changed again.

        Waits while the receiver is far behind, so that the bytes in flight stay bounded.

        Raises:
            PeerLost: that member is lost, or the epoch has been revoked because another one is.
        """

    async def receive(self, of: int) -> Message:
        """Return the next message from that member. Only one call at a time may wait for each member.

        Raises:
            PeerLost: that member is lost, or the epoch has been revoked because another one is.
            RemoteProtocolError: the member sent a malformed message; the epoch is revoked.
        """
