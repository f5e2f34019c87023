"""How busy this machine's processors are."""

from __future__ import annotations

import os
import threading
from pathlib import Path

_STAT = Path("/proc/stat")
_EVERY_S = 0.5


class CpuMeter:
    """The share of all processors that is in use, by any process. Any thread may ask."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._asked_s = float("-inf")
        self._before = (0, 0)
        self._load: float | None = None

    def load(self, now_s: float) -> float | None:
        """0 to 1, over the last half second or so; None where it is not known. Costs little: it looks twice a
        second.
        """
        with self._lock:
            if now_s - self._asked_s >= _EVERY_S:
                self._asked_s = now_s
                self._look()
            return self._load

    def _look(self) -> None:
        now = _busy_and_all()
        if now is None:
            self._load = _load_average()
            return
        busy, every = now[0] - self._before[0], now[1] - self._before[1]
        if self._before != (0, 0) and every > 0:
            self._load = busy / every
        self._before = now


def _busy_and_all() -> tuple[int, int] | None:
    """Clock ticks of all processors since the system started (proc(5)); Linux only."""
    try:
        line = _STAT.read_text(encoding="ascii").split("\n", 1)[0]
    except OSError:
        return None
    user, nice, system, idle, iowait, irq, softirq, steal = (int(ticks) for ticks in line.split()[1:9])
    busy = user + nice + system + irq + softirq + steal
    return busy, busy + idle + iowait


def _load_average() -> float | None:
    """Runnable tasks over a minute, where the system counts them: slower to follow, better than nothing."""
    try:
        return min(1.0, os.getloadavg()[0] / (os.cpu_count() or 1))
    except (AttributeError, OSError):
        return None
