"""The secrets of one member for one sum. They are made for it, used for it, and never kept.

For each pair of members a key by X25519 (RFC 7748) and HKDF (RFC 5869), whose salt is the round's digest: it
covers the epoch, the list of members, what was called and every member's key, so that two members who were
told different ones have masks that do not cancel. For each member a seed, which gives its self-mask. A pair's
key is neither shared nor told to anybody: only a self-mask can be opened.

The seed is shared among the others such that all of them together have it, and all but one of them nothing:
random bytes for each, whose exclusive or it is. A sum is finished without one member at most, so those who
are left are just those who hold its shares. Any scheme with a threshold (Shamir 1979) would be at its end
here, where all shares are needed; with a lower one, fewer members could open a mask.
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
    """Of the member of this rank, for one sum among `size` members."""

    def __init__(self, rank: int, size: int) -> None:
        self.rank = rank
        self.size = size
        self.seed = random.token_bytes(SECRET_BYTES)
        self._private = X25519PrivateKey.generate()
        dealt = [random.token_bytes(SECRET_BYTES) for _ in range(size - 2)]
        dealt.append(combine([self.seed, *dealt]))
        self._dealt = [*dealt[:rank], bytes(SECRET_BYTES), *dealt[rank:]]  # none for itself

    def introduction(self, to: int, held: Held, party: bytes) -> Introduction:
        """To the member of that rank."""
        return Introduction(
            held,
            party,
            self._private.public_key().public_bytes_raw(),
            digest("seed", self.seed),
            tuple(digest("share", share) for share in self._dealt),
            self._dealt[to],
        )

    def pair_key(self, other: int, public_key: bytes, round_: bytes, lane: int, name: str) -> bytes:
        """Raises RemoteProtocolError for a public key that gives no secret (RFC 7748 §6.1)."""
        try:
            shared = self._private.exchange(X25519PublicKey.from_public_bytes(public_key))
        except ValueError:
            raise RemoteProtocolError(f"the key of {name} is no usable X25519 key") from None
        low, high = sorted((self.rank, other))
        return _derived(shared, round_, f"pair {low} {high} lane {lane}")


def self_key(seed: bytes, rank: int, round_: bytes, lane: int) -> bytes:
    """Of the self-mask of the member of that rank."""
    return _derived(seed, round_, f"self {rank} lane {lane}")


def combine(shares: Sequence[bytes]) -> bytes:
    """The seed that all shares of it give."""
    found = 0
    for share in shares:
        found ^= int.from_bytes(share, "big")
    return found.to_bytes(SECRET_BYTES, "big")


def _derived(secret: bytes, salt: bytes, what: str) -> bytes:
    return HKDF(SHA256(), KEY_BYTES, salt=salt, info=f"duetlink/1 mask {what}".encode()).derive(secret)
