"""Where the panel of a notebook comes from: another package, found by its entry point.

A package that draws duets and groups registers a function in the entry point group `duetlink.panel`. It takes
one and returns an object with `display()` and `close()`. `duetlink_widgets` is that package; this one does
not import it.
"""

from __future__ import annotations

import sys
from importlib.metadata import entry_points
from typing import Protocol

from duetlink.errors import PanelUnavailable

GROUP = "duetlink.panel"


class Panel(Protocol):
    """What a notebook shows of a duet or a group."""

    def display(self) -> None:
        """Show it below the cell that runs."""

    def close(self) -> None:
        """Remove it from every page, and stop."""


def make_panel(shown: object) -> Panel:
    """The panel of a duet or a group. Raises PanelUnavailable outside notebooks, and where no package draws
    one.
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
    except Exception as error:  # of another package: what it was to show goes on
        raise PanelUnavailable(f"the panel cannot be made: {type(error).__name__}: {error}") from error
    return panel


def in_notebook() -> bool:
    """Whether a Jupyter kernel runs this, found without importing IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return shell is not None and hasattr(shell, "kernel")
