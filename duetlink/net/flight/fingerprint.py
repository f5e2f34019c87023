"""The fingerprint of an encoded value: a 16-byte digest, computed leaf by leaf.

The bytes are cut into leaves of LEAF_BYTES; the fingerprint is XXH3-128 over the leaves' XXH3-128 digests. So
leaves can be digested by several threads, and as they arrive. It detects accidental changes and mix-ups, not
attackers: on the way, the bytes are authenticated by TLS or protected by the kernel.
"""

from __future__ import annotations

from collections.abc import Iterable

import xxhash

LEAF_BYTES = 4 * 1024 * 1024


class Fingerprint:
    """The digest of a byte string that is passed in pieces of any size, in order."""

    def __init__(self) -> None:
        self._root = xxhash.xxh3_128()
        self._leaf = xxhash.xxh3_128()
        self._leaf_room = LEAF_BYTES

    def update(self, piece: memoryview) -> None:
        """Add the next piece. Releases the GIL while it reads."""
        position = 0
        while position < len(piece):
            part = piece[position : position + self._leaf_room]
            self._leaf.update(part)
            position += len(part)
            self._leaf_room -= len(part)
            if self._leaf_room == 0:
                self._root.update(self._leaf.digest())
                self._leaf.reset()
                self._leaf_room = LEAF_BYTES

    def digest(self) -> bytes:
        """Return the 16 bytes for the pieces so far."""
        root = self._root.copy()
        if self._leaf_room < LEAF_BYTES:
            root.update(self._leaf.digest())
        return root.digest()


def leaf_digest(pieces: Iterable[memoryview]) -> bytes:
    """Return the digest of one leaf, whose pieces together have at most LEAF_BYTES."""
    leaf = xxhash.xxh3_128()
    for piece in pieces:
        leaf.update(piece)
    return leaf.digest()


def join_leaves(digests: Iterable[bytes]) -> bytes:
    """Return the fingerprint of the byte string whose leaves have these digests, in order."""
    return xxhash.xxh3_128(b"".join(digests)).digest()
