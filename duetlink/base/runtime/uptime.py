"""A clock that continues while the machine sleeps."""

from __future__ import annotations

import sys
import time

# time.monotonic stops while the machine sleeps on Linux and macOS. On macOS CLOCK_MONOTONIC continues, and
# time.monotonic is another clock.
_CLOCK: int | None = getattr(time, "CLOCK_BOOTTIME", None)
if _CLOCK is None and sys.platform == "darwin":
    _CLOCK = time.CLOCK_MONOTONIC


def uptime_s() -> float:
    """Return the seconds since a fixed moment, including the time in which the machine slept."""
    return time.monotonic() if _CLOCK is None else time.clock_gettime(_CLOCK)
