"""Read a sketch: one item after the other, as long as some cell holds a single place.

Unread items are detected: their cells are not empty. A segment counts as read only if all its cells are empty
and its total is that of the values read; nothing is ever estimated.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from duetlink.data.codecs.sketch.plan import COUNT_SHIFT, HASHES, PLACE_MASK, SketchPlan, Words
from duetlink.errors import MalformedChunk


@dataclass(frozen=True, slots=True, eq=False)
class Peeled:
    """The content of a sketch: the places of all segments that were read completely, in order.

    Attributes:
        places: indices at which some member had an item.
        values: the sums there, modulo 2^64, as signed integers.
        counts: the number of members that had an item at the place.
        complete: for each segment, True if it was read completely.
        left: approximate number of members' items in the other segments; 0 if there are none.
    """

    places: NDArray[np.int64]
    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    complete: NDArray[np.bool_]
    left: int


def peel(plan: SketchPlan, sketch: Words) -> Peeled:
    """Read a sum of sketches. The sketch is overwritten.

    Takes at most as many steps as the plan has cells, even for a malicious sketch.

    Raises:
        MalformedChunk: its size is not that of the plan.
    """
    if sketch.shape != (plan.words,):
        raise MalformedChunk(f"a sketch of {sketch.size} words, where the plan says {plan.words}")
    value, key, check, _ = plan.parts(sketch)
    found: list[tuple[Words, Words, Words]] = []
    most = plan.cells  # each item that is read correctly empties a cell
    candidates = np.flatnonzero(key)
    while candidates.size and most > 0:
        places, cells = _pure(plan, key, check, candidates)
        if not places.size:
            break
        values, keys, checks = value[cells], key[cells], check[cells]
        found.append((places, values, keys >> COUNT_SHIFT))
        most -= places.size
        touched = plan.cells_of(places)
        for each in touched:
            np.subtract.at(value, each, values)
            np.subtract.at(key, each, keys)
            np.subtract.at(check, each, checks)
        touched_cells = _distinct(touched.reshape(-1), plan.cells)
        candidates = touched_cells[key[touched_cells] != 0]
    return _checked(plan, sketch, found)


def _pure(
    plan: SketchPlan, key: Words, check: Words, candidates: NDArray[np.int64]
) -> tuple[Words, NDArray[np.int64]]:
    """Return the places that are alone in one of these cells, each once, and the cell."""
    counts = key[candidates] >> COUNT_SHIFT
    sums = key[candidates] & PLACE_MASK
    places = sums // np.maximum(counts, np.uint64(1))
    alone = (counts > 0) & (places * counts == sums) & (places < plan.items)
    places, cells, counts = places[alone], candidates[alone], counts[alone]
    alone = plan.checks_of(places) * counts == check[cells]
    places, cells = places[alone], cells[alone]
    thirds = (cells // plan.rows) % HASHES
    alone = plan.cells_of(places)[thirds, np.arange(places.size)] == cells
    places, first = np.unique(places[alone], return_index=True)
    return places, cells[alone][first]


def _distinct(cells: NDArray[np.int64], size: int) -> NDArray[np.int64]:
    """Return each cell once, in order: with a table of marks if there are many, by sorting if few."""
    if cells.size * 32 > size:
        marks = np.zeros(size, np.bool_)
        marks[cells] = True
        return np.flatnonzero(marks)
    ordered = np.sort(cells)
    distinct: NDArray[np.int64] = ordered[np.diff(ordered, prepend=-1) != 0]
    return distinct


def _checked(plan: SketchPlan, sketch: Words, found: list[tuple[Words, Words, Words]]) -> Peeled:
    value, key, check, totals = plan.parts(sketch)
    none = np.empty(0, np.uint64)
    places, values, counts = (np.concatenate([none, *(each[index] for each in found)]) for index in range(3))
    order = np.argsort(places, kind="stable")
    places, values, counts = places[order], values[order], counts[order]
    segments = plan.segments_of(places)
    read = np.zeros(plan.segments, np.uint64)
    np.add.at(read, segments, values * plan.factors_of(places))
    empty = ((value | key | check) == 0).reshape(plan.segments, -1).all(axis=1)
    complete = empty & (read == totals)
    complete[segments[1:][places[1:] == places[:-1]]] = False  # read twice: the sketch is malformed
    kept = complete[segments]
    first_third = (key >> COUNT_SHIFT).reshape(plan.segments, HASHES, plan.rows)[:, 0].sum(axis=1)
    read_counts = np.bincount(segments, weights=counts, minlength=plan.segments).astype(np.int64)
    left = first_third.astype(np.int64) + read_counts
    return Peeled(
        places[kept].astype(np.int64),
        values[kept].view(np.int64),
        counts[kept].astype(np.int64),
        complete,
        int(left[~complete].sum()),
    )
