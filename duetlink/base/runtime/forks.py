"""What a fork of this process forgets. It has the objects, and none of the threads that serve them."""

from __future__ import annotations

import os
from collections.abc import Callable

_known: set[Callable[[], None]] = set()


def in_child(forget: Callable[[], None]) -> None:
    """Call `forget` in every fork of this process, at once after the fork. Locks may be held there for good:
    it makes them anew. To say it again is harmless. Where processes do not fork (Windows) this does nothing.
    """
    if forget not in _known and hasattr(os, "register_at_fork"):
        _known.add(forget)
        os.register_at_fork(after_in_child=forget)
