"""The errors of a demo."""

from __future__ import annotations

from duetlink.errors import DuetError


class DemoFailed(DuetError, RuntimeError):
    """The demo could not be completed; the message says why."""


class CellFailed(DemoFailed):
    """A cell raised an error. `traceback` is the text that its notebook shows, with terminal colours."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message)
        self.traceback = traceback
