"""Converts the result of a step to the form that both sides keep."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def finished(made: Any) -> Any:
    """Return a list for an iterator, and a dict for pandas' PrettyDict; return other objects unchanged.

    An iterator is used up by reading it, so its remaining length would reveal what a step found in it. A
    PrettyDict is printed differently from a dict.
    """
    if type(made).__name__ == "PrettyDict":
        return dict(made)
    return list(made) if isinstance(made, Iterator) else made
