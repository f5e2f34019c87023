"""Finds the package that draws the notebook panel, by its entry point.

Such a package registers a function in the entry point group `duetlink.panel`. The function takes a duet or a
group and returns an object with `display()` and `close()`. duetlink itself imports no such package.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import Protocol

from duetlink.errors import PanelUnavailable

GROUP = "duetlink.panel"


class Panel(Protocol):
    """The panel that a notebook shows for a duet or a group."""

    def display(self) -> None:
        """Show the panel below the running cell."""

    def close(self) -> None:
        """Remove the panel from every page, and stop updating it."""


def make_panel(shown: object) -> Panel:
    """Make the panel of a duet or a group.

    Raises:
        PanelUnavailable: this is no notebook, no package draws panels, or that package failed.
    """
    if not in_notebook():
        raise PanelUnavailable("the panel needs a Jupyter notebook; print() shows how things stand")
    found = next(iter(entry_points(group=GROUP)), None)
    if found is None:
        raise PanelUnavailable(
            "no package for the panel is installed; install duetlink again, with its dependencies"
        )
    try:
        panel: Panel = found.load()(shown)
    except Exception as error:  # raised by the other package; the duet or group goes on
        raise PanelUnavailable(f"the panel cannot be made: {type(error).__name__}: {error}") from error
    return panel


def in_notebook() -> bool:
    """Return True in a Jupyter kernel. Does not import IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
