"""A line that says what a call is waiting for, shown after one second."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Any, Self

from duetlink.base.drawing import screen
from duetlink.panel import in_notebook


class WaitingLine:
    """Shows one line while a call waits, and replaces it by the outcome.

    In a notebook the line is replaced when it ends. Elsewhere it goes to stderr, as progress bars do; a log
    gets it once a minute. Use it on the waiting thread: output belongs to its cell.
    """

    def __init__(self, what: str, interrupt: str) -> None:
        """`what` is being waited for; `interrupt` is the effect of Ctrl-C, such as `withdraw the request`."""
        self.what = what
        self._interrupt = interrupt
        self._begun_s = time.monotonic()
        self._handle: Any = None  # handle of the notebook's output, whose text is `_shown`
        self._shown = ""
        self._next_s = self._begun_s + screen.delay_s()  # time of the first drawing, in a log of the next one
        self._is_shown = self._has_ended = False

    def show(self) -> None:
        """Draw the line if the wait is long enough; redraw it in a notebook if `what` has changed."""
        now_s = time.monotonic()
        if self._has_ended or now_s < self._next_s:
            return
        if screen.is_log():
            self._is_shown = True
            self._next_s += screen.LOG_INTERVAL_S
            screen.write(f"{self.what} … {now_s - self._begun_s:.0f} s (Ctrl-C to {self._interrupt})\n")
            return
        words = f"{self.what} … (interrupt to {self._interrupt})"
        if self._is_shown:
            if self._handle is not None and words != self._shown:
                self._handle.update(_bundle(words), raw=True)
                self._shown = words
            return
        self._is_shown = True
        if in_notebook():
            from IPython.display import display

            self._handle = display(_bundle(words), raw=True, display_id=True)  # type: ignore[no-untyped-call]
            self._shown = words
        else:
            screen.write(f"{self.what} … (Ctrl-C to {self._interrupt}) ")

    def end(self, outcome: str) -> None:
        """Show the outcome if the line is shown. Only the first call counts."""
        if self._has_ended:
            return
        self._has_ended = True
        if not self._is_shown:
            return
        words = f"{outcome} after {time.monotonic() - self._begun_s:.0f} s"
        if self._handle is not None:
            self._handle.update(_bundle(f"{self.what}: {words}"), raw=True)
        elif screen.is_log():
            screen.write(f"{self.what}: {words}\n")
        else:
            screen.write(f"{words}\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.end("done")
        else:
            self.end("interrupted" if issubclass(kind, KeyboardInterrupt) else "given up")


def _bundle(words: str) -> dict[str, str]:
    return {"text/plain": words}
