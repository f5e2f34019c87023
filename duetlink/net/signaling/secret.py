"""Derives a strong key from a session code: SPAKE2 (RFC 9382 family), HKDF-SHA256 and ChaCha20-Poly1305.

SPAKE2 lets two sides that share a weak password agree on a strong key. One run gives an attacker, even the
signaling server, one guess. After a wrong guess the two sides have unrelated keys, so the first sealed
message does not open. Each side of a run has its own sealing key and counts its messages. The counter is the
nonce and is never sent, so a repeated, reordered, dropped or reflected message does not open.
"""

from __future__ import annotations

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from spake2 import SPAKE2_A, SPAKE2_B

from duetlink.errors import LocalProtocolError, RemoteProtocolError, WrongCode
from duetlink.net.signaling.base import Role
from duetlink.net.signaling.code import SessionCode
from duetlink.net.signaling.wordlist import words_of

PROTOCOL = "duetlink/1"
SECRET_BYTES = 32
PAKE_BYTES = 33  # one side byte and a compressed Ed25519 point
MAX_DERIVED_BYTES = 255 * 32  # RFC 5869 §2.3
_VERIFIER_BYTES = 3


class KeyAgreement:
    """One side of one SPAKE2 run: send `message`, and give the other side's message to `finish`.

    Good for one guess.
    """

    def __init__(self, code: SessionCode, role: Role) -> None:
        kind = SPAKE2_A if role is Role.OWNER else SPAKE2_B
        self._role = role
        self._spake = kind(
            "-".join(code.words).encode(),
            idA=f"{PROTOCOL} owner {code.nameplate}".encode(),
            idB=f"{PROTOCOL} scientist {code.nameplate}".encode(),
        )
        self.message: bytes = self._spake.start()
        self._finished = False

    def finish(self, message: bytes) -> SessionKey:
        """Return the session key. Call it once. The first `open` shows if both sides have the same key.

        Raises WrongCode if the message is not one of SPAKE2, or is this side's own message reflected.
        """
        if self._finished:
            raise LocalProtocolError("a key agreement is good for one guess; start a new pairing")
        self._finished = True
        if len(message) != PAKE_BYTES:
            raise WrongCode(f"a key exchange message has {PAKE_BYTES} bytes, this has {len(message)}")
        try:
            secret: bytes = self._spake.finish(message)
        except Exception:  # spake2 raises bare Exceptions, ValueErrors and its own for bad points
            raise WrongCode("the other side sent no valid key exchange message") from None
        return SessionKey(secret, self._role)

    def __repr__(self) -> str:
        return f"<KeyAgreement {self._role}>"


class SessionKey:
    """The secret that the two sides share after pairing.

    Seals messages and derives further keys; never shows itself.

    Not thread-safe: seal and open count messages.
    """

    def __init__(self, secret: bytes, role: Role) -> None:
        if len(secret) != SECRET_BYTES:
            raise LocalProtocolError(f"a session secret has {SECRET_BYTES} bytes, this has {len(secret)}")
        self.role = role
        self._secret = secret
        self._sealer = ChaCha20Poly1305(self._expand(f"seal {role}", SECRET_BYTES))
        self._opener = ChaCha20Poly1305(self._expand(f"seal {role.other}", SECRET_BYTES))
        self._sealed = 0
        self._opened = 0

    @classmethod
    def from_secret(cls, secret: bytes, role: Role) -> SessionKey:
        """Make a key from 32 random bytes that both sides have.

        Never make two keys of one role from the same bytes.
        """
        return cls(secret, role)

    def seal(self, message: bytes) -> bytes:
        """Encrypt and authenticate a message, which becomes 16 bytes longer.

        The other side must open in order.
        """
        nonce = self._sealed.to_bytes(12, "big")
        self._sealed += 1
        return self._sealer.encrypt(nonce, message, None)

    def open(self, sealed: bytes) -> bytes:
        """Return the message that the other side sealed next.

        Raises WrongCode if the first message does not open (the keys differ), RemoteProtocolError if a later
        one does not (altered, repeated, reordered or reflected). After a failure, the genuine message still
        opens.
        """
        try:
            message = self._opener.decrypt(self._opened.to_bytes(12, "big"), sealed, None)
        except (InvalidTag, ValueError):
            if self._opened == 0:
                raise WrongCode("the words do not match, or a message was altered on the way") from None
            raise RemoteProtocolError(
                "a sealed message was altered, repeated or reordered on the way"
            ) from None
        self._opened += 1
        return message

    def derive(self, label: str, size_bytes: int) -> bytes:
        """Return a further key, the same on both sides.

        Keys with different labels reveal nothing about each other.
        """
        if not 1 <= size_bytes <= MAX_DERIVED_BYTES:
            raise LocalProtocolError(f"1 to {MAX_DERIVED_BYTES} bytes can be derived, not {size_bytes}")
        return self._expand(f"derive {label}", size_bytes)

    def verifier(self) -> str:
        """Return three words, the same on both sides, to compare aloud.

        Different keys agree with 1 in 16 million.
        """
        return words_of(self._expand("verifier", _VERIFIER_BYTES))

    def _expand(self, purpose: str, size_bytes: int) -> bytes:
        return HKDF(SHA256(), size_bytes, salt=None, info=f"{PROTOCOL} {purpose}".encode()).derive(
            self._secret
        )

    def __repr__(self) -> str:
        return f"<SessionKey {self.role}>"

    def __reduce__(self) -> str:
        raise TypeError("a SessionKey is not pickled: it is a secret")
