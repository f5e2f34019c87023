"""How long this machine has been up, the time in which it slept included."""

from __future__ import annotations

import sys
import time

# time.monotonic stands still while the machine sleeps on Linux and macOS. On macOS CLOCK_MONOTONIC goes on,
# and time.monotonic is another clock.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
if _CLOCK is None and sys.platform == "darwin":
    _CLOCK = time.CLOCK_MONOTONIC


def uptime_s() -> float:
    """Seconds from some moment on that never changes, also while the machine sleeps."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
