"""Sketches: what is read is the exact sum, and what cannot be read is always known."""

from __future__ import annotations

import numpy as np
import pytest

from duetlink.data.codecs.aggregate import SKETCH, Adding, Aggregate, context_of
from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.sketch.peel import peel
from duetlink.data.codecs.sketch.plan import SketchPlan
from duetlink.errors import MalformedChunk, RemoteProtocolError


def test_what_two_members_put_in_comes_out() -> None:
    plan = SketchPlan.for_load(items=1000, load=4)
    one = plan.sketch(np.array([3, 999, 500]), np.array([7, -(2**60), 5]))
    two = plan.sketch(np.array([3, 0]), np.array([-7, 1]))
    read = peel(plan, one + two)
    assert read.places.tolist() == [0, 3, 500, 999]
    assert read.values.tolist() == [1, 0, 5, -(2**60)]
    assert read.counts.tolist() == [1, 2, 1, 1]
    assert read.complete.tolist() == [True]
    assert read.left == 0


def test_nothing_comes_out_of_nothing() -> None:
    plan = SketchPlan.for_load(10, 0)
    read = peel(plan, plan.sketch(np.empty(0, np.int64), np.empty(0, np.int64)))
    assert read.places.size == 0
    assert read.complete.all()


@pytest.mark.parametrize("load", [1, 10, 100, 1000, 100_000])
def test_what_a_sketch_was_made_for_fits_it(load: int) -> None:
    random = np.random.default_rng(load)
    plan = SketchPlan.for_load(10_000_000, load, seed=3)
    places = np.sort(random.choice(10_000_000, load, replace=False))
    members = [np.sort(random.choice(places, load // 2, replace=False)) for _ in range(3)]
    total = np.zeros(plan.words, np.uint64)
    expected: dict[int, int] = {}
    for member in members:
        values = random.integers(-(2**40), 2**40, member.size)
        total += plan.sketch(member, values)
        for place, value in zip(member.tolist(), values.tolist(), strict=True):
            expected[place] = expected.get(place, 0) + value
    read = peel(plan, total)
    assert read.complete.all()
    assert dict(zip(read.places.tolist(), read.values.tolist(), strict=True)) == expected
    assert plan.cells < 1.4 * load + 40


def test_an_overload_is_found_out_in_each_of_10_000_trials() -> None:
    """Each segment is a trial: all loads around what it has room for, from empty to twice as much."""
    trials, rows = 10_000, 12
    plan = SketchPlan(items=40 * trials * 2, segments=trials, rows=rows, seed=11)
    random = np.random.default_rng(0)
    everything = np.arange(plan.items)
    segments = plan.segments_of(everything.astype(np.uint64))
    order = np.argsort(segments, kind="stable")
    firsts = np.searchsorted(segments[order], np.arange(trials))
    number_within = np.empty(plan.items, np.int64)
    number_within[order] = np.arange(plan.items) - firsts[segments[order]]
    loads = random.integers(0, 2 * 3 * rows, trials)
    places = everything[number_within < loads[segments]]
    values = random.integers(-(2**50), 2**50, places.size)
    read = peel(plan, plan.sketch(places, values))

    filled = np.bincount(segments[places], minlength=trials)
    assert read.complete[filled == 0].all()
    assert not read.complete[filled > 3 * rows].any()  # more places than cells
    assert 0.2 < read.complete.mean() < 0.8  # both outcomes were tried thousands of times
    kept = read.complete[segments[places]]  # what is read is all there was, and nothing else is given out
    assert np.array_equal(read.places, places[kept])
    assert np.array_equal(read.values, values[kept])
    assert read.left == np.count_nonzero(~kept)


def test_a_value_that_was_changed_is_found_out() -> None:
    """No key and no check tells it; the total does."""
    plan = SketchPlan.for_load(1000, 20)
    places = np.arange(0, 1000, 50)
    for cell in (0, 1, plan.cells - 1):
        sketch = plan.sketch(places, places * 3)
        sketch[plan.cells_of(places[:1].astype(np.uint64))[cell % 3]] += np.uint64(1)
        assert not peel(plan, sketch).complete[0]
    sketch = plan.sketch(places, places * 3)
    sketch[plan.cells_of(places[:1].astype(np.uint64))] += np.uint64(1)  # in all three cells alike
    read = peel(plan, sketch)
    assert not read.complete[0]
    assert read.places.size == 0


def test_a_place_that_was_put_in_and_taken_out_in_other_cells_ends() -> None:
    """A table that nobody made: reading an item makes the next cell say the same again."""
    plan = SketchPlan(items=100, segments=1, rows=5, seed=1)
    random = np.random.default_rng(9)
    for _ in range(50):
        sketch = plan.sketch(np.arange(3), np.arange(3))
        sketch[random.integers(0, plan.words, 5)] = sketch[random.integers(0, plan.words, 5)]
        read = peel(plan, sketch)
        assert read.places.size in (0, 3)


def test_a_relay_adds_sketches_that_it_cannot_read() -> None:
    plan = SketchPlan.for_load(1000, 30)
    context = context_of(plan.to_wire())
    members = [(np.arange(rank, 30), np.full(30 - rank, 10**rank)) for rank in range(3)]
    uint64 = BY_NAME["uint64"]
    chunks = [
        Aggregate(SKETCH, uint64, plan.sketch(*member), context, room_for=3).to_wire() for member in members
    ]
    relay = Adding()
    total = Aggregate.from_wire(relay.add(relay.add(chunks[2], chunks[0]), chunks[1]), 10_000)
    assert total.members == 3
    assert total.context == context_of(SketchPlan.from_wire(plan.to_wire()).to_wire())
    read = peel(plan, total.items.copy())
    assert read.values.tolist() == [1, 11, *(111,) * 28]


def test_plans_that_cannot_be_are_refused() -> None:
    plan = SketchPlan.for_load(10, 5)
    with pytest.raises(MalformedChunk, match="where the plan says"):
        peel(plan, np.zeros(plan.words - 1, np.uint64))
    for wrong in ((0, 1, 1, 0), (2**41, 1, 1, 0), (10, 0, 1, 0), (10, 1, 0, 0), (10, 2**20, 2**20, 0)):
        with pytest.raises(ValueError):
            SketchPlan(*wrong)
    for data in (b"", bytes(24), plan.to_wire() + b"x"):
        with pytest.raises(RemoteProtocolError):
            SketchPlan.from_wire(data)
