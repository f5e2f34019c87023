"""At which step a program is, for its owner: told a few times a second, also amid a step that takes long."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Self

Emit = Callable[[str, bytes], None]
TICK_S = 0.2


class Progress:
    """Within a `with`, tells of `at` by events "progress", each a number as JSON; of no program that is done
    within a tick.
    """

    def __init__(self, emit: Emit) -> None:
        self.at = 0  # the step, from 1 on; written by the thread that does it
        self._emit = emit
        self._told = 0
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
            if at != self._told:
                self._told = at
                self._emit("progress", str(at).encode())
