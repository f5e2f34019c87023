"""What a function prints, as lines for its owner: gathered, since the kernel takes up few events a second."""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from duetlink.base.runtime import job_progress

MOST_CHARACTERS = 1024 * 1024  # of one function, in all
_PIECE = 12_000  # characters: in UTF-8 less than an event may have
_TICK_S = 0.2

Emit = Callable[[str, bytes], None]


class Output(io.TextIOBase):
    """Takes the place of standard output and error within a `with`; complete lines leave a moment later.

    Events are `log`, with lines, and `progress`, with a number as JSON.
    """

    def __init__(self, emit: Emit) -> None:
        self._emit = emit
        self._lock = threading.RLock()  # whoever is interrupted while it writes may write
        self._lines: list[str] = []
        self._open = ""
        self._left = MOST_CHARACTERS
        self._fraction: float | None = None
        self._ended = threading.Event()
        self._ticking = threading.Thread(target=self._tick, name="output", daemon=True)
        self._undo = contextlib.ExitStack()

    def __enter__(self) -> Self:
        self._undo.enter_context(contextlib.redirect_stdout(self))
        self._undo.enter_context(contextlib.redirect_stderr(self))
        self._undo.enter_context(job_progress.told_to(self._told))
        self._ticking.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._undo.close()
        self._ended.set()
        self._ticking.join()
        with self._lock:
            if self._open:
                self._take(self._open)
                self._open = ""
        self._send()

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._open = (self._open + text).split("\n")
            for line in lines:
                self._take(line)
            if len(self._open) > _PIECE:
                self._take(self._open)
                self._open = ""
        return len(text)

    def _told(self, fraction: float, text: str) -> None:
        with self._lock:
            self._fraction = fraction
            if text:
                self._take(text)

    def _take(self, line: str) -> None:
        line = line.rpartition("\r")[2]  # bars of progress overwrite themselves
        if self._left <= 0:
            return
        self._left -= len(line) + 1
        self._lines.append(line[:_PIECE] if self._left > 0 else "… what it prints from here on is not kept")

    def _tick(self) -> None:
        while not self._ended.wait(_TICK_S):
            self._send()

    def _send(self) -> None:
        with self._lock:
            lines, self._lines = self._lines, []
            fraction, self._fraction = self._fraction, None
        if fraction is not None:
            self._emit("progress", json.dumps(fraction).encode())
        while lines:
            piece = [lines.pop(0)]
            size = len(piece[0])
            while lines and size + len(lines[0]) < _PIECE:
                size += len(lines[0]) + 1
                piece.append(lines.pop(0))
            self._emit("log", "\n".join(piece).encode(errors="replace"))
