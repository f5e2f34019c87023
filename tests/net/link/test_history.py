"""What moved in each second: literal seconds, at literal times."""

from __future__ import annotations

from duetlink.net.link.history import KEPT_S, Second, Seconds


def nothing() -> int:
    return 0


def test_a_second_adds_up_what_moved_in_it() -> None:
    seconds = Seconds()
    seconds.count("out", 100, 10, 1000.1, lambda: 5)
    seconds.count("out", 50, 50, 1000.9, lambda: 6)
    seconds.count("in", 7, 3, 1000.9, lambda: 6)
    seconds.count("in", 1, 1, 1003.0, nothing)
    assert seconds.since(0) == (Second(1000, 5, 150, 7, 60, 3), Second(1003, 0, 0, 1, 0, 1))


def test_the_quickest_round_trip_of_a_second_counts() -> None:
    seconds = Seconds()
    for took_s in (0.3, 0.1, 0.2):
        seconds.round_trip(took_s, 1000.0, nothing)
    assert seconds.since(0) == (Second(1000, round_trip_s=0.1),)


def test_what_is_asked_for_is_a_copy() -> None:
    seconds = Seconds()
    seconds.count("out", 1, 1, 1000.0, nothing)
    before = seconds.since(1000)
    seconds.count("out", 1, 1, 1000.5, nothing)
    assert before == (Second(1000, 0, 1, 0, 1),)
    assert seconds.since(1001) == ()


def test_a_quarter_of_an_hour_is_kept() -> None:
    seconds = Seconds()
    for start_s in (1000, 1000 + KEPT_S - 1, 1000 + KEPT_S):
        seconds.count("out", 1, 1, start_s, nothing)
    assert [second.start_s for second in seconds.since(0)] == [1000 + KEPT_S - 1, 1000 + KEPT_S]


def test_a_clock_that_is_set_back_makes_no_second_out_of_order() -> None:
    seconds = Seconds()
    seconds.count("out", 1, 1, 1000.0, nothing)
    seconds.count("out", 2, 2, 900.0, nothing)
    assert seconds.since(0) == (Second(1000, 0, 3, 0, 3),)
