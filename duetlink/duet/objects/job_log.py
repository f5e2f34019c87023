"""The output and progress of a function that runs at its owner, as both sides keep it."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Self

from duetlink.base.wire.text import harmless_lines

MOST_LINES = 10_000
MOST_CHARACTERS = 256 * 1024
_MAX_LINE = 2_000  # characters


class JobLog:
    """The lines and the progress of one function. They come from the peer's code, so they are not trusted.
    Written on the loop thread only.
    """

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fraction: float | None = None  # from 0 to 1; None: nothing reported
        self._left = MOST_CHARACTERS

    def add(self, lines: Iterable[str]) -> None:
        """Keep these lines, up to the limits."""
        for line in lines:
            if self._left <= 0:
                return
            self._left -= len(line[:_MAX_LINE]) + 1
            if len(self.lines) >= MOST_LINES or self._left <= 0:
                self._left = 0
                self.lines.append("… more is not kept")
                return
            self.lines.append(line[:_MAX_LINE])

    def tell(self, fraction: object) -> None:
        """Set the progress; anything but a number from 0 to 1 is ignored."""
        if isinstance(fraction, (int, float)) and 0 <= fraction <= 1:
            self.fraction = float(fraction)


class LogLines(tuple[str, ...]):
    """Log lines that are safe to print, alone or together: control characters are escaped."""

    __slots__ = ()

    def __new__(cls, lines: Iterable[str] = ()) -> Self:
        return super().__new__(cls, map(harmless_lines, lines))

    def __str__(self) -> str:
        return "\n".join(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="font-family:monospace">{html.escape(str(self))}</pre>'
