"""The progress bar of a preparation."""

from __future__ import annotations

import threading
from typing import Self

from duetlink.base.drawing import screen
from duetlink.base.drawing.bars import bar

_TICK_S = 0.25


class RowProgress:
    """Draws the elapsed time, and the number of prepared rows if the engine reports it, from a thread."""

    def __init__(self, what: str, *, counts: bool) -> None:
        self._what = what
        self._format = None if counts else "{desc} [{elapsed}]"
        self._rows = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="duetlink-prep-progress", daemon=True)

    def add(self, rows: int) -> None:
        self._rows += rows

    def _draw(self) -> None:
        if self._ended.wait(screen.delay_s()):
            return
        with bar(desc=self._what, unit=" rows", unit_scale=True, bar_format=self._format) as drawn:
            while not self._ended.wait(_TICK_S):
                drawn.update(self._rows - drawn.n)
                drawn.refresh()
            drawn.update(self._rows - drawn.n)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *raised: object) -> None:
        self._ended.set()
        self._thread.join()
