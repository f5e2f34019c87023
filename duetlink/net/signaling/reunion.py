"""Two sides that were paired meet again at a mailbox, and exchange descriptions of their next connection.

    both       -> both        nonce
    scientist  -> owner       sealed(offer)
    owner      -> scientist   sealed(answer)

The meeting place, and the secret that both sides prove to know, are derived from the session key (HKDF, RFC
5869). The key of one meeting also depends on both sides' fresh nonces, so messages of an earlier meeting do
not open. The operator of the mailbox learns that the same two sides have met again, and can keep them apart,
but nothing more.
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

ANSWER_TIMEOUT_S = 15.0  # from the arrival of the second side


def meeting_place(key: SessionKey) -> bytes:
    """Return the 32 bytes of the meeting place for this key."""
    return key.derive("place", PLACE_BYTES)


class Meeting:
    """A meeting at which both sides have arrived. Messages are sealed under a key of this meeting only."""

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
        """Send a sealed message. Raises what the mailbox raises."""
        await self._mailbox.send(self._key.seal(message))

    async def receive(self) -> bytes:
        """Wait for the other side's next message and return it.

        Raises WrongCode if it is not the peer of this key, RemoteProtocolError if the message was altered,
        TimeoutError if none came within ANSWER_TIMEOUT_S, and what the mailbox raises.
        """
        async with asyncio.timeout(ANSWER_TIMEOUT_S):
            return self._key.open(await self._mailbox.receive())
