"""The meter of processor load, and what work takes of one."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from duetlink.base.runtime import cpu
from duetlink.testing.faults import set_constants


@pytest.fixture
def stat(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    path = tmp_path / "stat"
    set_constants(monkeypatch, cpu, STAT=path)
    return path


def ticks(busy: int, idle: int) -> str:
    return f"cpu  {busy} 0 0 {idle} 0 0 0 0 0 0\ncpu0 1 2 3\n"


@pytest.fixture(autouse=True)
def own_s(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Processor time of this process."""
    own = [3.0]
    monkeypatch.setattr(time, "process_time", lambda: own[0])
    return own


def test_load_is_the_share_of_ticks_since_the_last_look(stat: Path) -> None:
    meter = cpu.CpuMeter()
    stat.write_text(ticks(100, 900))
    assert meter.load(0.0) is None  # nothing to compare with
    stat.write_text(ticks(130, 970))
    assert meter.load(0.4) is None  # not again so soon
    assert meter.load(0.5) == 0.3
    stat.write_text(ticks(230, 970))
    assert meter.load(1.0) == 1.0


def test_what_this_process_uses_is_no_load(
    stat: Path, own_s: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "cpu_count", lambda: 2)
    meter = cpu.CpuMeter()
    stat.write_text(ticks(100, 900))
    meter.load(0.0)
    stat.write_text(ticks(160, 940))  # 60 of 100 ticks, which are half a second of two processors
    own_s[0] += 0.4
    assert meter.load(0.5) == pytest.approx(0.6 - 0.4)
    stat.write_text(ticks(170, 1030))
    own_s[0] += 0.3  # ticks are coarse
    assert meter.load(1.0) == 0.0


def test_without_ticks_the_load_average_does(stat: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (1.0, 0.0, 0.0))
    monkeypatch.setattr(os, "cpu_count", lambda: 4)
    assert cpu.CpuMeter().load(0.0) == 0.25
    monkeypatch.setattr(os, "getloadavg", lambda: (9.0, 0.0, 0.0))
    assert cpu.CpuMeter().load(0.0) == 1.0


def test_here_it_is_a_share() -> None:
    meter = cpu.CpuMeter()
    meter.load(0.0)
    assert (found := meter.load(1.0)) is None or 0 <= found <= 1


@pytest.mark.parametrize(
    ("passed_s", "worked_s", "elapsed_s"), [(3.0, 0.5, 0.5), (5.5, 0.5, 5.5), (1.0, 0.0, 1.0)]
)
def test_work_is_the_processors_time_unless_it_waited_for_most_of_it(
    monkeypatch: pytest.MonkeyPatch, passed_s: float, worked_s: float, elapsed_s: float
) -> None:
    monkeypatch.setattr(time, "perf_counter", iter([10.0, 10.0 + passed_s]).__next__)
    monkeypatch.setattr(cpu, "work_clock", iter([2.0, 2.0 + worked_s]).__next__)
    assert cpu.Stopwatch().elapsed_s() == elapsed_s


def test_a_stopwatch_runs_while_its_thread_works() -> None:
    stopwatch, sums = cpu.Stopwatch(), 0
    while not stopwatch.elapsed_s():
        sums += 1
    assert stopwatch.elapsed_s() > 0
