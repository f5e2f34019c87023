"""How far a function has come that runs at a data owner: told by the function itself, from within."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

Tell = Callable[[float, str], None]

_tell: Tell | None = None


def progress(fraction: float, text: str = "") -> None:
    """Tell how far the function is that calls this, from 0 to 1, and what it does; for `duet.remote`.

    The owner sees it; the one who sent the function does where the owner lets the log out. On mocks, and
    outside of such a function, it does nothing.
    """
    if _tell is not None:
        _tell(min(1.0, max(0.0, float(fraction))), str(text))


@contextlib.contextmanager
def told_to(tell: Tell) -> Iterator[None]:
    """Within the block, `progress` calls `tell`."""
    global _tell
    before, _tell = _tell, tell
    try:
        yield
    finally:
        _tell = before
