"""One cell of a notebook that is open in a browser."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

from playwright.sync_api import Locator, Page

_COLOUR = re.compile(r"\x1b\[[0-9;]*m")

# waits until a condition in the page holds: its source, its argument, seconds
WaitFor = Callable[[str, object, float | None], None]


class CellFailed(Exception):
    """The cell raised; the text is its traceback."""


class Cell:
    """A code cell by its place in the notebook, counted from 0."""

    def __init__(self, page: Page, index: int, wait_for: WaitFor) -> None:
        self._page = page
        self._wait_for = wait_for
        self._run: int | None = None
        self.index = index

    @property
    def element(self) -> Locator:
        """The whole cell in the page."""
        return self._page.locator(".jp-Notebook .jp-Cell").nth(self.index)

    @property
    def output(self) -> Locator:
        """What stands below its code in the page: text, tables, widgets."""
        return self.element.locator(".jp-Cell-outputWrapper")

    def begin(self) -> Cell:
        """Run it and do not wait; `wait` does."""
        self._run = self._page.evaluate("index => notebookPage.begin(index)", self.index)
        return self

    def is_running(self) -> bool:
        """Whether it was begun and has not ended."""
        return bool(self._page.evaluate("run => notebookPage.runs[run]?.ended === false", self._run))

    def wait(self, timeout_s: float | None = None) -> Cell:
        """Wait until it has ended. Raises CellFailed where it raised."""
        self._wait_for("run => notebookPage.runs[run].ended", self._run, timeout_s)
        if failure := self._page.evaluate("run => notebookPage.runs[run].failure", self._run):
            raise CellFailed(failure)
        for output in self._outputs():
            if output["output_type"] == "error":
                raise CellFailed(_COLOUR.sub("", "\n".join(output["traceback"])))
        return self

    def text(self) -> str:
        """What it has written so far and its result, as text; each output begins a line."""
        texts = [
            output.get("text") or output.get("data", {}).get("text/plain", "") for output in self._outputs()
        ]
        return "\n".join("".join(text).strip("\n") for text in texts).strip()

    def _outputs(self) -> list[dict[str, Any]]:
        # from the model: the page draws streams later, and cuts long ones
        return list(self._page.evaluate("index => notebookPage.outputs(index)", self.index))
