"""How many processors there are, how busy they are, and what work takes of one."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

_STAT = Path("/proc/stat")
_EVERY_S = 0.5
_WAITED = 10.0  # times the processor's, from which on time has passed in waiting
_FINE_S = 1e-4  # a coarser clock cannot time one chunk

# Seconds that this thread has worked; where no clock for that is fine enough, that have passed.
work_clock = (
    time.thread_time if time.get_clock_info("thread_time").resolution <= _FINE_S else time.perf_counter
)


def count() -> int:
    """How many processors this process may use, at least 1."""
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # macOS, Windows
        return os.cpu_count() or 1


class Stopwatch:
    """How long this thread has worked since, in seconds.

    That is its processor's time: threads and programs that want the same processors say nothing of the work.
    Where it waited for most of the time, as work does that takes the GIL often while others hold it, all of
    the time counts.
    """

    def __init__(self) -> None:
        self._begin = time.perf_counter(), work_clock()

    def elapsed_s(self) -> float:
        passed_s, worked_s = time.perf_counter() - self._begin[0], work_clock() - self._begin[1]
        return worked_s if passed_s < _WAITED * worked_s else passed_s


class CpuMeter:
    """The share of all processors that other programs use. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_s = float("-inf")
        self._before = (0, 0)
        self._own_s = 0.0
        self._load: float | None = None

    def load(self, now_s: float) -> float | None:
        """0 to 1, over the last half second or so; None where it is not known. Costs little: it looks twice a
        second.
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
        """The share that is in use, by any process; None at first."""
        now = _busy_and_all()
        if now is None:
            return _load_average()
        (busy_before, all_before), self._before = self._before, now
        if not all_before or now[1] <= all_before:
            return None
        return (now[0] - busy_before) / (now[1] - all_before)


def _busy_and_all() -> tuple[int, int] | None:
    """Clock ticks of all processors since the system started (proc(5)); Linux only. Busy is what programs
    were: interrupts are mostly those of the network, which is ours.
    """
    try:
        line = _STAT.read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(ticks) for ticks in line.split()[1:9])
    busy = user + nice + system + steal
    return busy, busy + idle + iowait + irq + softirq


def _load_average() -> float | None:
    """Runnable tasks over a minute, where the system counts them: slower to follow, better than nothing."""
    try:
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except (AttributeError, OSError):
        return None
