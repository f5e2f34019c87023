"""Names of chunks: BLAKE2b (RFC 7693), keyed with a secret of the session.

Without the key, a name does not reveal whether a guessed content is present (Harnik et al., "Side channels in
cloud services", IEEE Security & Privacy 2010). Each session has other names.
"""

from __future__ import annotations

import hashlib
from itertools import pairwise

from duetlink.data.dedup.cuts import Cuts
from duetlink.data.dedup.layout import NAME_BYTES
from duetlink.data.dedup.pieces import Body, Pieces
from duetlink.errors import LocalProtocolError

MIN_KEY_BYTES = 16
MAX_KEY_BYTES = hashlib.blake2b.MAX_KEY_SIZE


def name_chunks(body: Body, cuts: Cuts, key: bytes) -> list[bytes]:
    """Return the name of each chunk of a body, which is read once; hashing releases the GIL.

    Raises:
        LocalProtocolError: the key is shorter than 16 bytes or longer than 64.
    """
    pieces = Pieces(body)
    return [name(pieces, start, end, key) for start, end in pairwise([0, *cuts.ends])]


def name(pieces: Pieces, start: int, end: int, key: bytes) -> bytes:
    if not MIN_KEY_BYTES <= len(key) <= MAX_KEY_BYTES:
        raise LocalProtocolError(f"a key of {len(key)} bytes; {MIN_KEY_BYTES} to {MAX_KEY_BYTES} are needed")
    digest = hashlib.blake2b(digest_size=NAME_BYTES, key=key, person=b"chunk")
    for part in pieces.parts(start, end):
        digest.update(part)
    return digest.digest()
