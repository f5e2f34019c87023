"""`duetlink demo --open` as a person runs it: JupyterLab comes up with both notebooks, linked by hand."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.jupyter import own_environment

pytestmark = pytest.mark.slow

WAIT_S = 60


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[str]:
    """The address at which the command has a browser open JupyterLab."""
    environment = own_environment(tmp_path)
    config = tmp_path / "config" / "jupyter_server_config.json"
    settings = json.loads(config.read_text())
    settings["ServerApp"]["open_browser"] = True
    config.write_text(json.dumps(settings))
    asked = tmp_path / "asked-to-open"
    browser = tmp_path / "browser"
    browser.write_text(f'#!/bin/sh\nprintf %s "$1" > {asked}.part && mv {asked}.part {asked}\n')
    browser.chmod(0o700)
    place = tmp_path / "study"
    place.mkdir()
    process = subprocess.Popen(
        [sys.executable, "-m", "duetlink", "demo", "1-basics", "--open"],
        cwd=place,
        env=environment | {"BROWSER": str(browser)},
        stdin=subprocess.DEVNULL,
        stdout=(tmp_path / "said").open("wb"),
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    try:
        deadline = time.monotonic() + WAIT_S
        while not asked.exists():
            assert process.poll() is None, (tmp_path / "said").read_text()
            assert time.monotonic() < deadline, (tmp_path / "said").read_text()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.05)
        # a file of the user's own, which leads on: no address with a token is in a list of processes
        page = Path(asked.read_text().removeprefix("file://")).read_text()
        found = re.search(r'href="(http[^"]+)"', page)
        assert found is not None, page
        yield found[1]
    finally:
        family = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        for child in family[:1]:  # the server, which ends its kernels; then the command ends
            child.terminate()
        _, alive = psutil.wait_procs(family, timeout=20)
        for child in alive:
            child.kill()
        process.wait(20)


def write_and_run(page: Page, notebook: int, cell: int, code: str | None = None) -> None:
    """As by hand: click into a code cell, perhaps write other code into it, and press Shift-Enter."""
    code_cell = page.locator(".jp-NotebookPanel").nth(notebook).locator(".jp-CodeCell").nth(cell)
    code_cell.locator(".cm-content").click()
    if code is not None:
        page.keyboard.press("Control+A")
        page.keyboard.insert_text(code)
    page.keyboard.press("Shift+Enter")


def test_both_notebooks_stand_side_by_side_and_are_linked_by_the_line_that_is_shown(
    chromium: Browser, opened: str
) -> None:
    context = chromium.new_context(viewport={"width": 1500, "height": 900})
    context.grant_permissions(["clipboard-read", "clipboard-write"])
    with context:
        context.set_default_timeout(1000 * WAIT_S)
        page = context.new_page()
        page.goto(opened)
        notebooks = page.locator(".jp-NotebookPanel")
        expect(notebooks).to_have_count(2, timeout=1000 * WAIT_S)
        titles = page.locator(".lm-DockPanel-tabBar .lm-TabBar-tabLabel")
        expect(titles).to_have_text(["owner.ipynb", "scientist.ipynb"])
        owner, scientist = notebooks.nth(0), notebooks.nth(1)
        for notebook, heading in ((owner, "the owner"), (scientist, "the scientist")):
            expect(notebook.get_by_role("heading", level=1)).to_contain_text(heading)
        left, right = owner.bounding_box(), scientist.bounding_box()
        assert left is not None
        assert right is not None
        assert left["y"] == right["y"]
        assert left["x"] + left["width"] <= right["x"]
        assert abs(left["width"] - right["width"]) < 20
        assert min(left["width"], right["width"]) > 600

        write_and_run(page, 0, 0)
        mine = owner.get_by_role("region", name="Duet")
        mine.get_by_role("button", name="Copy the line").click()
        line = page.evaluate("navigator.clipboard.readText()")
        write_and_run(page, 1, 0)
        write_and_run(page, 1, 1, f'CODE = "{line}"')
        write_and_run(page, 1, 2)
        theirs = scientist.get_by_role("region", name="Duet")
        for shown, peer in ((mine, "lab"), (theirs, "clinic")):
            expect(shown.locator("header")).to_contain_text("Connected")
            expect(shown.locator("header")).to_contain_text(peer)
