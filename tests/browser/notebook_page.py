"""One notebook in a window of its own, in JupyterLab or in Notebook 7, with a kernel of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from playwright.sync_api import Browser, Locator, Page

from tests.browser.cell import Cell
from tests.browser.jupyter import JupyterServer

Frontend = Literal["lab", "notebook"]
LIGHT, DARK, HIGH_CONTRAST = THEMES = (
    "JupyterLab Light",
    "JupyterLab Dark",
    "JupyterLab Dark High Contrast",
)

_ADDRESSES = {
    # one document, in a workspace of its own: pages that share one move each other's documents
    "lab": "/doc/workspaces/{name}/tree/{path}?reset&token={token}",
    "notebook": "/notebooks/{path}?token={token}",
}
_SCRIPT = Path(__file__).with_suffix(".js").read_text(encoding="utf-8")


class NotebookPage:
    """A window for the notebook at `path`; `load` opens it there. Each wait lasts `timeout_s` at most.

    `page` is Playwright's, for all that is not here; `complaints` what the page reported as errors.
    """

    def __init__(
        self,
        browser: Browser,
        server: JupyterServer,
        path: str,
        frontend: Frontend = "lab",
        *,
        timeout_s: float = 60.0,
        width: int = 1200,
        height: int = 900,
    ) -> None:
        self.name = Path(path).stem
        self.timeout_s = timeout_s
        self.complaints: list[str] = []
        self._server = server
        self._path = path
        self._address = _ADDRESSES[frontend].format(name=self.name, path=path, token=server.token)
        # a context is a window: none waits because another is in front of it
        self._context = browser.new_context(viewport={"width": width, "height": height})
        self._context.set_default_timeout(1000 * timeout_s)
        self._context.add_init_script(_SCRIPT)
        self.page = self._context.new_page()
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.on(
            "console", lambda line: self.complaints.append(line.text) if line.type == "error" else None
        )

    def load(self) -> None:
        """Open the notebook and wait until its kernel is idle."""
        self.page.goto(self._server.url + self._address, wait_until="commit")
        self.wait_idle()
        self.set_theme(LIGHT)  # the server keeps what another page has set

    def reload(self) -> None:
        """Save the notebook and load the page anew, as a person does; the kernel goes on."""
        # unsaved, the page would ask whether to leave
        self.page.evaluate("notebookPage.panel().context.save()")
        self.page.reload(wait_until="commit")
        self._wait_for("() => window.notebookPage?.isReady()")

    def end_kernel(self) -> None:
        """End the kernel, as a server does that is shut down; the window stays."""
        self._server.end_kernels(self._path)

    def close(self) -> None:
        """Close the window and end the kernel."""
        try:
            self._context.close()
        finally:
            self._server.end_kernels(self._path)

    def wait_idle(self) -> None:
        """Wait until the notebook is there and its kernel has nothing to do."""
        self._wait_for("() => window.notebookPage?.isReady() && notebookPage.kernel().status === 'idle'")

    def count_cells(self) -> int:
        """How many cells the notebook has."""
        return int(self.page.evaluate("notebookPage.panel().content.model.cells.length"))

    def cell(self, index: int) -> Cell:
        """A cell, counted from 0."""
        return Cell(self.page, index, self._wait_for)

    def run_cell(self, index: int, timeout_s: float | None = None) -> Cell:
        """Run a cell and wait for it. Raises CellFailed where it raises."""
        return self.cell(index).begin().wait(timeout_s)

    def begin(self, code: str) -> Cell:
        """Run code in a new cell at the end, and do not wait for it."""
        return self.cell(self.page.evaluate("code => notebookPage.append(code)", code)).begin()

    def run(self, code: str, timeout_s: float | None = None) -> Cell:
        """Run code in a new cell at the end and wait for it. Raises CellFailed where it raises."""
        return self.begin(code).wait(timeout_s)

    def set_theme(self, theme: str) -> None:
        """Change to one of THEMES, and wait until the page wears it."""
        if self.page.evaluate("document.body.dataset.jpThemeName") != theme:
            self.page.evaluate(
                "theme => jupyterapp.commands.execute('apputils:change-theme', {theme})", theme
            )
        self._wait_for("theme => document.body.dataset.jpThemeName === theme", theme)

    def screenshot(self, path: Path, cell: Cell | None = None) -> Path:
        """A picture of the page, or of a cell's output; returns `path`."""
        return self.picture(path, self.page if cell is None else cell.output)

    def picture(self, path: Path, shown: Page | Locator) -> Path:
        """A picture of what is shown somewhere on the page; returns `path`."""
        # given a path, Playwright would write it in a thread that stays, and a test leaves none
        path.write_bytes(shown.screenshot(animations="disabled", timeout=20_000))
        return path

    def _wait_for(self, condition: str, argument: object = None, timeout_s: float | None = None) -> None:
        # by the clock: where nothing is drawn, frames are rare
        limit_ms = 1000 * (timeout_s or self.timeout_s)
        self.page.wait_for_function(condition, arg=argument, polling=50, timeout=limit_ms)

    def saved(self) -> str:
        """The notebook's file."""
        return (self._server.root / self._path).read_text(encoding="utf-8")
