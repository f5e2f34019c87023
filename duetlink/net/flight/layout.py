"""The parts of a body that hold items of one type, which determine how its blocks are encoded.

A body is a byte string; its `Part`s are the arrays in it. Here they become runs without gaps: neighbouring
arrays of one item type form one run together with the zeros between them; small arrays, and all other bytes,
become runs of bytes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice

from duetlink.data.codecs.element import BY_NAME, UINT8, Element
from duetlink.data.values.base import Part
from duetlink.data.values.body import ALIGNMENT

SMALL_BYTES = 16 * 1024  # shorter runs do not get a chunk of their own


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes from `start_bytes` up to `end_bytes` that consist of items of type `element`."""

    start_bytes: int
    end_bytes: int
    element: Element


def runs(parts: Sequence[Part], size_bytes: int) -> tuple[Run, ...]:
    """Return the body of `size_bytes` as runs, in order and without gaps."""
    joined: list[Run] = []
    for part in parts:
        element, stop = BY_NAME[part.element], part.start_bytes + part.size_bytes
        last = joined[-1] if joined else None
        if last and last.element is element and _near(last.end_bytes, part.start_bytes, element):
            joined[-1] = Run(last.start_bytes, stop, element)
        elif element is not UINT8:
            joined.append(Run(part.start_bytes, stop, element))
    found: list[Run] = []
    for run in joined:
        if run.end_bytes - run.start_bytes >= SMALL_BYTES:
            _bytes_until(found, run.start_bytes)
            found.append(run)
    _bytes_until(found, size_bytes)
    return tuple(found)


def _near(end: int, start: int, element: Element) -> bool:
    """Return True if only alignment zeros, a whole number of items, are between the two positions."""
    return start - end < ALIGNMENT and not (start - end) % element.size_bytes


def _bytes_until(found: list[Run], stop: int) -> None:
    """Add the bytes between the last run and `stop` as a run of bytes."""
    start = found[-1].end_bytes if found else 0
    if start < stop:
        found.append(Run(start, stop, UINT8))


def blocks(runs: Sequence[Run], start_bytes: int, end_bytes: int, leaf_bytes: int) -> Iterator[Run]:
    """Yield the parts of the runs between the two positions, cut at the ends of leaves.

    Incomplete items at a cut are yielded as bytes.
    """
    first = bisect_right(runs, start_bytes, key=lambda run: run.end_bytes)
    for run in islice(runs, first, None):
        if run.start_bytes >= end_bytes:
            return
        position = max(run.start_bytes, start_bytes)
        stop = min(run.end_bytes, end_bytes)
        while position < stop:
            end = min(stop, (position // leaf_bytes + 1) * leaf_bytes)
            yield from _whole_items(run, position, end)
            position = end


def _whole_items(run: Run, start: int, end: int) -> Iterator[Run]:
    size = run.element.size_bytes
    first = min(start + (run.start_bytes - start) % size, end)
    last = max(first, end - (end - run.start_bytes) % size)
    if start < first:
        yield Run(start, first, UINT8)
    if first < last:
        yield Run(first, last, run.element)
    if last < end:
        yield Run(last, end, UINT8)
