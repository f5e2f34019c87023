"""The first bytes on a connection: each side proves that it knows the attempt's key, before anything else.

    each side           -> greeting   magic, nonce
    each side           -> proof      HMAC-SHA256(key of its role, both nonces)
    the controlling one -> go         on one of the connections that got so far

Each role and each rung has a key of its own, so that a proof that is sent back, or used elsewhere, is none.
Several connections may come about; the controlling side chooses, as in magic-wormhole's transit protocol. The
purpose is to find the peer among strangers: what follows is TLS between pinned certificates.
"""

from __future__ import annotations

import hmac
import secrets
from hashlib import sha256

from duetlink.errors import PathUnavailable
from duetlink.net.carrier.drivers.wire import TcpConnection

# of a stranger; and of who comes from where the peer is expected, as often as lost packets are sent again
HELLO_TIMEOUT_S = 2.0
EXPECTED_TIMEOUT_S = 6.0

_MAGIC = b"duetlink carrier 1\n"
_NONCE_BYTES = 32
GREETING_BYTES = len(_MAGIC) + _NONCE_BYTES
PROOF_BYTES = 32


class CarrierHello:
    """One side of it on one connection; knows of no network."""

    def __init__(self, key: bytes, rung: str, *, controlling: bool) -> None:
        self._controlling = controlling
        roles = ("controlled", "controlling")
        self._keys = [_mac(key, f"duetlink hello {rung} {role}".encode()) for role in roles]
        self._nonce = secrets.token_bytes(_NONCE_BYTES)
        self._nonces = b""

    @property
    def greeting(self) -> bytes:
        """To be sent first."""
        return _MAGIC + self._nonce

    def answer(self, greeting: bytes) -> bytes:
        """The proof to be sent to whoever has greeted so. Raises PathUnavailable for what is no greeting."""
        if len(greeting) != GREETING_BYTES or not greeting.startswith(_MAGIC):
            raise PathUnavailable("who answers there is not a duetlink helper")
        nonces = [greeting[len(_MAGIC) :], self._nonce]
        self._nonces = b"".join(nonces if self._controlling else reversed(nonces))
        return self._proof(self._controlling)

    def check(self, proof: bytes) -> None:
        """Raises PathUnavailable for what is not the peer's proof."""
        if not hmac.compare_digest(proof, self._proof(not self._controlling)):
            raise PathUnavailable("who answers there does not know the key of this attempt")

    @property
    def go(self) -> bytes:
        """To be sent by the controlling side on the connection that it chooses."""
        return _mac(self._keys[True], b"go" + self._nonces)

    def check_go(self, go: bytes) -> None:
        """Raises PathUnavailable for what is not the controlling side's choice."""
        if not hmac.compare_digest(go, self.go):
            raise PathUnavailable("the peer sent something else in place of its choice")

    def _proof(self, controlling: bool) -> bytes:
        return _mac(self._keys[controlling], b"proof" + self._nonces)


async def exchange_proofs(wire: TcpConnection, hello: CarrierHello) -> None:
    """Return when the peer has proven itself. Raises PathUnavailable, or another OSError."""
    wire.write(hello.greeting)
    wire.write(hello.answer(await wire.read(GREETING_BYTES)))
    hello.check(await wire.read(PROOF_BYTES))


def _mac(key: bytes, message: bytes) -> bytes:
    return hmac.new(key, message, sha256).digest()
