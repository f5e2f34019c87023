"""Real numbers as residues: exact where they can be, within half a step otherwise, and never clipped."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from duetlink.data.codecs.integers.fixed_point import FixedPoint
from duetlink.errors import OutOfRange, RemoteProtocolError


def test_a_step_is_chosen_that_leaves_room_for_every_sum() -> None:
    assert FixedPoint.of_range(1.0, 4) == FixedPoint(64, 59, 1.0, 4)
    assert FixedPoint.of_range(100.0, 9, bits=32) == FixedPoint(32, 19, 100.0, 9)
    assert FixedPoint.of_range(1e300, 2).fraction_bits == -936
    assert FixedPoint.of_range(1e-300, 2).fraction_bits == 1000
    assert FixedPoint.of_range(1.0, 3, noise_bits=10).fraction_bits == 49
    assert FixedPoint.of_range(1.0, 4).step == 2.0**-59


@pytest.mark.parametrize("bits", [32, 64])
@pytest.mark.parametrize("members", [1, 2, 3, 8, 9])
@pytest.mark.parametrize("limit", [1.0, 0.999999999999, 3e-9, 2.0**40])
def test_the_largest_sum_stays_in_the_ring(bits: int, members: int, limit: float) -> None:
    fixed = FixedPoint.of_range(limit, members, bits=bits)
    for sign in (1, -1):
        given = fixed.to_ring(np.array([sign * limit]))
        total = np.zeros(1, fixed.storage)
        for _ in range(members):
            total += given
        assert fixed.from_ring(total)[0] == pytest.approx(sign * members * limit, abs=fixed.bound)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_a_sum_is_within_its_bound_of_the_exact_one(dtype: str) -> None:
    random = np.random.default_rng(2)
    arrays = [random.uniform(-8, 8, (50, 700)).astype(dtype) for _ in range(5)]
    fixed = FixedPoint.of_range(8.0, 5, bits=32)
    total = sum((fixed.to_ring(array) for array in arrays), np.zeros((50, 700), np.uint32))
    assert total.dtype == np.uint32
    found = fixed.from_ring(total)
    assert fixed.bound == 5 * 2.0**-23 / 2
    for place in [(0, 0), (49, 699), (25, 350)]:
        exact = sum(Fraction(float(array[place])) for array in arrays)
        assert abs(Fraction(float(found[place])) - exact) <= Fraction(fixed.bound)
    assert np.abs(found - np.sum(arrays, axis=0, dtype=np.float64)).max() <= fixed.bound + 1e-15


def test_what_is_added_and_taken_away_leaves_no_trace() -> None:
    fixed = FixedPoint.of_range(2.0, 3)
    given = np.array([1.5, -2.0, 0.0, 2.0**-58])
    mask = np.random.default_rng(1).integers(0, 2**64, 4, np.uint64)
    assert fixed.from_ring(fixed.to_ring(given) + mask - mask).tolist() == given.tolist()


@pytest.mark.parametrize("value", [1.0000001, -2.0, math.nan, math.inf, -math.inf])
def test_nothing_is_clipped(value: float) -> None:
    fixed = FixedPoint.of_range(1.0, 2)
    given = np.zeros(70_000, np.float32)
    given[[69_000, 69_999]] = value
    what_to_do = "no range has NaN" if math.isnan(value) else "declare a larger range, or clip them"
    with pytest.raises(
        OutOfRange, match=rf"2 items are beyond the range of ±1, the first .* at 69000; {what_to_do}"
    ):
        fixed.to_ring(given)


def test_no_items_and_strided_items() -> None:
    fixed = FixedPoint.of_range(1.0, 2)
    assert fixed.to_ring(np.zeros((0, 3), np.float32)).shape == (0, 3)
    every_other = np.arange(0, 1, 0.125)[::2]
    assert fixed.from_ring(fixed.to_ring(every_other)).tolist() == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize(
    ("bits", "fraction_bits", "limit", "members"),
    [(16, 3, 1.0, 2), (64, 0, math.inf, 2), (64, 0, -1.0, 2), (64, 0, 1.0, 0), (32, 30, 1.0, 2)],
)
def test_what_cannot_be_is_refused(bits: int, fraction_bits: int, limit: float, members: int) -> None:
    with pytest.raises(ValueError):
        FixedPoint(bits, fraction_bits, limit, members)


def test_what_members_agree_on_crosses_and_lies_are_refused() -> None:
    fixed = FixedPoint.of_range(0.1, 7)
    data = fixed.to_wire()
    assert len(data) == 24
    assert FixedPoint.from_wire(data) == fixed
    for wrong in (b"", data[:-1], data + b"x", b"\1" + data[1:], data[:4] + b"\x7f" * 4 + data[8:]):
        with pytest.raises(RemoteProtocolError):
            FixedPoint.from_wire(wrong)
