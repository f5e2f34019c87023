"""A tqdm bar for logs, which cannot be overwritten: a line each minute, and one at the end."""

from __future__ import annotations

import io
import time
from typing import Any

from tqdm.std import tqdm

from duetlink.base.drawing import screen


class LogBar(tqdm):  # type: ignore[misc] # tqdm has no type information
    """A tqdm bar whose own output is discarded; only `display` writes."""

    def __init__(self, **options: Any) -> None:
        self._next_s = 0.0  # when the next line is due
        self._last_line = ""
        # with a delay, tqdm draws nothing before the first update
        super().__init__(file=io.StringIO(), delay=1e-9, **options)

    def display(self, msg: str | None = None, pos: int | None = None) -> None:
        if time.monotonic() >= self._next_s:
            self._write_line()

    def close(self) -> None:
        if not self.disable:
            self._write_line()
        super().close()

    def _write_line(self) -> None:
        self._next_s = time.monotonic() + screen.LOG_INTERVAL_S
        line = str(self)
        if line != self._last_line:
            screen.write(f"{line}\n")
            self._last_line = line
