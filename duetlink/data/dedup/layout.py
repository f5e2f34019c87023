"""The runs of a body, and the chunk size at which they are cut.

A body is tiled by runs. Each array of at least twice the target is one run, cut at its rows (`fixed.py`).
Everything between two such arrays is one byte stream (`content.py`): headers, byte strings and small arrays.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from duetlink.errors import LocalProtocolError

NAME_BYTES = 16
MAX_BODY_BYTES = 1 << 40
MAX_CHUNKS = 1 << 20
MAX_RUNS = 1 << 16
MIN_TARGET_BYTES = 8 << 10
MAX_TARGET_BYTES = MAX_BODY_BYTES // MAX_RUNS
PADDING_BYTES = 64  # padding between segments is shorter, and not worth a chunk
EXPECTED_CHANGES = 16


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a body: the memory of an array in rows of `row_bytes`, or bytes, where that is 0."""

    start_bytes: int
    size_bytes: int
    row_bytes: int


@dataclass(frozen=True, slots=True)
class Run:
    """A part of a body that is cut by one rule: at rows of `row_bytes`, or by content, where that is 0."""

    size_bytes: int
    row_bytes: int


def default_target(body_bytes: int, segments: Sequence[Segment]) -> int:
    """Return the power of two near the chunk size at which the fewest bytes are sent.

    Each chunk costs a name. Each changed place costs half a chunk more than has changed; with appended rows,
    the end of each array is such a place. Names of B bytes in chunks of t cost 16 B / t, changes at c places
    c t / 2; the sum is smallest at t = sqrt(32 B / c).
    """
    arrays = sum(_is_run(segment, MIN_TARGET_BYTES) for segment in segments)
    best = math.sqrt(2 * NAME_BYTES * body_bytes / max(arrays, EXPECTED_CHANGES))
    target = 1 << round(math.log2(max(best, MIN_TARGET_BYTES)))
    while target * MAX_RUNS < body_bytes:  # runs and chunks stay within their limits
        target *= 2
    return target


def layout(body_bytes: int, segments: Sequence[Segment], target_bytes: int) -> list[Run]:
    """Return the runs that tile a body. Segments are in order; bytes outside of them count as byte streams.

    Raises:
        LocalProtocolError: segments overlap, are not in order or reach beyond the body.
    """
    runs: list[Run] = []
    position = 0
    for segment in segments:
        if _is_run(segment, target_bytes):
            _fill(runs, segment.start_bytes - position)
            runs.append(Run(segment.size_bytes, min(segment.row_bytes, segment.size_bytes)))
            position = segment.start_bytes + segment.size_bytes
    _fill(runs, body_bytes - position)
    return runs


def _is_run(segment: Segment, target_bytes: int) -> bool:
    """Return True for an array large enough to be a run: smaller ones cost too much in the manifest."""
    return segment.row_bytes > 0 and segment.size_bytes >= 2 * target_bytes


def _fill(runs: list[Run], gap_bytes: int) -> None:
    """Append the gap before the next array: padding joins the run before, other bytes are a byte stream."""
    if gap_bytes < 0:
        raise LocalProtocolError(f"segments overlap or reach beyond the body, by {-gap_bytes} bytes")
    if gap_bytes and gap_bytes < PADDING_BYTES and runs:
        runs[-1] = Run(runs[-1].size_bytes + gap_bytes, runs[-1].row_bytes)
    elif gap_bytes:
        runs.append(Run(gap_bytes, 0))
