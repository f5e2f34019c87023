"""Two sides that have been paired meet again at a mailbox, and describe their next connection to each other.

    both       -> both        nonce
    scientist  -> owner       sealed(offer)
    owner      -> scientist   sealed(answer)

Theory. The place where they meet, and the secret that they prove, come from the session key (HKDF, RFC 5869);
the key of one meeting also from both sides' fresh nonces, so that nothing said at an earlier one opens here.
Whoever runs the mailbox learns that the same two have met again, and can keep them apart; that is all.
"""

from __future__ import annotations

import asyncio
import secrets
from typing import Self

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from duetlink.errors import RemoteProtocolError
from duetlink.net.signaling.base import Mailbox, Role
from duetlink.net.signaling.secret import SECRET_BYTES, SessionKey

PLACE_BYTES = 32
NONCE_BYTES = 32

ANSWER_TIMEOUT_S = 15.0  # once both sides are there


def meeting_place(key: SessionKey) -> bytes:
    """Where the two sides of this key meet: 32 bytes."""
    return key.derive("place", PLACE_BYTES)


class Meeting:
    """Both sides are there; what they say from here on is sealed under a key of this meeting alone."""

    def __init__(self, mailbox: Mailbox, key: SessionKey) -> None:
        self._mailbox = mailbox
        self._key = key

    @classmethod
    async def wait(cls, mailbox: Mailbox, key: SessionKey) -> Self:
        """Wait for the other side. Raises what the mailbox raises, RemoteProtocolError."""
        mine = secrets.token_bytes(NONCE_BYTES)
        await mailbox.send(mine)
        theirs = await mailbox.receive()
        if len(theirs) != NONCE_BYTES:
            raise RemoteProtocolError(f"a nonce has {NONCE_BYTES} bytes, this has {len(theirs)}")
        salt = mine + theirs if key.role is Role.OWNER else theirs + mine
        hkdf = HKDF(SHA256(), SECRET_BYTES, salt=salt, info=b"duetlink/1 reunion")
        secret = hkdf.derive(key.derive("reunion", SECRET_BYTES))
        return cls(mailbox, SessionKey.from_secret(secret, key.role))

    async def send(self, message: bytes) -> None:
        """Raises what the mailbox raises."""
        await self._mailbox.send(self._key.seal(message))

    async def receive(self) -> bytes:
        """The other side's next message.

        Raises WrongCode if it is not the peer of this key, RemoteProtocolError if the message was altered,
        TimeoutError if none came, and what the mailbox raises.
        """
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return self._key.open(await self._mailbox.receive())
