"""The printed output of a function, sent to its owner as lines, several in one event because of the rate
limit.

The function's `sys.stdout` is an `Output`, which holds no reference to the socket or to `emit`.
"""

from __future__ import annotations

import contextlib
import io
import json
import threading
from collections.abc import Callable, Iterator

from duetlink.base.runtime import job_progress

MOST_CHARACTERS = 1024 * 1024  # of one function, in all
_PIECE = 12_000  # characters: in UTF-8 less than an event may have
_TICK_S = 0.2

Emit = Callable[[str, bytes], None]


@contextlib.contextmanager
def captured_output(emit: Emit) -> Iterator[None]:
    """During the block, send printed lines as events `log`, and `duetlink.progress` as events `progress`.

    A thread sends them every 0.2 s. The content of `progress` is a number as JSON.
    """
    output, ended = Output(), threading.Event()
    # the thread empties this list at once, so that no object that a frame leads to holds `emit`
    senders = [_sending(output, emit)]
    ticking = threading.Thread(target=_tick, args=(senders, ended), name="output", daemon=True)
    try:
        with (
            contextlib.redirect_stdout(output),
            contextlib.redirect_stderr(output),
            job_progress.told_to(output.on_progress),
        ):
            ticking.start()
            yield
    finally:
        ended.set()
        ticking.join()
        output.end_line()
        _send_events(output, emit)


def _tick(senders: list[Iterator[None]], ended: threading.Event) -> None:
    for _ in senders.pop():
        if ended.wait(_TICK_S):
            return


def _sending(output: Output, emit: Emit) -> Iterator[None]:
    while True:
        yield
        _send_events(output, emit)


def _send_events(output: Output, emit: Emit) -> None:
    for name, content in output.events():
        emit(name, content)


class Output(io.TextIOBase):
    """A replacement for standard output and error that collects lines."""

    def __init__(self) -> None:
        self._lock = threading.RLock()  # reentrant: a signal handler that interrupts a write may print
        self._lines: list[str] = []
        self._open = ""
        self._left = MOST_CHARACTERS
        self._fraction: float | None = None

    def writable(self) -> bool:
        return True

    def write(self, text: str) -> int:
        with self._lock:
            *lines, self._open = (self._open + text).split("\n")
            for line in lines:
                self._take(line)
            if len(self._open) > _PIECE:
                self.end_line()
        return len(text)

    def end_line(self) -> None:
        """End the current line, if it has any text."""
        with self._lock:
            if self._open:
                self._take(self._open)
                self._open = ""

    def on_progress(self, fraction: float, text: str) -> None:
        """Record a call of `duetlink.progress`."""
        with self._lock:
            self._fraction = fraction
            if text:
                self._take(text)

    def _take(self, line: str) -> None:
        line = line.rpartition("\r")[2]  # progress bars overwrite their own line
        if self._left <= 0:
            return
        self._left -= len(line) + 1
        self._lines.append(line[:_PIECE] if self._left > 0 else "… later output is not kept")

    def events(self) -> Iterator[tuple[str, bytes]]:
        """Yield name and content of the events for all output since the last call."""
        with self._lock:
            lines, self._lines = self._lines, []
            fraction, self._fraction = self._fraction, None
        if fraction is not None:
            yield "progress", json.dumps(fraction).encode()
        while lines:
            piece = [lines.pop(0)]
            size = len(piece[0])
            while lines and size + len(lines[0]) < _PIECE:
                size += len(lines[0]) + 1
                piece.append(lines.pop(0))
            yield "log", "\n".join(piece).encode(errors="replace")
