"""Reset objects in a fork of this process, which has the objects but none of their threads."""

from __future__ import annotations

import os
from collections.abc import Callable

_known: set[Callable[[], None]] = set()


def in_child(forget: Callable[[], None]) -> None:
    """Call `forget` in every fork of this process, immediately after the fork.

    It must replace locks, which may be held in the fork for ever. Registering it twice is harmless. On
    systems without fork (Windows) this does nothing.
    """
    if forget not in _known and hasattr(os, "register_at_fork"):
        _known.add(forget)
        os.register_at_fork(after_in_child=forget)
