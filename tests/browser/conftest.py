"""One Jupyter server and one browser for all tests of this folder; pages and kernels for each test."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Error

from tests.browser.chromium import missing, run_chromium
from tests.browser.jupyter import JupyterServer
from tests.browser.notebook_page import Frontend, NotebookPage


class OpenNotebook:
    """Opens new notebooks, each with a kernel: `page = open_notebook("owner")`."""

    def __init__(self, browser: Browser, server: JupyterServer, **usual: Any) -> None:
        self.server = server
        self.pages: list[NotebookPage] = []
        self._browser = browser
        self._usual = usual

    def __call__(
        self, name: str, frontend: Frontend = "lab", cells: list[str] | None = None, **more: Any
    ) -> NotebookPage:
        """A page with a notebook of this name and these code cells, none of them run."""
        path = self.server.write_notebook(name, cells)
        page = NotebookPage(self._browser, self.server, path, frontend, **(self._usual | more))
        self.pages.append(page)
        page.load()
        return page


# of the package and no longer: while Playwright is there, no asyncio test can run
@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser; skips where there is none."""
    if why := missing():
        pytest.skip(why)
    with run_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture(scope="package")
def jupyter_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[JupyterServer]:
    """The server of JupyterLab and Notebook 7."""
    with contextlib.closing(JupyterServer(tmp_path_factory.mktemp("jupyter"))) as server:
        yield server


@pytest.fixture
def open_notebook(chromium: Browser, jupyter_server: JupyterServer) -> Iterator[OpenNotebook]:
    """Opens notebooks whose pages and kernels end with the test."""
    opener = OpenNotebook(chromium, jupyter_server)
    with contextlib.ExitStack() as stack:
        yield opener
        for page in opener.pages:
            stack.callback(page.close)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Any:
    """Of a failed test, say where the pictures of its pages are, and what pages and server complained of."""
    report = yield
    opener = getattr(item, "funcargs", {}).get("open_notebook")
    if call.when == "call" and report.failed and opener is not None:
        directory = item.config._tmp_path_factory.mktemp("pictures")  # type: ignore[attr-defined]
        for page in opener.pages:
            report.sections.append((f"page {page.name}", _seen(page, directory)))
        report.sections.append(("Jupyter server", opener.server.log_tail()))
    return report


def _seen(page: NotebookPage, directory: Path) -> str:
    try:
        picture = str(page.screenshot(directory / f"{page.name}.png"))
    except Error as error:
        picture = f"no picture: {error}"
    return "\n".join([picture, *page.complaints])
