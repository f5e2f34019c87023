"""Where a body holds items of one kind: what decides how its blocks are encoded.

A body is a byte string; its `Part`s are the arrays in it. Here they become runs without gaps: neighbours of
one element are one run together with the zeros between them, and what is small or no array is bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from duetlink.codecs.element import BY_NAME, UINT8, Element
from duetlink.values.base import Part
from duetlink.values.body import ALIGNMENT

SMALL_BYTES = 4096  # arrays below are not worth a run of their own


@dataclass(frozen=True, slots=True)
class Run:
    """Bytes from `start_bytes` up to `end_bytes`, made of items of `element` from the start on."""

    start_bytes: int
    end_bytes: int
    element: Element


def runs(parts: Sequence[Part], size_bytes: int) -> tuple[Run, ...]:
    """The body of `size_bytes` as runs, in order and without gaps."""
    found: list[Run] = []
    for part in parts:
        element, stop = BY_NAME[part.element], part.start_bytes + part.size_bytes
        last = found[-1] if found else None
        if last and last.element is element and _near(last.end_bytes, part.start_bytes, element):
            found[-1] = Run(last.start_bytes, stop, element)
        elif part.size_bytes >= SMALL_BYTES and element is not UINT8:
            _bytes_until(found, part.start_bytes)
            found.append(Run(part.start_bytes, stop, element))
    _bytes_until(found, size_bytes)
    return tuple(found)


def _near(end: int, start: int, element: Element) -> bool:
    """Whether no more than an alignment's zeros, a whole number of items, lie between the two."""
    return start - end < ALIGNMENT and not (start - end) % element.size_bytes


def _bytes_until(found: list[Run], stop: int) -> None:
    """Add what lies between the last run and `stop`, as bytes."""
    start = found[-1].end_bytes if found else 0
    if start < stop:
        found.append(Run(start, stop, UINT8))


def blocks(runs: Iterable[Run], start_bytes: int, end_bytes: int, leaf_bytes: int) -> Iterator[Run]:
    """What of the runs lies between the two positions, cut where leaves end. What is no whole number of items
    at a cut comes as bytes.
    """
    for run in runs:
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
