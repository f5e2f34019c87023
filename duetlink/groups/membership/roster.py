"""Who was ever given a seat: names and keys in the order of their seats, and what follows from them.

Theory. Each entry carries a chain: SHA-256 of the chain before it, and of its key and name (and of its seat,
where seats before it are void). So the chain of a seat stands for everything up to it, and whoever was told
of another key, name or order for any of the seats has another one. The verifier words are made from the last
chain. The secret of a pair is X25519 (RFC 7748) of the two keys, put through HKDF (RFC 5869) with the chain
of the later of both seats: whoever introduced the two knows neither private key, and can come between them
only by giving each a key of its own, which alters the words.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF

from duetlink.base.wire.text import harmless
from duetlink.errors import RemoteProtocolError
from duetlink.groups.membership.messages import MOST_SEATS
from duetlink.net.signaling import Role, SessionKey
from duetlink.net.signaling.secret import SECRET_BYTES
from duetlink.net.signaling.wordlist import words_of

KEY_BYTES = 32
MOST_NAME = 64  # characters
_VERIFIER_BYTES = 3
# A point of low order gives no secret with any private key (RFC 7748 §6.1): one is enough to find it.
_ANY = X25519PrivateKey.from_private_bytes(bytes(range(32)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One seat: the member's public key for this group, and what it calls itself."""

    key: bytes
    name: str

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise RemoteProtocolError(f"a member's key has {KEY_BYTES} bytes, this has {len(self.key)}")
        try:
            _ANY.exchange(X25519PublicKey.from_public_bytes(self.key))
        except ValueError:
            raise RemoteProtocolError(
                f"the key of {harmless(self.name[:MOST_NAME])!r} gives no secret"
            ) from None
        object.__setattr__(self, "name", harmless(self.name[:MOST_NAME]))


@dataclass(frozen=True, slots=True)
class Roster:
    """All entries so far, by seat; grows at its end only, but for `up_to`."""

    entries: Mapping[int, Entry] = field(default_factory=dict)
    _chains: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def with_entry(self, entry: Entry, seat: int | None = None) -> Roster:
        """One seat more, the next one or a later one. Raises RemoteProtocolError if the key has a seat
        already, or the seat is not free.
        """
        seat = self.next_seat if seat is None else seat
        if any(entry.key == other.key for other in self.entries.values()):
            raise RemoteProtocolError(f"two members ({entry.name!r} is one) have the same key")
        if seat >= MOST_SEATS:
            raise RemoteProtocolError(f"a group gives out at most {MOST_SEATS} seats in its life")
        if seat < self.next_seat:
            raise RemoteProtocolError(f"seat {seat} was given twice")
        before = self._chains[self.next_seat - 1] if self._chains else b"duetlink/1 roster"
        if seat > self.next_seat:
            before += seat.to_bytes(2, "big")
        name = entry.name.encode()
        chain = hashlib.sha256(before + entry.key + len(name).to_bytes(2, "big") + name).digest()
        return Roster({**self.entries, seat: entry}, {**self._chains, seat: chain})

    def up_to(self, kept: int) -> Roster:
        """Without the seats from that one on, which an earlier host gave and not all were told of."""
        return Roster(
            {seat: entry for seat, entry in self.entries.items() if seat < kept},
            {seat: chain for seat, chain in self._chains.items() if seat < kept},
        )

    @property
    def next_seat(self) -> int:
        return max(self.entries, default=-1) + 1

    def __len__(self) -> int:
        return len(self.entries)

    def verifier(self) -> str:
        """Three words, the same for all who were told the same; a chance of 1 in 16 million to agree."""
        return words_of(self._chains[self.next_seat - 1][:_VERIFIER_BYTES])

    def pair_key(self, private: X25519PrivateKey, mine: int, theirs: int) -> SessionKey:
        """The key of the link between these two seats; the lower one takes the owner's part."""
        shared = private.exchange(X25519PublicKey.from_public_bytes(self.entries[theirs].key))
        hkdf = HKDF(SHA256(), SECRET_BYTES, salt=self._chains[max(mine, theirs)], info=b"duetlink/1 pair")
        return SessionKey.from_secret(hkdf.derive(shared), Role.OWNER if mine < theirs else Role.SCIENTIST)
