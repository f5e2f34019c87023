"""Pairing by hand if no signaling server can be reached: one text each way, over any chat.

The owner's text contains a random secret, so it must go over a channel to which only the two people can
write: an attacker who can *replace* texts there can impersonate either side. An attacker who can only *read*
them learns the two introductions but no key: the session key also needs an X25519 exchange (RFC 7748). It
depends on both texts' fresh public keys, so no two answers to one text are sealed under the same key.
"""

from __future__ import annotations

import base64
import hashlib
import re
import secrets

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.kdf.hkdf import HKDF
from google.protobuf.message import DecodeError

from duetlink.errors import LocalProtocolError, MalformedCode, WrongCode
from duetlink.net.signaling import schema_pb2 as pb
from duetlink.net.signaling.base import Role
from duetlink.net.signaling.endings import check_size
from duetlink.net.signaling.hello import SignalingHello, negotiate
from duetlink.net.signaling.pairing import Paired, open_introduction, seal_introduction
from duetlink.net.signaling.secret import PROTOCOL, SECRET_BYTES, SessionKey

PREFIX = "duet1:"
MAX_BLOB_CHARACTERS = 128 * 1024
_CHECKSUM_BYTES = 4
_PUBLIC_KEY_BYTES = 32


class PasteOwner:
    """The owner's half: give `blob` to the scientist, then their answer to `accept`."""

    def __init__(self, hello: SignalingHello, first: bytes) -> None:
        self._hello = hello
        self._secret = secrets.token_bytes(SECRET_BYTES)
        self._private = X25519PrivateKey.generate()
        self._done = False
        check_size(first)
        self.blob = _pack(
            pb.PasteBlob(
                secret=self._secret,
                public_key=self._private.public_key().public_bytes_raw(),
                # this key seals only one message, so it need not depend on the scientist's public key
                sealed=seal_introduction(SessionKey.from_secret(self._secret, Role.OWNER), hello, first),
            )
        )

    def accept(self, answer: str) -> Paired:
        """Read the scientist's text. After MalformedCode or WrongCode another text may be tried.

        Raises MalformedCode for a damaged text, WrongCode for an answer to another text, IncompatiblePeer.
        """
        if self._done:
            raise LocalProtocolError("this pairing has had its answer; make a new one")
        blob = _unpack(answer)
        if blob.secret:
            raise MalformedCode("this is an owner's text; paste the answer that the scientist's side shows")
        key = _session_key(self._secret, self._private, blob.public_key, Role.OWNER)
        try:
            hello, payload = open_introduction(key, blob.sealed)
        except WrongCode:
            raise WrongCode(
                "this answer belongs to another text than the one shown here; paste the newest"
            ) from None
        self._done = True
        protocol, features = negotiate(self._hello, hello)
        return Paired(key, hello, payload, protocol, features)

    def __repr__(self) -> str:
        return "<PasteOwner>"


class PasteScientist:
    """The scientist's half, made from the owner's text.

    `paired` is set at once; `answer` is for the owner.

    Raises MalformedCode for a damaged text, WrongCode for an altered one, IncompatiblePeer.
    """

    def __init__(self, blob: str, hello: SignalingHello) -> None:
        opened = _unpack(blob)
        if len(opened.secret) != SECRET_BYTES:
            raise MalformedCode("this is not an owner's text; paste the one that the owner's launch() shows")
        private = X25519PrivateKey.generate()
        key = _session_key(opened.secret, private, opened.public_key, Role.SCIENTIST)
        their_hello, payload = open_introduction(
            SessionKey.from_secret(opened.secret, Role.SCIENTIST), opened.sealed
        )
        protocol, features = negotiate(hello, their_hello)
        self._hello = hello
        self._public = private.public_key().public_bytes_raw()
        self._answered = False
        self.paired = Paired(key, their_hello, payload, protocol, features)

    def answer(self, payload: bytes) -> str:
        """Return the text for the owner. Call it once."""
        if self._answered:
            raise LocalProtocolError("this pairing has been answered; ask the owner for a new text")
        check_size(payload)
        self._answered = True
        sealed = seal_introduction(self.paired.key, self._hello, payload)
        return _pack(pb.PasteBlob(public_key=self._public, sealed=sealed))


def _session_key(secret: bytes, private: X25519PrivateKey, public: bytes, role: Role) -> SessionKey:
    if len(public) != _PUBLIC_KEY_BYTES:
        raise MalformedCode("the text holds no valid key; copy it again")
    try:
        shared = private.exchange(X25519PublicKey.from_public_bytes(public))
    except ValueError:  # a point of low order
        raise MalformedCode("the text holds no valid key; copy it again") from None
    mine = private.public_key().public_bytes_raw()
    owners, scientists = (mine, public) if role is Role.OWNER else (public, mine)
    info = f"{PROTOCOL} paste ".encode() + owners + scientists
    return SessionKey.from_secret(
        HKDF(SHA256(), SECRET_BYTES, salt=None, info=info).derive(secret + shared), role
    )


def _pack(blob: pb.PasteBlob) -> str:
    body = blob.SerializeToString()
    body += hashlib.sha256(body).digest()[:_CHECKSUM_BYTES]
    return PREFIX + base64.urlsafe_b64encode(body).decode().rstrip("=")


def _unpack(text: str) -> pb.PasteBlob:
    """Parse a text. Raises MalformedCode.

    White space anywhere, and quotes around it, are ignored, since mail and chat programs add them.
    """
    if len(text) > MAX_BLOB_CHARACTERS:
        raise MalformedCode(f"a text of {len(text)} characters; at most {MAX_BLOB_CHARACTERS} are read")
    compact = "".join(text.split()).strip("'\"`<>")
    if not compact.startswith(PREFIX):
        raise MalformedCode(f"the text must start with {PREFIX}; copy the whole of it")
    encoded = compact.removeprefix(PREFIX)
    if not re.fullmatch(r"[A-Za-z0-9_-]+", encoded) or len(encoded) % 4 == 1:
        raise MalformedCode("the text is damaged or incomplete; copy the whole of it")
    raw = base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4))
    body, checksum = raw[:-_CHECKSUM_BYTES], raw[-_CHECKSUM_BYTES:]
    if not body or hashlib.sha256(body).digest()[:_CHECKSUM_BYTES] != checksum:
        raise MalformedCode("the text is damaged or incomplete; copy the whole of it")
    try:
        return pb.PasteBlob.FromString(body)
    except DecodeError:
        raise MalformedCode("the text is not a pairing text of this version of duetlink") from None
