"""The search for the size of datagrams, without a network: only numbers and times."""

from __future__ import annotations

import math

import numpy as np

from duetlink.net.tunnel.acknowledgement import Acknowledgement
from duetlink.net.tunnel.mtu import BASE_BYTES, CANDIDATES_BYTES, MtuSearch


def ask(search: MtuSearch, now_s: float, first: int, passes: int) -> list[int]:
    """Let the search probe; all up to `passes` bytes are acknowledged."""
    sizes = search.due(now_s, 0.02)
    for offset, size in enumerate(sizes):
        search.on_probe(first + offset, size)
    if sizes:
        received = np.array([size <= passes for size in sizes])
        search.on_ack(Acknowledgement(first + len(sizes) - 1, received, 0, 0, 0.0))
    return list(sizes)


def test_the_largest_that_passes_is_found_in_one_round_trip() -> None:
    search = MtuSearch()
    assert search.deadline_s == math.inf
    search.begin(10.0)
    assert ask(search, 10.0, 0, 1448) == [1280, 1360, 1400, 1440, 1468, 8900, 16_272]
    assert search.datagram_bytes == 1440


def test_three_tries_and_again_after_ten_minutes() -> None:
    search = MtuSearch()
    search.begin(0.0)
    asked: list[tuple[float, list[int]]] = []
    now_s = 0.0
    while now_s < 700.0:
        asked.append((round(now_s, 1), ask(search, now_s, 100 * len(asked), 1400)))
        now_s = search.deadline_s
    larger = [1440, 1468, 8900, 16_272]
    assert asked == [
        (0.0, list(CANDIDATES_BYTES)),
        (0.1, larger),
        (0.2, larger),
        (0.3, []),
        (600.3, larger),
        (600.4, larger),
        (600.5, larger),
        (600.6, []),
    ]


def test_an_answer_to_something_else_changes_nothing() -> None:
    search = MtuSearch()
    search.begin(0.0)
    search.on_probe(50, 1400)
    for largest, received in ((49, [True] * 9), (60, [True] * 10), (50, [True, False])):
        assert not search.on_ack(Acknowledgement(largest, np.array(received), 0, 0, 0.0))
    assert search.datagram_bytes == BASE_BYTES


def test_timeouts_or_losses_of_full_size_alone_mean_a_black_hole() -> None:
    search = MtuSearch()
    assert not search.is_black_hole(timeouts=9)  # nothing smaller to try
    search.begin(0.0)
    ask(search, 0.0, 0, 1440)
    assert not search.is_black_hole(timeouts=2)
    assert search.is_black_hole(timeouts=3)
    search.on_traffic(1200, 31)
    assert not search.is_black_hole(timeouts=0)
    search.on_traffic(1440, 5)
    search.on_traffic(1200, 31)
    assert not search.is_black_hole(timeouts=0)
    search.on_traffic(1200, 1)
    assert search.is_black_hole(timeouts=0)
    search.fall_back(5.0, 0.02)
    assert search.datagram_bytes == BASE_BYTES
    assert not search.is_black_hole(timeouts=9)
    assert search.due(5.5, 0.02) == ()
    assert search.due(6.0, 0.02) == CANDIDATES_BYTES
