"""Progress of a program for its owner: a thread reports the current step, also during a long step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

Emit = Callable[[str, bytes], None]
TICK_S = 0.2


class Progress:
    """A context manager that sends `at` as an event "progress" every 0.2 s if it has changed.

    The content is the number as JSON. A program that ends within 0.2 s sends no event.
    """

    def __init__(self, emit: Emit) -> None:
        self.at = 0  # the number of the current step, from 1; written by the thread that runs the steps
        self._emit = emit
        self._last_sent = 0
        self._ended = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="progress", daemon=True)

    def __enter__(self) -> Self:
        self._ticking.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._ticking.join()

    def _tick(self) -> None:
        while not self._ended.wait(TICK_S):
            at = self.at
            if at != self._last_sent:
                self._last_sent = at
                self._emit("progress", str(at).encode())
