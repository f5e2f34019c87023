"""Find the chunks of an announced body in memory that this side holds.

Held bodies are cut by the sender's rule and named again for each search, because their owner may have changed
them: a chunk that was overwritten has another name and is not found.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import NamedTuple, TypeAlias

from duetlink.data.dedup.cuts import run_sizes
from duetlink.data.dedup.fixed import chunk_bytes
from duetlink.data.dedup.gear import Gear
from duetlink.data.dedup.layout import Run, Segment, layout
from duetlink.data.dedup.manifest import Manifest
from duetlink.data.dedup.names import name
from duetlink.data.dedup.pieces import Pieces

_Chunk: TypeAlias = tuple[int, bytes]  # size and name
_Location: TypeAlias = tuple[int, int]  # source and start


class Held(NamedTuple):
    """A body that this side holds, and its segments."""

    body: memoryview
    segments: Sequence[Segment]
    fingerprint: bytes = b""  # of the body when it was kept; empty if its holder does not check for changes


@dataclass(frozen=True, slots=True)
class Match:
    """A range of the announced body that a held body contains.

    `size_bytes` bytes at `target_start` are equal to those at `source_start` of held body number `source`.
    """

    target_start: int
    size_bytes: int
    source: int
    source_start: int


def find(manifest: Manifest, held: Sequence[Held], key: bytes) -> list[Match]:
    """Return the ranges of the announced body that are held: in order, disjoint, as long as possible.

    The first of `held` that has a chunk is used, and later ones are read only for chunks that are still
    missing. Every run of a held body that could match is read once. Ranges lie within the announced body and
    within the held one, even if the manifest is malicious.
    """
    chunks = list(zip(manifest.cuts.sizes_bytes.tolist(), manifest.names, strict=True))
    wanted = set(chunks)
    first: dict[_Chunk, _Location] = {}
    held_at: dict[_Location, _Chunk] = {}
    for source, (body, segments, _) in enumerate(held):
        if len(first) == len(wanted):
            break
        for start, chunk in _chunks(manifest, body, segments, key):
            if chunk in wanted:
                first.setdefault(chunk, (source, start))
                held_at[source, start] = chunk
    return _join(chunks, first, held_at)


def _chunks(
    manifest: Manifest, body: memoryview, segments: Sequence[Segment], key: bytes
) -> Iterator[tuple[int, _Chunk]]:
    """Yield start, size and name of a held body's chunks, except those of rules that the manifest lacks."""
    target = manifest.cuts.target_bytes
    rules = {_rule(run, target) for run in manifest.cuts.runs}
    pieces, gear, start = Pieces(body), Gear(), 0
    for run in layout(pieces.size_bytes, segments, target):
        if _rule(run, target) in rules:
            ends = (start + run_sizes(pieces, start, run, target, gear).cumsum()).tolist()
            for at, end in pairwise([start, *ends]):
                yield at, (end - at, name(pieces, at, end, key))
        start += run.size_bytes


def _rule(run: Run, target_bytes: int) -> tuple[int, int]:
    """Return a key that is equal for runs that are cut alike."""
    if not run.row_bytes:
        return 0, 0
    large_row = run.row_bytes if run.row_bytes > target_bytes else 0
    return large_row, chunk_bytes(run.row_bytes, target_bytes)


def _join(
    chunks: list[_Chunk], first: dict[_Chunk, _Location], held_at: dict[_Location, _Chunk]
) -> list[Match]:
    """Merge chunks into ranges; of repeated content, the copy that continues the range before is used."""
    matches: list[Match] = []
    start = 0
    follows: _Location | None = None  # just behind the last match
    for chunk in chunks:
        size = chunk[0]
        location = first.get(chunk)
        if follows is not None and held_at.get(follows) == chunk:
            location = follows
            last = matches.pop()
            matches.append(replace(last, size_bytes=last.size_bytes + size))
        elif location is not None:
            matches.append(Match(start, size, *location))
        follows = None if location is None else (location[0], location[1] + size)
        start += size
    return matches
