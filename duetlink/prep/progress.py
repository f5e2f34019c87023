"""A progress bar for what takes longer than a second, in a notebook and in a terminal."""

from __future__ import annotations

import threading
from types import TracebackType
from typing import Any, Self

DELAY_S = 1.0  # what is quicker needs no bar
_TICK_S = 0.25


class RowProgress:
    """Draws for how long it has taken, and how many rows are done where the engine tells, from a thread."""

    def __init__(self, what: str, *, counts: bool) -> None:
        self._what = what
        self._format = None if counts else "{desc} [{elapsed}]"
        self._rows = 0
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="duetlink-prep-progress", daemon=True)

    def add(self, rows: int) -> None:
        self._rows += rows

    def _draw(self) -> None:
        if self._ended.wait(DELAY_S):
            return
        with _tqdm()(desc=self._what, unit=" rows", unit_scale=True, bar_format=self._format) as bar:
            while not self._ended.wait(_TICK_S):
                bar.update(self._rows - bar.n)
                bar.refresh()
            bar.update(self._rows - bar.n)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()


def _tqdm() -> Any:
    from tqdm.auto import tqdm

    return tqdm
