"""The first message of a secure sum: fresh keys and commitments, and any interrupted round still held.

All fields have fixed sizes, so no size that a member sends decides about an allocation.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from duetlink.errors import RemoteProtocolError

DIGEST_BYTES = 32
SECRET_BYTES = 32


class Stage(IntEnum):
    """The progress of a round that a loss has interrupted."""

    NONE = 0  # no round, or one that will never be opened
    COMMITTED = 1  # this member has received everything, and has announced that
    REVEALED = 2  # this member has sent the seed of its self-mask


def digest(label: str, data: bytes) -> bytes:
    """Return the SHA-256 of `data`, separated from other uses of the hash by `label`."""
    return hashlib.sha256(b"duetlink/1 " + label.encode() + b"\0" + data).digest()


@dataclass(frozen=True, slots=True)
class Held:
    """An interrupted round that a member could still finish: its stage, and its digest."""

    stage: Stage = Stage.NONE
    round: bytes = bytes(DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class Introduction:
    """One member's introduction to another one. All fields but `share` are the same for all receivers."""

    held: Held
    terms_digest: bytes  # digest of the members, their epoch and the arguments of the call
    public_key: bytes  # X25519, made for this sum
    seed_digest: bytes  # commitment to the seed of the self-mask
    share_digests: tuple[bytes, ...]  # commitments to the shares of the seed, by rank of the holder
    share: bytes  # the receiver's share of the seed

    @staticmethod
    def size_bytes(members: int) -> int:
        return 1 + 4 * DIGEST_BYTES + members * DIGEST_BYTES + SECRET_BYTES

    @property
    def public_digest(self) -> bytes:
        """A digest of the fields that are made for this sum and are the same for all receivers."""
        return digest("introduction", self.public_key + self.seed_digest + b"".join(self.share_digests))

    def to_wire(self) -> bytes:
        fixed = struct.pack("<B", self.held.stage) + self.held.round + self.terms_digest
        return fixed + self.public_key + self.seed_digest + b"".join(self.share_digests) + self.share

    @classmethod
    def from_wire(cls, data: bytes, members: int, of: str) -> Introduction:
        """Parse an introduction in a group of `members`; errors name the sender `of`.

        Raises RemoteProtocolError.
        """
        if len(data) != cls.size_bytes(members):
            raise RemoteProtocolError(f"{of} introduced itself with {len(data)} bytes")
        if data[0] not in list(Stage):
            raise RemoteProtocolError(f"{of} reports a round at the unknown stage {data[0]}")
        fields = [data[at : at + DIGEST_BYTES] for at in range(1, len(data) - SECRET_BYTES, DIGEST_BYTES)]
        held, terms_digest, public_key, seed_digest, *share_digests = fields
        share = data[-SECRET_BYTES:]
        return cls(
            Held(Stage(data[0]), held), terms_digest, public_key, seed_digest, tuple(share_digests), share
        )


def round_digest(terms_digest: bytes, introductions: Sequence[Introduction]) -> bytes:
    """Return the digest that identifies a round.

    It is equal at two members if they have received the same keys and commitments from everybody.
    """
    return digest("round", terms_digest + b"".join(each.public_digest for each in introductions))
