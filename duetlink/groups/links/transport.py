"""What a collective operation needs of the network: messages between the members of one epoch."""

from __future__ import annotations

from typing import Protocol

from duetlink.net.streams.frames import Message as Message


class Transport(Protocol):
    """Ordered, reliable messages between every two members of one epoch.

    Its methods belong to the loop thread. Members are numbered by rank, 0 to size - 1. A member does not send
    to itself. From one member to another, messages arrive in the order in which they were sent, each once and
    unchanged; nothing is said of the order among several senders.
    """

    @property
    def rank(self) -> int:
        """This member's number."""

    @property
    def size(self) -> int:
        """How many members the epoch has."""

    async def send(self, to: int, head: bytes, body: memoryview) -> None:
        """Send one message. Returns when the memory of `body` may be changed again.

        Waits while the receiver is far behind, so that what is under way stays bounded.

        Raises:
            PeerLost: that member is gone, or the epoch has been revoked because another is.
        """

    async def receive(self, of: int) -> Message:
        """The next message from that member. Only one call at a time may wait for each member.

        Raises:
            PeerLost: that member is gone, or the epoch has been revoked because another is.
            RemoteProtocolError: the member sent what is no message; the epoch is revoked.
        """
