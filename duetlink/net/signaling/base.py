"""The contract of a mailbox: it carries opaque bytes between two sides that may not be online together."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Literal, Self

MAX_MESSAGE_BYTES = 64 * 1024

Mood = Literal["happy", "wrong-code", "lonely", "errory"]
"""Why a side leaves: it is paired; the other side did not know the words; no one came; any other reason."""


class Role(enum.StrEnum):
    """The two sides of a duet: the owner launches, the scientist joins."""

    OWNER = "owner"
    SCIENTIST = "scientist"

    @property
    def other(self) -> Role:
        return Role.SCIENTIST if self is Role.OWNER else Role.OWNER


class Mailbox(ABC):
    """One side's end of a mailbox.

    Messages arrive whole, once and in the order sent; those sent before the other side has come wait for it.
    Nothing here is secret or authentic: the operator of the mailbox can read, alter and drop messages. One
    task at a time may send, and one may receive. `duetlink.testing.signaling.MailboxContract` tests this
    contract.
    """

    @abstractmethod
    async def send(self, message: bytes) -> None:
        """Send one message. When this returns, it may not have arrived yet.

        Raises SignalingRefused above `MAX_MESSAGE_BYTES` or another limit of the mailbox, and LinkClosed
        after `close`. Once the mailbox has ended, it raises what `receive` raises, or drops the message.
        """

    @abstractmethod
    async def receive(self) -> bytes:
        """Wait for the next message and return it. Cancelling loses no message.

        Messages sent before the end are returned first. Then each call raises how the mailbox ended:
        LinkClosed (either side closed), WrongCode (the other side closed with mood "wrong-code"),
        PairingTimeout (the mailbox expired), SignalingUnavailable (the server went away) or SignalingRefused.
        """

    @abstractmethod
    async def close(self, mood: Mood = "happy") -> None:
        """Leave and free everything, in bounded time. A second call does nothing. Never raises DuetError.

        The other side still receives what was sent, then the mood. A waiting `receive` of this side raises
        LinkClosed.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close("happy" if error is None else "errory")
