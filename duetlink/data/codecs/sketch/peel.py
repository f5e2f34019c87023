"""Reads a sketch back: item after item, as long as some cell holds one place only.

What was not read is known: its cells are not empty. A segment counts as read only if all its cells are empty
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
    """What a sketch gave. Only places of segments that were read whole are in it, in order.

    Attributes:
        places: at which some member had an item.
        values: the sums there, modulo 2^64, as signed integers.
        counts: how many members had an item at the place.
        complete: for each segment whether it was read whole.
        left: about how many items of members are in the segments that were not; 0 if all were.
    """

    places: NDArray[np.int64]
    values: NDArray[np.int64]
    counts: NDArray[np.int64]
    complete: NDArray[np.bool_]
    left: int


def peel(plan: SketchPlan, sketch: Words) -> Peeled:
    """Read what a sum of sketches holds. The sketch is used up: it is changed.

    Takes at most as many steps as the plan has cells, whatever is in the sketch.

    Raises:
        MalformedChunk: it has not the size that the plan says.
    """
    if sketch.shape != (plan.words,):
        raise MalformedChunk(f"a sketch of {sketch.size} words, where the plan says {plan.words}")
    value, key, check, _ = plan.parts(sketch)
    found: list[tuple[Words, Words, Words]] = []
    most = plan.cells  # each item that is read rightly empties a cell
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
    """Places that stand alone in one of these cells, each once, and the cell."""
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
    """Each of them once, in order: of many by marks in a table, of few by sorting."""
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
    complete[segments[1:][places[1:] == places[:-1]]] = False  # read twice: the sketch is nobody's
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
