"""Waits for a future on the caller's thread, with a line that shows it."""

from __future__ import annotations

import concurrent.futures
import time
from collections.abc import Callable
from typing import Any

from duetlink import tracebacks


def wait_future(
    future: concurrent.futures.Future[Any],
    timeout_s: float | None,
    *,
    on_wait: Callable[[], None],
) -> bool:
    """Wait for `future`, calling `on_wait` ten times a second; return False if `timeout_s` passed before."""
    try:
        return _wait(future, timeout_s, on_wait)
    except KeyboardInterrupt as interrupt:
        tracebacks.shorten(interrupt)
        raise


def _wait(
    future: concurrent.futures.Future[Any],
    timeout_s: float | None,
    on_wait: Callable[[], None],
) -> bool:
    deadline_s = None if timeout_s is None else time.monotonic() + timeout_s
    while not future.done():
        tick_s = 0.1
        if deadline_s is not None:
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                return False
            tick_s = min(tick_s, left_s)
        concurrent.futures.wait((future,), tick_s)
        on_wait()
    return True
