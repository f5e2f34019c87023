"""The progress of a function that runs at a data owner, as the function itself reports it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Tell = Callable[[float, str], None]

_tell: Tell | None = None


def progress(fraction: float, text: str = "") -> None:
    """Report how far the calling function is, from 0 to 1, and what it does; for `duet.remote`.

    The owner sees it; the sender of the function sees it if the owner releases the log. On mocks, and outside
    of such a function, it does nothing.
    """
    if _tell is not None:
        _tell(min(1.0, max(0.0, float(fraction))), str(text))


@contextlib.contextmanager
def told_to(tell: Tell) -> Iterator[None]:
    """Let `progress` call `tell` within the block."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before
