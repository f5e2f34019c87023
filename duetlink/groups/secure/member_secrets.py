"""The secrets of one member for one sum. They are made for the sum, and not kept after it.

Each pair of members has a key, made by X25519 (RFC 7748) and HKDF (RFC 5869). The salt is the round's digest,
which covers the epoch, the list of members, the arguments of the call and every member's key: if two members
received different ones, their masks do not cancel. Each member also has a seed, from which its self-mask is
made. A pair's key is neither shared nor sent, so only a self-mask can be opened.

The seed is split into shares for the other members. All of them together can compute it, all but one of them
learn nothing: the shares are random bytes whose exclusive or is the seed. A sum is finished without at most
one member, so the members that are left are exactly the holders of its shares. Shamir's scheme (1979) with
the threshold that is needed here, all shares, would be no better; with a lower threshold, fewer members could
open a mask.
"""

from __future__ import annotations

import secrets as random
from collections.abc import Sequence

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from duetlink.errors import RemoteProtocolError
from duetlink.groups.secure.introduction import SECRET_BYTES, Held, Introduction, digest
from duetlink.groups.secure.keystream import KEY_BYTES


class Secrets:
    """The secrets of the member with this rank, for one sum among `size` members."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.seed = random.token_bytes(SECRET_BYTES)
        self._private = X25519PrivateKey.generate()
        dealt = [random.token_bytes(SECRET_BYTES) for _ in range(size - 2)]
        dealt.append(combine([self.seed, *dealt]))
        self._dealt = [*dealt[:rank], bytes(SECRET_BYTES), *dealt[rank:]]  # none for itself

    def introduction(self, to: int, held: Held, terms_digest: bytes) -> Introduction:
        """Make the introduction for the member of rank `to`."""
        return Introduction(
            held,
            terms_digest,
            self._private.public_key().public_bytes_raw(),
            digest("seed", self.seed),
            tuple(digest("share", share) for share in self._dealt),
            self._dealt[to],
        )

    def pair_key(self, other: int, public_key: bytes, round_: bytes, number: int, name: str) -> bytes:
        """Derive the key of the pair mask with the member of rank `other`, for one array of a round.

        Raises RemoteProtocolError, naming `name`, for a public key that gives no secret (RFC 7748 §6.1).
        """
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public_key))
        except ValueError:
            raise RemoteProtocolError(f"the key of {name} is not a usable X25519 key") from None
        low, high = sorted((self.rank, other))
        return _derived(shared, round_, f"pair {low} {high} lane {number}")


def self_key(seed: bytes, rank: int, round_: bytes, number: int) -> bytes:
    """Derive the key of a member's self-mask, for one array of a round."""
    return _derived(seed, round_, f"self {rank} lane {number}")


def combine(shares: Sequence[bytes]) -> bytes:
    """Compute a seed from all of its shares."""
    found = 0
    for share in shares:
        found ^= int.from_bytes(share, "big")
    return found.to_bytes(SECRET_BYTES, "big")


def _derived(secret: bytes, salt: bytes, what: str) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=salt, info=f"duetlink/1 mask {what}".encode()).derive(secret)
