"""What a step has made, as it is kept: the same on both sides."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any


def finished(made: Any) -> Any:
    """Nothing that is used up as it is looked at: how much is left of it would tell what was found in it. And
    no dict of pandas' own, which differs from one in how it is printed.
    """
    if type(made).__name__ == "PrettyDict":
        return dict(made)
    return list(made) if isinstance(made, Iterator) else made
