"""Statements that all honest members hear alike, or of which they know who told them differently.

Theory. A member can tell two others different things over links that only those two see. So each signs what
it states, and all tell all what they have heard (the echo broadcast of Goldwasser and Lindell, "Secure
multi-party computation without agreement", 2005, with the signatures of Dolev and Strong, "Authenticated
algorithms for Byzantine agreement", 1983). Two statements that one member has signed in one step convict it,
whoever shows them, and nobody can be convicted by others. If one honest member goes on with a statement and
another one with a second one, each has told the other its own: both know it. Members that collude can still
show one honest member what they keep from another.
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
    """What all have stated in one step, by rank; `liars` are those who have stated different things."""

    statements: list[bytes]
    liars: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Statements:
    """Of one round, at one member. Every step of a round has a name of its own."""

    round: bytes
    private: Ed25519PrivateKey
    keys: Sequence[bytes]  # Ed25519, by rank

    async def declare(self, wire: RoundOperations, step: str, data: bytes) -> Declared:
        """State `data`, which is as long at all members, and hear what the others state.

        Raises:
            RemoteProtocolError: a member has not signed what it stated, or passed on what nobody signed; it
                names the member.
        """
        size = len(self.keys)
        mine = data + self.private.sign(self._text(step, data))
        told = await wire.tell_each(step, [mine] * size)
        for rank, each in enumerate(told):
            if not self._is_signed(step, rank, each):
                raise RemoteProtocolError(f"{wire.name(rank)} has not signed its {step}")
        heard = await wire.tell_each(f"{step} of all", [b"".join(told)] * size)
        liars = set()
        for of, passed_on in enumerate(heard):
            for rank, known in enumerate(told):
                other = passed_on[rank * len(mine) : (rank + 1) * len(mine)]
                if other[:-SIGNATURE_BYTES] == known[:-SIGNATURE_BYTES]:
                    continue
                if not self._is_signed(step, rank, other):
                    raise RemoteProtocolError(
                        f"{wire.name(of)} passed on {step} that {wire.name(rank)} has not signed"
                    )
                liars.add(rank)
        return Declared([each[:-SIGNATURE_BYTES] for each in told], tuple(sorted(liars)))

    def _text(self, step: str, data: bytes) -> bytes:
        """What is signed: no statement of another step or round is one of this."""
        return digest("statement", self.round + digest(step, data))

    def _is_signed(self, step: str, rank: int, told: bytes) -> bool:
        data, signature = told[:-SIGNATURE_BYTES], told[-SIGNATURE_BYTES:]
        try:
            Ed25519PublicKey.from_public_bytes(self.keys[rank]).verify(signature, self._text(step, data))
        except (InvalidSignature, ValueError):  # a key that is none signs nothing
            return False
        return True
