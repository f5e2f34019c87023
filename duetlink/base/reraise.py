"""Copy an error, to raise it in several places."""

from __future__ import annotations

import copy
from typing import TypeVar

from duetlink.errors import DuetError

E = TypeVar("E", bound=DuetError)


def reraise(error: E) -> E:
    """Return an error of the same class, message and attributes, without traceback, cause and context.

    If one error object is raised in several tasks, it collects the tracebacks of all of them, and keeps the
    objects in their frames alive.
    """
    return copy.copy(error)
