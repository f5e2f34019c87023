"""What a function prints while it runs at its owner, and how far it is: what is kept of it, either side."""

from __future__ import annotations

import html
from collections.abc import Iterable
from typing import Self

from duetlink.base.wire.text import harmless_lines

MOST_LINES = 10_000
MOST_CHARACTERS = 256 * 1024
_MAX_LINE = 2_000  # characters


class JobLog:
    """Lines and progress of one function. Whoever says them is not trusted. The loop thread writes."""

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.fraction: float | None = None  # from 0 to 1; None: it has told nothing
        self._left = MOST_CHARACTERS

    def add(self, lines: Iterable[str]) -> None:
        """Keep these, as far as there is room."""
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
        """It is so far; what is no such number is ignored."""
        if isinstance(fraction, (int, float)) and 0 <= fraction <= 1:
            self.fraction = float(fraction)


class LogLines(tuple[str, ...]):
    """Lines as they may be printed, each alone or all together: control characters are escapes."""

    __slots__ = ()

    def __new__(cls, lines: Iterable[str] = ()) -> Self:
        return super().__new__(cls, map(harmless_lines, lines))

    def __str__(self) -> str:
        return "\n".join(self)

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return f'<pre style="font-family:monospace">{html.escape(str(self))}</pre>'
