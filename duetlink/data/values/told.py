"""What a peer's value is, from its own bytes: what the peer says of it is not needed."""

from __future__ import annotations

import sys

from duetlink.data.values.base import Summary
from duetlink.data.values.flat import NotFlat, libraries
from duetlink.data.values.reader import DecodeBudget, decode
from duetlink.data.values.writer import summarise
from duetlink.errors import DuetError

_MOST_PARTS = 100  # so that it takes no longer than a millisecond


def told(body: memoryview | bytes) -> Summary | None:
    """Kind and detail of a flat value (`flat.py`) of few parts. None for any other, which only its library
    can tell, for one that is malformed, and where its library is not imported here by now.
    """
    try:
        if any(library != "numpy" and library not in sys.modules for library in libraries(memoryview(body))):
            return None
        return summarise(
            decode(body, max_nodes=_MOST_PARTS, room=DecodeBudget(0), gradients=False, only_flat=True)
        )
    except (DuetError, NotFlat):
        return None
