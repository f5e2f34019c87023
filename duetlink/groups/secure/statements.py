"""Signed statements that are the same at all honest members, or else reveal the member that lied.

Theory. A member can send different statements to two others, over links that only those two see. So each
member signs its statement, and all members forward all statements that they have received (the echo broadcast
of Goldwasser and Lindell, "Secure multi-party computation without agreement", 2005, with the signatures of
Dolev and Strong, "Authenticated algorithms for Byzantine agreement", 1983). Two different statements that one
member has signed in the same step convict it, no matter who presents them, and no member can be convicted by
others. If two honest members received different statements of a third, each has forwarded its own to the
other, so both know it. Members that collude can still show one honest member a statement that they keep from
another.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from duetlink.errors import RemoteProtocolError
from duetlink.groups.secure.introduction import digest
from duetlink.groups.secure.masked_round import RoundOperations

SIGNATURE_BYTES = 64
PUBLIC_KEY_BYTES = 32


@dataclass(frozen=True, slots=True)
class Declared:
    """The statements of one step, by rank; `liars` are the ranks that signed two different ones."""

    statements: list[bytes]
    liars: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statements:
    """The signed statements of one round, at one member. Every step of a round has a name of its own."""

    round: bytes  # digest of the round
    private: Ed25519PrivateKey
    keys: Sequence[bytes]  # Ed25519, by rank

    async def declare(self, wire: RoundOperations, step: str, data: bytes) -> Declared:
        """Send the signed statement `data` to all members, and collect theirs. All have the same length.

        Raises:
            RemoteProtocolError: a member's signature is invalid, or it forwarded a statement without a valid
                signature; the text names the member.
        """
        size = len(self.keys)
        mine = data + self.private.sign(self._text(step, data))
        received = await wire.send_each(step, [mine] * size)
        for rank, each in enumerate(received):
            if not self._is_signed(step, rank, each):
                raise RemoteProtocolError(f"{wire.name(rank)} has not signed its {step}")
        forwarded = await wire.send_each(f"{step} of all", [b"".join(received)] * size)
        liars = set()
        for of, copies in enumerate(forwarded):
            for rank, known in enumerate(received):
                other = copies[rank * len(mine) : (rank + 1) * len(mine)]
                if other[:-SIGNATURE_BYTES] == known[:-SIGNATURE_BYTES]:
                    continue
                if not self._is_signed(step, rank, other):
                    raise RemoteProtocolError(
                        f"{wire.name(of)} passed on {step} that {wire.name(rank)} has not signed"
                    )
                liars.add(rank)
        return Declared([each[:-SIGNATURE_BYTES] for each in received], tuple(sorted(liars)))

    def _text(self, step: str, data: bytes) -> bytes:
        """Return the bytes to sign, which bind the statement to its step and round."""
        return digest("statement", self.round + digest(step, data))

    def _is_signed(self, step: str, rank: int, received: bytes) -> bool:
        data, signature = received[:-SIGNATURE_BYTES], received[-SIGNATURE_BYTES:]
        try:
            Ed25519PublicKey.from_public_bytes(self.keys[rank]).verify(signature, self._text(step, data))
        except (InvalidSignature, ValueError):  # ValueError: the public key is invalid
            return False
        return True
