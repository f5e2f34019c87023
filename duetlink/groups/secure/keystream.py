"""Masks: keystreams of AES-256 in counter mode, added to arrays of unsigned integers modulo their width.

Each key makes one keystream, which is used once, so the counter begins at 0 and needs no nonce. A keystream
can start at any multiple of 16 bytes, so that a member can remove a mask from one block alone.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.ciphers import Cipher, CipherContext, algorithms, modes
from numpy.typing import NDArray

Residues = NDArray[np.unsignedinteger[Any]]

KEY_BYTES = 32
ALIGNED_ITEMS = 16  # 16 items of 4 or 8 bytes are whole blocks of the cipher
_CIPHER_BLOCK_BYTES = 16
# A keystream, the zeros that it is made from and a piece of the array fit a core's own cache.
_CHUNK_BYTES = 128 * 1024
_ZEROS = bytes(_CHUNK_BYTES)


def _from(key: bytes, byte: int) -> CipherContext:
    counter = (byte // _CIPHER_BLOCK_BYTES).to_bytes(_CIPHER_BLOCK_BYTES, "big")
    return Cipher(algorithms.AES(key), modes.CTR(counter)).encryptor()


def mask(array: Residues, added: Sequence[bytes], taken_off: Sequence[bytes], first_item: int = 0) -> None:
    """Add the keystreams of the keys `added` to the array and subtract those of `taken_off`, in place.

    `first_item`, a multiple of 16, is the position in the keystreams at which the array begins.
    """
    start = first_item * array.itemsize
    streams: list[tuple[CipherContext, np.ufunc]] = [(_from(key, start), np.add) for key in added]
    streams += [(_from(key, start), np.subtract) for key in taken_off]
    chunk_items = _CHUNK_BYTES // array.itemsize
    buffer = bytearray(_CHUNK_BYTES + _CIPHER_BLOCK_BYTES)  # the library requires room for one block more
    for at in range(0, len(array), chunk_items):
        piece = array[at : at + chunk_items]
        size = piece.nbytes
        made = np.frombuffer(buffer, array.dtype, len(piece))
        for stream, change in streams:
            stream.update_into(_ZEROS if size == _CHUNK_BYTES else _ZEROS[:size], buffer)
            change(piece, made, out=piece)


def at(key: bytes, items: Sequence[int]) -> Residues:
    """Return the keystream's 64-bit items at these positions."""
    found = np.empty(len(items), "<u8")
    for number, item in enumerate(items):
        piece = np.zeros(ALIGNED_ITEMS, "<u8")
        mask(piece, [key], [], item // ALIGNED_ITEMS * ALIGNED_ITEMS)
        found[number] = piece[item % ALIGNED_ITEMS]
    return found
