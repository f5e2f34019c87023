"""Decisions as they travel, and the history of them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from duetlink.data.tuning import Decision, History, Plan
from duetlink.errors import RemoteProtocolError
from tests.data.tuning.test_compression import json_values

counts = st.integers(0, 1 << 50)
plans = st.builds(Plan, st.text(max_size=64), st.integers(-99, 99), counts, counts)
rates = st.none() | st.floats(0, 1e15)
decisions = st.builds(
    Decision,
    counts,
    st.floats(-1e12, 1e12),
    st.text(max_size=50),
    st.text(max_size=50),
    st.none() | plans,
    plans,
    st.text(max_size=50),
    rates,
    rates,
)


@given(decisions)
def test_it_comes_back_through_json(decision: Decision) -> None:
    assert Decision.from_wire(json.loads(json.dumps(decision.to_wire()))) == decision


@given(json_values)
def test_anything_else_is_a_typed_error(wire: Any) -> None:
    for kind in (Decision, Plan):
        with pytest.raises(RemoteProtocolError):
            kind.from_wire(wire)


@given(decisions, st.data())
def test_a_field_of_any_value_is_taken_or_refused(decision: Decision, data: st.DataObject) -> None:
    wire = decision.to_wire()
    wire[data.draw(st.sampled_from(sorted(wire)))] = data.draw(json_values)
    try:
        found = Decision.from_wire(wire)
    except RemoteProtocolError:
        return
    assert found.to_wire() == wire


def decision(number: int, measured: float | None = None) -> Decision:
    plan = Plan("zstd", 1, 1 << 20, 2)
    return Decision(number, 0.0, "x", "tcp", None, plan, "why", None, measured)


def test_long_words_are_cut_before_they_travel() -> None:
    long = msgspec.structs.replace(decision(1), name="n" * 5000, why="w" * 5000)
    assert len(Decision.from_wire(long.to_wire()).why) == 2048


def test_history_keeps_the_latest_and_their_outcomes() -> None:
    history = History(2)
    for number in range(3):
        history.add(decision(number))
    history.add(decision(1, measured=5.0))
    history.add(decision(0, measured=7.0))  # long gone
    assert [(found.number, found.measured) for found in history] == [(1, 5.0), (2, None)]
    assert len(history) == 2
