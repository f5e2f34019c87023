"""What a call that waits tells the person who made it."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace
from typing import Any

import pytest

from duetlink import errors
from duetlink.base.drawing import log_bar, screen, waiting
from duetlink.base.drawing.bars import bar as drawn_bar
from duetlink.base.drawing.waiting import WaitingLine
from duetlink.duet.duet import Duet
from duetlink.duet.objects import progress
from duetlink.duet.objects.progress import Progress
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


@pytest.fixture(autouse=True)
def terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever catches what is written here counts as a terminal."""
    monkeypatch.setattr(screen, "is_log", lambda: False)


@pytest.fixture
def log(terminal: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "is_log", lambda: True)


@pytest.fixture
def at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(screen, "DELAY_S", 0.0)


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


@pytest.mark.usefixtures("log")
def test_a_log_gets_a_whole_line_of_a_wait_each_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with WaitingLine("asked clinic for 'ages'", "withdraw the request") as line:
        for _ in range(1259):  # ten a second, as calls do
            clock.now_s += 0.1
            line.show()
        line.end("approved")
    assert capsys.readouterr().err.splitlines() == [
        "asked clinic for 'ages' … 60 s (Ctrl-C to withdraw the request)",
        "asked clinic for 'ages' … 120 s (Ctrl-C to withdraw the request)",
        "asked clinic for 'ages': approved after 126 s",
    ]


@pytest.mark.usefixtures("log")
def test_a_log_gets_nothing_of_a_wait_of_half_a_minute(
    clock: Clock, capsys: pytest.CaptureFixture[str]
) -> None:
    with WaitingLine("asked clinic for 'ages'", "withdraw the request") as line:
        for _ in range(300):
            clock.now_s += 0.1
            line.show()
    assert capsys.readouterr() == ("", "")


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


@pytest.mark.usefixtures("at_once")
def test_waiting_for_a_name_that_is_near_a_shared_one_says_so(
    duets: Pair, capsys: pytest.CaptureFixture[str]
) -> None:
    owner, scientist = duets
    owner.share(1, "ages")
    scientist.wait_object("ages", 10)
    capsys.readouterr()
    with pytest.raises(errors.AssetNotFound, match=r"within 0\.15 s \(did you mean 'ages', which is there"):
        scientist.wait_object("agess", 0.15)
    said = capsys.readouterr().err
    assert said.startswith("waiting for Olga to share 'agess' (did you mean 'ages', which is there?) … ")


def test_a_reason_is_a_text(duets: Pair) -> None:
    owner, scientist = duets
    owner.share(1, "ages")
    pointer: Any = scientist.wait_object("ages", 10)
    with pytest.raises(errors.SettingError, match=r"reason has to be a text that the owner reads, not 5"):
        pointer.get(reason=5)
    assert len(owner.requests) == len(scientist.asked) == 0


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
    clock: Clock, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []
    draw = drawn_bar

    def note(**look: Any) -> Any:
        bars.append(draw(**look))
        return bars[-1]

    monkeypatch.setattr(progress, "bar", note)
    moving = Transfer("scan", "in", 1000)
    moving.path = "tcp"
    with Progress("scan", "clinic") as shown:
        clock.now_s += 2.0
        moving.done_bytes = 400
        shown.show(moving)
        (bar,) = bars
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


def test_a_bar_shows_how_much_of_an_array_the_sender_has_copied_to_shared_memory(
    clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    bars: list[Any] = []
    draw = drawn_bar

    def note(**look: Any) -> Any:
        bars.append(draw(**look))
        return bars[-1]

    monkeypatch.setattr(progress, "bar", note)
    moving = Transfer("scan", "in", 1000)
    with Progress("scan", "clinic") as shown:
        clock.now_s += 2.0
        moving.placed_bytes = 400
        shown.show(moving)
        (bar,) = bars
        assert (bar.n, bar.postfix) == (400, "into shared memory")
        moving.path, moving.placed_bytes = "tcp", 0  # it did not fit
        moving.done_bytes = 100
        shown.show(moving)
        assert (bar.n, bar.postfix) == (100, "tcp")
        moving.done_bytes = 1000
        shown.show(moving)
    assert bar.n == 1000


@pytest.mark.usefixtures("log")
def test_a_log_gets_a_line_of_a_transfer_each_minute_and_one_of_its_end(
    clock: Clock, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(log_bar, "time", clock)
    monkeypatch.setattr("tqdm.std.time", clock.monotonic)
    moving = Transfer("scan", "in", 1600)
    moving.path = "tcp"
    with Progress("scan", "clinic") as shown:
        for _ in range(1440):
            clock.now_s += 0.125
            moving.done_bytes += 1
            shown.show(moving)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition("|")[0] for line in lines] == ["scan:  30%", "scan:  60%", "scan:  90%"]
    assert "480/1.60k [01:00<02:20, 8.00B/s, tcp]" in lines[0]


@pytest.mark.parametrize(
    ("notebook", "terminal", "is_log"), [(True, False, False), (False, True, False), (False, False, True)]
)
def test_what_is_no_notebook_and_no_terminal_is_a_log(
    monkeypatch: pytest.MonkeyPatch, notebook: bool, terminal: bool, is_log: bool
) -> None:
    monkeypatch.undo()
    monkeypatch.setattr(screen, "in_notebook", lambda: notebook)
    monkeypatch.setattr("sys.stderr", SimpleNamespace(isatty=lambda: terminal))
    assert screen.is_log() is is_log


def test_a_program_without_stderr_draws_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.undo()
    monkeypatch.setattr("sys.stderr", None)
    assert screen.is_log()
    screen.write("nowhere")


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

    monkeypatch.setattr("tqdm.auto.tqdm", lambda **options: tqdm(**options, disable=True))
    moving = Transfer("scan", "in", 1000)
    clock.now_s += 2.0
    with Progress("scan", "clinic") as shown:
        shown.show(moving)
        moving.set_paused(here=True)
        shown.show(moving)
        moving.set_paused(here=False)
        shown.show(moving)
