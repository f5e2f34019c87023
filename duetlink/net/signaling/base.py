"""The contract: a mailbox carries opaque bytes between exactly two sides that may not be online together."""

from __future__ import annotations

import enum
from abc import ABC, abstractmethod
from types import TracebackType
from typing import Literal, Self

MAX_MESSAGE_BYTES = 64 * 1024

Mood = Literal["happy", "wrong-code", "lonely", "errory"]
"""Why a side leaves: paired; the other did not know the words; nobody came; anything else."""


class Role(enum.StrEnum):
    """The two sides of a duet: the owner launches, the scientist joins."""

    OWNER = "owner"
    SCIENTIST = "scientist"

    @property
    def other(self) -> Role:
        return Role.SCIENTIST if self is Role.OWNER else Role.OWNER


class Mailbox(ABC):
    """One side's end of a mailbox.

    Messages arrive whole, once and in the order sent, and those sent before the other side came wait for it.
    Nothing here is secret or authentic: whoever runs the mailbox can read, alter and drop messages. One task
    at a time may send and one may receive. `duetlink.testing.signaling.MailboxContract` tests this contract.
    """

    @abstractmethod
    async def send(self, message: bytes) -> None:
        """Hand one message over; returning does not mean that it has arrived.

        Raises SignalingRefused above `MAX_MESSAGE_BYTES` or another limit of the mailbox, LinkClosed after
        `close`, and what `receive` raises once the mailbox has ended (or drops the message then).
        """

    @abstractmethod
    async def receive(self) -> bytes:
        """The next message; waits for it. Cancelling loses no message.

        Every message sent before the end is returned first; then each call raises how it ended: LinkClosed
        (the other side or this one closed), WrongCode (the other side closed with mood "wrong-code"),
        PairingTimeout (the mailbox expired), SignalingUnavailable (the server went away) or SignalingRefused.
        """

    @abstractmethod
    async def close(self, mood: Mood = "happy") -> None:
        """Leave and free everything, in bounded time; a second call does nothing. Never raises DuetError.

        The other side still receives what was sent, then learns of the mood. A waiting `receive` of this side
        raises LinkClosed.
        """

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close("happy" if error is None else "errory")
