"""The roster: the names and public keys of all seats, the verifier words and the keys of pairs.

Theory. The roster is a hash chain. The hash of an entry is SHA-256 of the previous hash, the key and the name
(and of the seat number, if seats before it are void). The hash of one seat therefore commits to everything
up to it: two members that were given a different key, name or order for any seat have different hashes. The
verifier words are made from the last hash. The secret of a pair is X25519 (RFC 7748) of the two keys, put
through HKDF (RFC 5869) with the hash of the later of the two seats as salt. The host that introduced the two
knows neither private key; it can intercept their link only by giving each of them a false key, and then the
verifier words differ.
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
# A point of low order gives an all-zero secret with any private key (RFC 7748 §6.1): one key finds it.
_ANY = X25519PrivateKey.from_private_bytes(bytes(range(32)))


@dataclass(frozen=True, slots=True)
class Entry:
    """One seat: the member's X25519 public key for this group, and the name that it gives itself.

    Raises RemoteProtocolError for a key that is not 32 bytes or is a point of low order. The name is cut to
    64 characters, and characters that could alter a display are replaced.
    """

    key: bytes
    name: str

    def __post_init__(self) -> None:
        if len(self.key) != KEY_BYTES:
            raise RemoteProtocolError(f"a member's key has {KEY_BYTES} bytes, this one has {len(self.key)}")
        try:
            _ANY.exchange(X25519PublicKey.from_public_bytes(self.key))
        except ValueError:
            raise RemoteProtocolError(
                f"the key of {harmless(self.name[:MOST_NAME])!r} gives no secret"
            ) from None
        object.__setattr__(self, "name", harmless(self.name[:MOST_NAME]))


@dataclass(frozen=True, slots=True)
class Roster:
    """All entries so far, by seat. Immutable: `with_entry` and `up_to` return new rosters."""

    entries: Mapping[int, Entry] = field(default_factory=dict)
    _chains: Mapping[int, bytes] = field(default_factory=dict, repr=False)

    def with_entry(self, entry: Entry, seat: int | None = None) -> Roster:
        """Return a roster with one more entry, at the next seat or at a later one.

        Raises RemoteProtocolError if the key already has a seat, the seat was given before, or the group has
        given out all `MOST_SEATS` seats.
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
        """Return a roster of the seats below `kept`.

        A new host uses it to void the later seats: an earlier host gave them, and some members were not
        informed of them.
        """
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
        """Return three words that are equal at all members with this roster.

        Different rosters give the same words with a probability of 1 in 16 million (24 bits).
        """
        return words_of(self._chains[self.next_seat - 1][:_VERIFIER_BYTES])

    def pair_key(self, private: X25519PrivateKey, mine: int, theirs: int) -> SessionKey:
        """Derive the session key of the link between two seats; the lower seat has the owner's role in it."""
        shared = private.exchange(X25519PublicKey.from_public_bytes(self.entries[theirs].key))
        hkdf = HKDF(SHA256(), SECRET_BYTES, salt=self._chains[max(mine, theirs)], info=b"duetlink/1 pair")
        return SessionKey.from_secret(hkdf.derive(shared), Role.OWNER if mine < theirs else Role.SCIENTIST)
