"""What a probe says of a path's speed, from when which bytes of it were there."""

from __future__ import annotations

from duetlink.net.link.probing import _speed
from duetlink.net.paths.ladder import Speed


def test_what_came_before_the_path_had_settled_does_not_count() -> None:
    slow_start = [(0.0, 0), (0.1, 1000)]
    assert _speed([*slow_start, (0.2, 5000), (0.3, 15_000)], True) == Speed(10_000 / (0.3 - 0.2), True)


def test_of_a_short_one_the_second_half_counts() -> None:
    assert _speed([(0.0, 0), (0.05, 1000), (0.0625, 8000), (0.125, 16_000)], False) == Speed(128_000, False)


def test_few_arrivals_are_better_than_none() -> None:
    assert _speed([], True) is None
    assert _speed([(0.0, 1000)], True) is None
    assert _speed([(1.0, 1000), (1.0, 2000)], True) is None
    assert _speed([(1.0, 1000), (1.125, 9000)], True) == Speed(64_000, True)
    assert _speed([(1.0, 1000), (1.5, 9000)], True) == Speed(16_000, True)
