"""What a call that waits tells the person who made it."""

from __future__ import annotations

import asyncio
import gc
from typing import Any

import pytest

from duetlink import errors
from duetlink.duet.duet import Duet
from duetlink.duet.objects import progress, waiting
from duetlink.duet.objects.progress import Progress
from duetlink.duet.objects.waiting import WaitingLine
from duetlink.net.link import transfer as transfers
from duetlink.net.link.transfer import Transfer

Pair = tuple[Duet, Duet]


class Clock:
    """Stands in for the module `time`."""

    def __init__(self) -> None:
        self.now_s = 1000.0

    def monotonic(self) -> float:
        return self.now_s


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    for module in (waiting, transfers):
        monkeypatch.setattr(module, "time", made)
    return made


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(waiting, "DELAY_S", 0.0)


def test_nothing_is_said_of_what_takes_no_second(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with WaitingLine("asked clinic for 'ages'", "withdraw the request") as line:
        clock.now_s += 0.9
        line.show()
    assert capsys.readouterr() == ("", "")


def test_after_a_second_one_line_says_what_is_waited_for_and_ends(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with WaitingLine("asked clinic for 'ages'", "withdraw the request") as line:
        clock.now_s += 1.0
        line.show()
        assert capsys.readouterr().err == "asked clinic for 'ages' … (Ctrl-C to withdraw the request) "
        line.show()
        clock.now_s += 11.0
        line.end("approved")
        line.end("and again")
        line.show()
    assert capsys.readouterr() == ("", "approved after 12 s\n")


def test_an_interrupt_ends_the_line(clock: Clock, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), WaitingLine("waiting for a request of lab", "stop") as line:
        clock.now_s += 2.0
        line.show()
        raise KeyboardInterrupt
    assert capsys.readouterr().err.endswith("interrupted after 2 s\n")


@pytest.mark.usefixtures("at_once")
def test_get_says_whom_it_has_asked_for_what(duets: Pair, capsys: pytest.CaptureFixture[str]) -> None:
    owner, scientist = duets
    owner.share(1, "ages")
    pointer = scientist.wait_object("ages", 10)
    capsys.readouterr()
    with pytest.raises(errors.RequestTimeout):
        pointer.get(timeout_s=0.15)
    said = capsys.readouterr().err
    assert said == "asked Olga for 'ages' … (Ctrl-C to withdraw the request) no answer after 0 s\n"


@pytest.mark.usefixtures("at_once")
def test_wait_request_and_wait_object_say_what_they_wait_for(
    duets: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, scientist = duets
    with pytest.raises(errors.RequestTimeout):
        owner.wait_request(0.15)
    assert capsys.readouterr().err.startswith("waiting for a request of Sven … (Ctrl-C to stop waiting) ")
    with pytest.raises(errors.AssetNotFound):
        scientist.wait_object("x", 0.15)
    assert capsys.readouterr().err.startswith("waiting for Olga to share 'x' … ")


def test_waiting_leaves_nothing_behind(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "x")
    scientist.wait_object("x", 10)

    def futures() -> int:
        gc.collect()
        return sum(isinstance(each, asyncio.Future) for each in gc.get_objects())

    before = futures()
    for _ in range(50):
        scientist.wait_object("x", 10)
    assert futures() < before + 10  # some tasks of both links run at any time


def test_the_bar_says_who_has_paused_and_leaves_the_pause_out_of_its_rate(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    moving = Transfer("scan", "in", 1000)
    moving.path = "tcp"
    with Progress("scan", "clinic") as shown:
        clock.now_s += 2.0
        moving.done_bytes = 400
        shown.show(moving)
        bar: Any = shown._bar
        begun_s = bar.start_t
        moving.set_paused(there=True)
        clock.now_s += 60.0
        shown.show(moving)
        *_, drawn = capsys.readouterr().err.split("\r")
        assert "paused by clinic" in drawn
        assert "B/s" not in drawn
        moving.set_paused(there=False, here=True)
        shown.show(moving)
        assert "paused by you" in capsys.readouterr().err
        moving.set_paused(here=False)
        moving.done_bytes = 500
        shown.show(moving)
        assert bar.start_t == begun_s + 60.0
        assert "paused" not in str(bar)
    status = moving.status()
    assert (status.duration_s, status.paused_s, status.bytes_per_s) == (62.0, 60.0, 250.0)


def test_a_pause_that_lasts_counts_so_far(clock: Clock) -> None:
    moving = Transfer("scan", "out", 1000)
    clock.now_s += 1.0
    moving.set_paused(here=True)
    clock.now_s += 3.0
    assert moving.status().paused_s == 3.0
    moving.end(transfers.CANCELLED)
    clock.now_s += 100.0
    assert (moving.status().duration_s, moving.status().paused_s) == (4.0, 3.0)


def test_a_bar_that_is_switched_off_is_left_alone(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    from tqdm import tqdm

    monkeypatch.setattr(progress, "_tqdm", lambda: lambda **options: tqdm(**options, disable=True))
    moving = Transfer("scan", "in", 1000)
    clock.now_s += 2.0
    with Progress("scan", "clinic") as shown:
        shown.show(moving)
        moving.set_paused(here=True)
        shown.show(moving)
        moving.set_paused(here=False)
        shown.show(moving)
