"""Describe a peer's value from its own bytes, without relying on the peer's description."""

from __future__ import annotations

import sys

from duetlink.data.values.base import Summary
from duetlink.data.values.flat import NotFlat, libraries
from duetlink.data.values.reader import DecodeBudget, decode
from duetlink.data.values.writer import summarise
from duetlink.errors import DuetError

_MOST_PARTS = 100  # keeps the time below a millisecond


def told(body: memoryview | bytes) -> Summary | None:
    """Return kind and detail of a flat value (`flat.py`) of few parts.

    None for other values, which only their library can describe, for malformed ones, and if the library is
    not imported here.
    """
    try:
        if any(library != "numpy" and library not in sys.modules for library in libraries(memoryview(body))):
            return None
        return summarise(
            decode(body, max_nodes=_MOST_PARTS, room=DecodeBudget(0), gradients=False, only_flat=True)
        )
    except (DuetError, NotFlat):
        return None
