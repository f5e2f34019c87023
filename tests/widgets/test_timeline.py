"""Rows for charts: one per second, silent ones as zeros, unknown round trips as NaN."""

from __future__ import annotations

import math

import numpy as np
import pytest

from duetlink.net.link.history import Second
from duetlink_widgets import timeline
from duetlink_widgets.contract import HISTORY_COLUMNS, HISTORY_S
from duetlink_widgets.timeline import Timeline


class Clock:
    def __init__(self, now_s: float) -> None:
        self.now_s = now_s

    def time(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    clock = Clock(10_000.0)
    monkeypatch.setattr(timeline, "time", clock)
    return clock


class Record:
    """A duet's history, and whether it is over."""

    def __init__(self, *seconds: Second, state: str = "connected") -> None:
        self.seconds = list(seconds)
        self.state = state

    def history(self, since_s: float) -> tuple[Second, ...]:
        return tuple(second for second in self.seconds if second.start_s >= since_s)

    def timeline(self, now_s: int) -> Timeline:
        return Timeline(self.history, lambda: self.state == "closed", now_s)


def rows(data: bytes) -> list[list[float]]:
    return np.frombuffer(data, np.float32).reshape(-1, len(HISTORY_COLUMNS)).tolist()


def test_before_a_peer_is_there_there_are_no_rows(clock: Clock) -> None:
    line = Record(state="waiting").timeline(10_000)
    assert line.all_rows() == b""
    assert line.new_rows() == b""


def test_a_silent_second_is_zeros_and_its_round_trip_is_not_known(clock: Clock) -> None:
    record = Record(Second(9_998, 7, 1, 2, 3, 4, 0.5), Second(10_000, 0, 5, 6, 7, 8))
    made = rows(record.timeline(10_000).all_rows())
    assert made[0] == [HISTORY_S - 2, 1, 2, 3, 4, 0.5, 7]
    assert made[1][:5] == [HISTORY_S - 1, 0, 0, 0, 0]
    assert math.isnan(made[1][5])
    assert made[2][:5] == [HISTORY_S, 5, 6, 7, 8]
    assert len(made) == 3


def test_a_tick_tells_the_latest_second_again_and_those_after_it(clock: Clock) -> None:
    record = Record(Second(9_990, 0, 1), Second(10_000, 0, 2))
    line = record.timeline(10_000)
    line.all_rows()
    record.seconds[-1].sent_bytes = 20  # it went on
    record.seconds.append(Second(10_002, 0, 3))
    clock.now_s = 10_002.5
    assert [row[:2] for row in rows(line.new_rows())] == [
        [HISTORY_S, 20],
        [HISTORY_S + 1, 0],
        [HISTORY_S + 2, 3],
    ]


def test_the_last_quarter_of_an_hour_is_kept(clock: Clock) -> None:
    record = Record(Second(9_000, 0, 1), Second(10_000, 0, 2))
    assert len(rows(record.timeline(10_000).all_rows())) == HISTORY_S


def test_a_closed_duet_ends_with_what_it_last_did(clock: Clock) -> None:
    record = Record(Second(9_990, 0, 1), Second(9_995, 0, 2), state="closed")
    assert len(rows(record.timeline(10_000).all_rows())) == 6
