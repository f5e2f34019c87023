"""The first bytes on a connection: each side proves that it knows the attempt's key.

    each side            -> greeting   magic, nonce
    each side            -> proof      HMAC-SHA256(key of its role, both nonces)
    the controlling side -> go         on one of the connections that got this far

Each role and each path has a key of its own, so a proof that is reflected, or used elsewhere, is not valid.
There may be several connections; the controlling side chooses one, as in magic-wormhole's transit protocol.
The purpose is to find the peer among strangers: TLS with pinned certificates follows.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.drivers.wire import TcpConnection

# for a stranger; and for a connection from an address of the peer, long enough to repeat lost packets
HELLO_TIMEOUT_S = 2.0
EXPECTED_TIMEOUT_S = 6.0

_MAGIC = b"duetlink carrier 1\n"
_NONCE_BYTES = 32
GREETING_BYTES = len(_MAGIC) + _NONCE_BYTES
PROOF_BYTES = 32


class CarrierHello:
    """One side of the exchange on one connection. Does no I/O."""

    def __init__(self, key: bytes, path_name: str, *, controlling: bool) -> None:
        self._controlling = controlling
        roles = ("controlled", "controlling")
        self._keys = [_mac(key, f"duetlink hello {path_name} {role}".encode()) for role in roles]
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._nonces = b""

    @property
    def greeting(self) -> bytes:
        """The bytes to send first."""
        return _MAGIC + self._nonce

    def answer(self, greeting: bytes) -> bytes:
        """Return the proof for the side that sent this greeting.

        Raises PathUnavailable if it is malformed.
        """
        if len(greeting) != GREETING_BYTES or not greeting.startswith(_MAGIC):
            raise PathUnavailable("the program that answers there is not a duetlink helper")
        nonces = [greeting[len(_MAGIC) :], self._nonce]
        self._nonces = b"".join(nonces if self._controlling else reversed(nonces))
        return self._proof(self._controlling)

    def check(self, proof: bytes) -> None:
        """Raise PathUnavailable if `proof` is not the peer's."""
        if not hmac.compare_digest(proof, self._proof(not self._controlling)):
            raise PathUnavailable("the program that answers there does not know the key of this attempt")

    @property
    def go(self) -> bytes:
        """The bytes that the controlling side sends on the connection that it chooses."""
        return _mac(self._keys[True], b"go" + self._nonces)

    def check_go(self, go: bytes) -> None:
        """Raise PathUnavailable if this is not the controlling side's `go`."""
        if not hmac.compare_digest(go, self.go):
            raise PathUnavailable("the peer sent other bytes than its choice of the connection")

    def _proof(self, controlling: bool) -> bytes:
        return _mac(self._keys[controlling], b"proof" + self._nonces)


async def exchange_proofs(wire: TcpConnection, hello: CarrierHello) -> None:
    """Exchange greetings and proofs; return when the peer's proof is valid.

    Raises PathUnavailable, or another OSError.
    """
    wire.write(hello.greeting)
    wire.write(hello.answer(await wire.read(GREETING_BYTES)))
    hello.check(await wire.read(PROOF_BYTES))


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, sha256).digest()
