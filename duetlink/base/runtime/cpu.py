"""Count processors, and measure their load and the processor time of work."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_EVERY_S = 0.5
_WAITED = 10.0  # if the elapsed time is this many times the processor time, the thread mostly waited
_FINE_S = 1e-4  # a coarser clock cannot time one chunk

# Processor seconds of this thread, or elapsed seconds if no such clock is fine enough.
work_clock = (
    time.thread_time if time.get_clock_info("thread_time").resolution <= _FINE_S else time.perf_counter
)


def count() -> int:
    """Return the number of processors that this process may use, at least 1."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


class Stopwatch:
    """Measures the processor time of this thread since its construction, in seconds.

    Processor time is not affected by other threads and programs. If the thread waited for most of the time,
    as work does that takes the GIL often while others hold it, the elapsed time counts instead.
    """

    def __init__(self) -> None:
        self._begin = time.perf_counter(), work_clock()

    def elapsed_s(self) -> float:
        passed_s, worked_s = time.perf_counter() - self._begin[0], work_clock() - self._begin[1]
        return worked_s if passed_s < _WAITED * worked_s else passed_s


class CpuMeter:
    """Measures the share of all processors that other programs use. Any thread may call."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_s = float("-inf")
        self._before = (0, 0)
        self._own_s = 0.0
        self._load: float | None = None

    def load(self, now_s: float) -> float | None:
        """Return the load over about the last half second, 0 to 1; None if it is unknown.

        It is measured at most twice a second.
        """
        with self._lock:
            if (passed_s := now_s - self._asked_s) >= _EVERY_S:
                self._asked_s = now_s
                self._look(passed_s)
            return self._load

    def _look(self, passed_s: float) -> None:
        before_s, self._own_s = self._own_s, time.process_time()
        own = (self._own_s - before_s) / passed_s / (os.cpu_count() or 1)
        load = self._all()
        self._load = None if load is None else min(1.0, max(0.0, load - own))

    def _all(self) -> float | None:
        """Return the share in use by any process; None at first."""
        now = _busy_and_all()
        if now is None:
            return _load_average()
        (busy_before, all_before), self._before = self._before, now
        if not all_before or now[1] <= all_before:
            return None
        return (now[0] - busy_before) / (now[1] - all_before)


def _busy_and_all() -> tuple[int, int] | None:
    """Return busy and total clock ticks of all processors since the system started (proc(5)); Linux only.

    Busy ticks are those of programs: interrupts are mostly those of this program's network traffic.
    """
    try:
        line = _STAT.read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(ticks) for ticks in line.split()[1:9])
    busy = user + nice + system + steal
    return busy, busy + idle + iowait + irq + softirq


def _load_average() -> float | None:
    """Return the load average of one minute, which follows changes slowly; None if there is none."""
    try:
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except (AttributeError, OSError):
        return None
