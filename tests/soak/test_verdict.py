"""Which series are called a leak: synthetic ones, one value for each cycle."""

from __future__ import annotations

import random

import pytest

from tests.soak.verdict import blocks, excess, growth, steady_rise


def noisy(count: int, seed: int, spread: int = 10) -> list[float]:
    chosen = random.Random(seed)
    return [100.0 + chosen.randint(-spread, spread) for _ in range(count)]


def test_the_first_quarter_is_a_warm_up_and_the_rest_three_equal_blocks() -> None:
    assert blocks(range(11)) == [[2, 3, 4], [5, 6, 7], [8, 9, 10]]
    assert blocks(range(16)) == [[4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14, 15]]


def test_fewer_than_eleven_cycles_are_too_few_to_tell() -> None:
    with pytest.raises(ValueError, match="10 cycles are too few to tell; it takes 11"):
        blocks(range(10))


def test_a_flat_series_does_not_rise() -> None:
    assert steady_rise([33.0] * 11, 3) == 0


def test_a_noisy_flat_series_does_not_rise() -> None:
    assert [steady_rise(noisy(24, seed), 3) for seed in range(1000)] == [0.0] * 1000


def test_a_step_does_not_rise_wherever_it_is() -> None:
    for count in (11, 12, 15):
        for at in range(1, count):
            assert steady_rise([10.0] * at + [60.0] * (count - at), 3) == 0, (count, at)


def test_two_steps_do_not_rise() -> None:
    assert steady_rise([10.0] * 4 + [12.0] * 3 + [20.0] * 5, 3) == 0


def test_a_rise_during_the_warm_up_alone_does_not_count() -> None:
    assert steady_rise([10.0, 40.0, 70.0, 90.0, *[95.0] * 12], 3) == 0


def test_a_count_that_rises_in_each_cycle_rises() -> None:
    assert steady_rise([2.0 + 60 * cycle for cycle in range(11)], 3) == 360


def test_one_more_in_two_cycles_rises() -> None:
    assert steady_rise([50.0 + cycle // 2 for cycle in range(11)], 3) == 3


def test_a_slow_slope_shows_in_a_longer_run() -> None:
    slow = [50.0 + cycle // 20 for cycle in range(400)]
    assert steady_rise(slow[:11], 3) == 0
    assert steady_rise(slow, 3) == 10


def test_a_slope_within_noise_shows_in_a_longer_run() -> None:
    slope = [level + cycle / 2 for cycle, level in enumerate(noisy(360, seed=1))]
    assert steady_rise(slope[:11], 3) == 0
    assert 80 < steady_rise(slope, 3) < 100


def test_single_odd_values_hide_no_slope_of_a_long_run() -> None:
    slope = [float(cycle) for cycle in range(120)]
    slope[40], slope[70], slope[110] = 10_000.0, 10_000.0, 0.0
    assert 55 < steady_rise(slope, 3) < 65


def test_a_rise_of_fewer_than_the_least_does_not_count() -> None:
    slope = [10.0 + cycle // 3 for cycle in range(12)]
    assert steady_rise(slope, 2) == 2
    assert steady_rise(slope, 3) == 0


def test_a_sawtooth_does_not_rise() -> None:
    for period in (2, 3, 4):
        assert steady_rise([20.0 + 5 * (cycle % period) for cycle in range(16)], 3) == 0, period


def test_a_sawtooth_that_climbs_rises_once_its_blocks_part() -> None:
    assert steady_rise([20.0 + 5 * (cycle % 4) + cycle for cycle in range(120)], 3) == 60


def test_a_count_that_falls_does_not_rise() -> None:
    assert steady_rise([100.0 - cycle for cycle in range(12)], 3) == 0


def test_memory_grows_by_what_its_least_values_do() -> None:
    mib = [100.0, 180.0, 190.0, 250.0, 191.0, 192.0, 250.0, 193.0, 300.0, 194.0, 900.0]
    assert growth(mib, 4) == 0
    assert growth([*mib[:8], 260.0, 250.0, 900.0], 4) == 60


def test_memory_that_shrinks_does_not_grow() -> None:
    assert growth([100.0 - cycle for cycle in range(12)], 4) == 0


def test_a_bounded_count_may_rise_until_its_limit() -> None:
    assert excess([60.0, 120.0, 180.0, 200.0], 200) == 0
    assert excess([60.0, 120.0, 180.0, 207.0], 200) == 7
