"""What every member tells every other before a secure sum: keys made for it, and what it still holds.

All fields have fixed sizes, so that nothing is allocated by a member's word.
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
    """How far a round has come that a loss has interrupted."""

    NONE = 0  # there is none, or it has been burnt
    COMMITTED = 1  # this member has all that it was to receive, and has said so
    REVEALED = 2  # this member has told its self-mask


def digest(label: str, data: bytes) -> bytes:
    """SHA-256 of data in a role of its own."""
    return hashlib.sha256(b"duetlink/1 " + label.encode() + b"\0" + data).digest()


@dataclass(frozen=True, slots=True)
class Held:
    """A round that a member could still finish."""

    stage: Stage = Stage.NONE
    round: bytes = bytes(DIGEST_BYTES)


@dataclass(frozen=True, slots=True)
class Introduction:
    """Of one member to one other. All of it but `share` is the same for all."""

    held: Held
    party: bytes  # digest of the members, their epoch and what was called
    public_key: bytes  # X25519, made for this sum
    seed_digest: bytes  # commits it to the seed of its self-mask
    share_digests: tuple[bytes, ...]  # by rank of the holder
    share: bytes  # the receiver's share of the seed

    @staticmethod
    def size_bytes(members: int) -> int:
        return 1 + 4 * DIGEST_BYTES + members * DIGEST_BYTES + SECRET_BYTES

    @property
    def public_digest(self) -> bytes:
        """Stands for what the member tells all alike for this sum."""
        return digest("introduction", self.public_key + self.seed_digest + b"".join(self.share_digests))

    def to_wire(self) -> bytes:
        fixed = struct.pack("<B", self.held.stage) + self.held.round + self.party
        return fixed + self.public_key + self.seed_digest + b"".join(self.share_digests) + self.share

    @classmethod
    def from_wire(cls, data: bytes, members: int, of: str) -> Introduction:
        """Of `members` members; `of` names the sender. Raises RemoteProtocolError."""
        if len(data) != cls.size_bytes(members):
            raise RemoteProtocolError(f"{of} introduced itself with {len(data)} bytes")
        if data[0] not in list(Stage):
            raise RemoteProtocolError(f"{of} says that its last round is at stage {data[0]}: there is none")
        fields = [data[at : at + DIGEST_BYTES] for at in range(1, len(data) - SECRET_BYTES, DIGEST_BYTES)]
        held, party, public_key, seed_digest, *share_digests = fields
        share = data[-SECRET_BYTES:]
        return cls(Held(Stage(data[0]), held), party, public_key, seed_digest, tuple(share_digests), share)


def round_digest(party: bytes, introductions: Sequence[Introduction]) -> bytes:
    """Names a round: new whenever one member's keys are, and the same where all have seen the same ones."""
    return digest("round", party + b"".join(each.public_digest for each in introductions))
