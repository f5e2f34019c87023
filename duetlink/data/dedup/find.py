"""What of an announced body lies in memory here already.

Held bodies are cut by the sender's rule and named anew each time: their owner may have changed them. What no
longer has its name is not found.
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
_Place: TypeAlias = tuple[int, int]  # source and start


class Held(NamedTuple):
    """A body that this side holds, and what it is made of."""

    body: memoryview
    segments: Sequence[Segment]
    fingerprint: bytes = b""  # when it was taken, where its holder wants to know whether it is as it was


@dataclass(frozen=True, slots=True)
class Match:
    """`size_bytes` bytes of the announced body, and where they lie: in which held body, from where on."""

    target_start: int
    size_bytes: int
    source: int
    source_start: int


def find(manifest: Manifest, held: Sequence[Held], key: bytes) -> list[Match]:
    """Ranges of the announced body that are held, in order, disjoint, as long as they can be.

    The first of `held` that has a chunk is taken, and later ones are read only for what is still missing. All
    of a held body that could match is read once. Ranges lie within the body and within the held one,
    whatever the manifest says.
    """
    chunks = list(zip(manifest.cuts.sizes_bytes.tolist(), manifest.names, strict=True))
    wanted = set(chunks)
    first: dict[_Chunk, _Place] = {}
    there: dict[_Place, _Chunk] = {}
    for source, (body, segments, _) in enumerate(held):
        if len(first) == len(wanted):
            break
        for start, chunk in _chunks(manifest, body, segments, key):
            if chunk in wanted:
                first.setdefault(chunk, (source, start))
                there[source, start] = chunk
    return _join(chunks, first, there)


def _chunks(
    manifest: Manifest, body: memoryview, segments: Sequence[Segment], key: bytes
) -> Iterator[tuple[int, _Chunk]]:
    """Where a held body's chunks start, and what they are; not those of rules that the manifest lacks."""
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
    """Runs for which it is equal are cut alike."""
    if not run.row_bytes:
        return 0, 0
    large_row = run.row_bytes if run.row_bytes > target_bytes else 0
    return large_row, chunk_bytes(run.row_bytes, target_bytes)


def _join(chunks: list[_Chunk], first: dict[_Chunk, _Place], there: dict[_Place, _Chunk]) -> list[Match]:
    """Chunks to ranges: where content repeats, the place that continues the range before is taken."""
    matches: list[Match] = []
    start = 0
    follows: _Place | None = None  # the place after the last match
    for chunk in chunks:
        size = chunk[0]
        place = first.get(chunk)
        if follows is not None and there.get(follows) == chunk:
            place = follows
            last = matches.pop()
            matches.append(replace(last, size_bytes=last.size_bytes + size))
        elif place is not None:
            matches.append(Match(start, size, *place))
        follows = None if place is None else (place[0], place[1] + size)
        start += size
    return matches
