"""Bodies as a sender makes them: header, padding to 64 bytes, the memory of arrays."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from duetlink.data.dedup import Held, Manifest, Match, Segment, cut, find, name_chunks

KEY = b"a secret of the session"


def pack(*arrays: NDArray[np.generic], header: bytes = b"header " * 40) -> Held:
    """The body of some arrays in C order; each is a segment whose rows are those of its first axis."""
    body, segments = bytearray(header), []
    for array in arrays:
        body += bytes(-len(body) % 64)
        segments.append(Segment(len(body), array.nbytes, array.nbytes // max(len(array), 1)))
        body += array.tobytes()
    return Held(memoryview(bytes(body)), segments)


def stream(data: bytes) -> Held:
    """A body that is nothing but bytes."""
    return Held(memoryview(data), [])


def manifest_of(held: Held, key: bytes = KEY, target_bytes: int | None = None) -> Manifest:
    cuts = cut(held.body, held.segments, target_bytes)
    return Manifest(cuts, name_chunks(held.body, cuts, key))


def found_share(new: Held, *old: Held) -> float:
    """Which part of a body's bytes need not be sent to who holds the old ones; the ranges are compared."""
    data = manifest_of(new).to_bytes()
    matches = find(Manifest.from_bytes(data, new.body.nbytes), old, KEY)
    check(matches, new, old)
    return sum(match.size_bytes for match in matches) / new.body.nbytes


def check(matches: Sequence[Match], new: Held, old: Sequence[Held]) -> None:
    """Ranges are in order, disjoint, and hold what they say."""
    position = 0
    for match in matches:
        assert match.target_start >= position
        position = match.target_start + match.size_bytes
        source = old[match.source].body[match.source_start :][: match.size_bytes]
        assert len(source) == match.size_bytes > 0
        assert source == new.body[match.target_start : position]
