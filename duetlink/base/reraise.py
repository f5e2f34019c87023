"""An error once more, for whoever else it concerns."""

from __future__ import annotations

import copy
from typing import TypeVar

from duetlink.errors import DuetError

E = TypeVar("E", bound=DuetError)


def reraise(error: E) -> E:
    """The same class, message and attributes, without traceback, cause and context.

    One error that is raised in several tasks collects the tracebacks of all of them, and holds on to
    whatever is in their frames.
    """
    return copy.copy(error)
