"""Find the parts of a body that the receiver already has, so that only the others are sent.

The nouns:

    body        the bytes of one encoded object (`values/body.py`)
    segment     a part of a body that is the memory of one array, or plain bytes
    run         a part of a body that is cut by one rule: at rows of an array, or by content
    chunk       a piece between two cuts; its size is near the target
    target      the chunk size that the sender aims at, a power of two
    name        16 bytes that identify a chunk's content: BLAKE2b keyed with a secret of the session
    manifest    the sizes and names of all chunks of a body, which the sender announces
    held body   a body that this side keeps in memory to find chunks in

Example: a receiver holds an array of 1,000,000 float64 and is offered one with 1,000 more, a body of
8,008,064 bytes. Both bodies are cut at rows near the target, here every 8,192 bytes, so the first 976
chunks of both have the same names. Only 12,672 bytes are sent: 4,608 at the old end of the array, 8,000 of
new rows, and a header of 64:

    cuts = cut(pieces, segments)                            # sender
    manifest = Manifest(cuts, name_chunks(pieces, cuts, key))
    Manifest.from_bytes(data, body_bytes)                   # receiver: parses and checks the announcement
    find(manifest, held.bodies(), key)                      # the ranges that need not be sent

Bytes copied from held memory are not verified here: the caller that puts a body together checks the
fingerprint of the whole, since held memory may change between `find` and the copy. No I/O, no clock.
"""

from duetlink.data.dedup.cuts import Cuts, cut
from duetlink.data.dedup.find import Held, Match, find
from duetlink.data.dedup.held import HeldBodies
from duetlink.data.dedup.layout import NAME_BYTES, Run, Segment, default_target
from duetlink.data.dedup.manifest import Manifest
from duetlink.data.dedup.names import name_chunks
from duetlink.data.dedup.pieces import Body

__all__ = [
    "NAME_BYTES",
    "Body",
    "Cuts",
    "Held",
    "HeldBodies",
    "Manifest",
    "Match",
    "Run",
    "Segment",
    "cut",
    "default_target",
    "find",
    "name_chunks",
]
