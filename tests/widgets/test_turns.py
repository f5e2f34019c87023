"""The interval at which threads take turns: short while a click is under way, and what it was afterwards."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest

from duetlink_widgets.turns import Turns
from tests.conftest import DuetPair
from tests.widgets.conftest import ShowPanel


@pytest.fixture(autouse=True)
def usual() -> Iterator[None]:
    sys.setswitchinterval(0.005)
    yield
    sys.setswitchinterval(0.005)


def test_it_is_short_until_the_last_click_is_done() -> None:
    turns = Turns()
    turns.quicken()
    turns.quicken()
    turns.settle()
    assert sys.getswitchinterval() == pytest.approx(0.0005, rel=0.02)
    turns.settle()
    assert sys.getswitchinterval() == pytest.approx(0.005, rel=0.02)


def test_what_somebody_sets_meanwhile_stays() -> None:
    turns = Turns()
    turns.quicken()
    sys.setswitchinterval(0.02)
    turns.settle()
    assert sys.getswitchinterval() == pytest.approx(0.02, rel=0.02)


def test_one_that_is_shorter_is_left_alone() -> None:
    sys.setswitchinterval(0.0001)
    turns = Turns()
    turns.quicken()
    assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.02)
    turns.settle()
    assert sys.getswitchinterval() == pytest.approx(0.0001, rel=0.02)


def test_clicks_leave_it_as_it_was(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    page.say(kind="command", command_id=7)  # is none
    for objective in ("bytes", "throughput"):
        assert page.command("set_compression", objective=objective)["ok"]
    page.panel.close()  # whatever was under way has ended
    page.panel._feed.heard({"kind": "command"})
    assert sys.getswitchinterval() == pytest.approx(0.005, rel=0.02)
