"""How a demo can fail."""

from __future__ import annotations

from duetlink.errors import DuetError


class DemoFailed(DuetError, RuntimeError):
    """The demo did not get to its end."""


class CellFailed(DemoFailed):
    """A cell raised an error. `traceback` is what its notebook shows, with terminal colours."""

    def __init__(self, message: str, traceback: str) -> None:
        super().__init__(message)
        self.traceback = traceback
