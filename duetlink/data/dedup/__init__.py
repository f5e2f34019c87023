"""What the peer already has does not travel again: chunks, their names, and what is kept to find them in.

    cuts = cut(pieces, segments)                            sender: where the body is cut, by which rule
    manifest = Manifest(cuts, name_chunks(pieces, cuts, key))
    Manifest.from_bytes(data, body_bytes)                   receiver: what was announced, checked
    find(manifest, held.bodies(), key)                      ranges that need not be sent

What is copied from held memory is not verified here: whoever puts a body together checks the fingerprint of
the whole, since held memory may change between `find` and the copy. No I/O, no clock.
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
