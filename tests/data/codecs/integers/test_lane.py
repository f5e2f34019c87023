"""Floats as integers under shared exponents: what is proved of sums holds, and bounds are kept."""

from __future__ import annotations

import itertools
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from duetlink.data.codecs.element import BY_NAME
from duetlink.data.codecs.integers.floats import floats, unfloats
from duetlink.data.codecs.integers.lane import FixedPointFormat
from duetlink.data.codecs.integers.spans import BLOCK_ITEMS, NONE, SPECIAL, Spans

FORMATS = ("float16", "bfloat16", "float32", "float64")


def array_of(values: object, name: str) -> np.ndarray:
    """Numbers as items of a kind that NumPy may lack."""
    return unfloats(np.asarray(values, np.float64), BY_NAME[name])


def spans_of(arrays: list[np.ndarray], name: str) -> Spans:
    """Of all members together."""
    every = [Spans.of(array, BY_NAME[name]) for array in arrays]
    return Spans.from_flat(np.max([spans.flat for spans in every], axis=0))


@pytest.mark.parametrize("name", FORMATS)
def test_the_highest_and_the_lowest_bit_of_a_block(name: str) -> None:
    blocks = [[0.0], [1.0], [-5.0, 0.75], [1.0 + 2.0**-7], [2.0**-14, 96.0]]
    array = np.zeros(5 * BLOCK_ITEMS)
    for index, values in enumerate(blocks):
        array[index * BLOCK_ITEMS + 3 :][: len(values)] = values
    spans = Spans.of(array_of(array, name), BY_NAME[name])
    assert spans.top.tolist() == [NONE, 0, 2, 0, 6]
    assert spans.neg_low.tolist() == [NONE, 0, 2, 7, 14]
    assert not spans.special().any()


@pytest.mark.parametrize("name", FORMATS)
def test_what_integers_cannot_hold_is_seen(name: str) -> None:
    element = BY_NAME[name]
    smallest = np.array([1], f"<u{element.size_bytes}").view(element.storage)
    for wrong in (array_of([np.nan], name), array_of([-np.inf], name), array_of([-0.0], name), smallest):
        array = array_of(np.ones(3 * BLOCK_ITEMS - 9), name)
        array[-1:] = wrong
        spans = Spans.of(array, element)
        assert spans.top.tolist() == [0, 0, SPECIAL]
        assert spans.special().tolist() == [False, False, True]
        assert not FixedPointFormat.lossy(spans, element, 2, 2).chosen[2]


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("members", [2, 3, 9])
def test_what_is_proven_is_the_same_in_every_order_of_additions(name: str, members: int) -> None:
    """Random widths around what a mantissa holds: whatever is proven must hold, and some must be."""
    element = BY_NAME[name]
    random = np.random.default_rng(members)
    widths = np.arange(1, element.mantissa_bits + 3)
    ends: Any = 2.0 ** widths[:, None]
    magnitudes = random.integers(0, ends, (members, widths.size, BLOCK_ITEMS))
    signs = random.choice([-1.0, 1.0], magnitudes.shape)
    numbers = np.where(magnitudes == 0, 0.0, signs * magnitudes * 2.0**-6).reshape(members, -1)
    arrays = [array_of(each, name) for each in numbers]
    spans = spans_of(arrays, name)
    proven = np.repeat(spans.proven(element, members), BLOCK_ITEMS)
    assert proven.any()
    assert not proven.all()
    # in steps of 2^-6: whole numbers below 2^63, which add up exactly
    exact = np.sum([(floats(each, element) * 64.0).astype(np.int64) for each in arrays], axis=0)
    for order in itertools.islice(itertools.permutations(range(members)), 0, None, 1 + members**3 // 8):
        total = floats(arrays[order[0]], element)
        for rank in order[1:]:
            total = floats(unfloats(total + floats(arrays[rank], element), element), element)
        steps = (total * 64.0).astype(np.int64)
        assert np.array_equal(steps[proven], exact[proven])
        assert not np.array_equal(steps, exact)  # or no proof would be needed
        if order[0] > 2:
            break


@pytest.mark.parametrize("name", FORMATS)
def test_a_lossless_lane_gives_the_exact_sum_in_fewer_bytes(name: str) -> None:
    element = BY_NAME[name]
    random = np.random.default_rng(7)
    arrays = [random.integers(-3, 4, 1000) * 0.25 for _ in range(4)]
    arrays[1][300] = 1e-3  # more bits than any mantissa: the second block stays dense
    given = [array_of(each, name) for each in arrays]
    lane = FixedPointFormat.lossless(spans_of(given, name), element, 1000, 4)
    assert lane is not None
    assert lane.chosen.tolist() == [True, False, True, True]
    assert (lane.width_bytes, lane.bound) == (1, 0.0)
    assert lane.dense_places(1000).tolist() == list(range(256, 512))
    total = sum((lane.to_integers(each) for each in given), np.zeros(744, np.int8))
    assert total.dtype == np.int8
    out = given[0].copy()
    lane.from_integers(total, out)
    expected = array_of(np.sum(arrays, axis=0), name)
    expected[256:512] = given[0][256:512]
    assert out.tobytes() == expected.tobytes()


def test_integers_are_not_used_where_they_are_no_smaller() -> None:
    random = np.random.default_rng(1)
    noise = random.normal(size=1000).astype(np.float32)
    element = BY_NAME["float32"]
    assert FixedPointFormat.lossless(Spans.of(noise, element), element, 1000, 2) is None
    assert FixedPointFormat.lossless(Spans.of(noise[:0], element), element, 0, 2) is None
    mostly = np.concatenate([np.repeat(noise, 5), np.zeros(300, np.float32)])  # one block of twenty
    assert FixedPointFormat.lossless(Spans.of(mostly, element), element, 5300, 2) is None


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("width_bytes", [1, 2, 4])
def test_a_lossy_lane_keeps_its_bound(name: str, width_bytes: int) -> None:
    element = BY_NAME[name]
    random = np.random.default_rng(3)
    scale = 2.0 ** random.integers(-9, 9, 1000)
    numbers = [random.normal(size=1000) * scale for _ in range(5)]
    given = [array_of(np.where(np.abs(each) < 1e-4, 0, each), name) for each in numbers]  # no subnormal ones
    lane = FixedPointFormat.lossy(spans_of(given, name), element, 5, width_bytes)
    total = sum((lane.to_integers(each) for each in given), np.zeros(1000, lane.storage))
    out = given[0].copy()
    lane.from_integers(total, out)
    steps = np.repeat(np.ldexp(1.0, lane.step_exponents), BLOCK_ITEMS)
    assert lane.bound == 5 * steps.max()
    for place in range(0, 1000, 37):
        exact = sum(Fraction(float(floats(each, element)[place])) for each in given)
        found = Fraction(float(floats(out, element)[place]))
        rounding = abs(found) * Fraction(2) ** -(element.mantissa_bits + 1)
        assert abs(found - exact) <= 5 * Fraction(float(steps[place])) + rounding


def test_the_largest_items_do_not_leave_the_lane() -> None:
    """Just below a power of two, where rounding up would wrap around."""
    element = BY_NAME["float32"]
    given = np.full(256, np.nextafter(np.float32(2), np.float32(0)), np.float32)
    for width_bytes in (1, 2, 4):
        lane = FixedPointFormat.lossy(Spans.of(given, element), element, 8, width_bytes)
        total = sum((lane.to_integers(given) for _ in range(8)), np.zeros(256, lane.storage))
        out = given.copy()
        lane.from_integers(total, out)
        assert np.abs(out - 8 * given).max() <= lane.bound


@pytest.mark.parametrize("top", [-32768, -5000, 0, 5000, 32766, 32767])
@pytest.mark.parametrize("neg_low", [-32768, -5000, 0, 5000, 32767])
def test_exponents_that_a_member_made_up_do_no_harm(top: int, neg_low: int) -> None:
    element = BY_NAME["float32"]
    given = np.linspace(-1, 1, 300, dtype=np.float32)
    spans = Spans(np.full(2, top, np.int16), np.full(2, neg_low, np.int16))
    for lane in (
        FixedPointFormat.lossless(spans, element, 300, 3),
        FixedPointFormat.lossy(spans, element, 3, 2),
    ):
        if lane is not None:
            out = given.copy()
            lane.from_integers(lane.to_integers(given), out)
            assert out.shape == (300,)


def test_bfloat16_is_rounded_to_the_nearest_even() -> None:
    element = BY_NAME["bfloat16"]
    values = np.array([1.0, 1 + 2.0**-8, 1 + 3 * 2.0**-8, 1 + 2.0**-8 + 2.0**-20, 3.4e38, np.nan, -np.inf])
    items = unfloats(values, element)
    assert [hex(item) for item in items] == [
        "0x3f80",
        "0x3f80",
        "0x3f82",
        "0x3f81",
        "0x7f80",
        "0x7fc0",
        "0xff80",
    ]
