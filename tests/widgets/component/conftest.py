"""The built panel in a browser, with a model that is none: no Jupyter, no kernel."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest
from playwright.sync_api import Browser

from tests.browser.chromium import missing, run_chromium
from tests.widgets.component.shown import BUNDLE, Shown

SOURCES = Path(__file__).parents[3] / "js/src"


class Show(Protocol):
    def __call__(
        self, theme: str = "light", traits: dict[str, Any] | None = None, width: int = 1000
    ) -> Shown:
        """A page with the panel's model on it; `view` shows it."""


# of the package and no longer: while Playwright is there, no asyncio test can run
@pytest.fixture(scope="package")
def chromium(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """The browser; skips where there is none."""
    if why := missing():
        pytest.skip(why)
    newest = max(path.stat().st_mtime for path in SOURCES.rglob("*"))
    if not BUNDLE.exists() or BUNDLE.stat().st_mtime < newest:
        pytest.fail("the panel's bundle is older than its sources: run `make js`")
    with run_chromium(tmp_path_factory.mktemp("chromium")) as browser:
        yield browser


@pytest.fixture
def show(chromium: Browser) -> Iterator[Show]:
    """Opens a page; what it complains of fails the test."""
    with chromium.new_context() as context:
        shown: list[Shown] = []

        def open_page(theme: str = "light", traits: dict[str, Any] | None = None, width: int = 1000) -> Shown:
            page = context.new_page()
            page.set_viewport_size({"width": width, "height": 1400})
            shown.append(Shown(page, theme, traits))
            return shown[-1]

        yield open_page
        assert [complaint for one in shown for complaint in one.complaints] == []
