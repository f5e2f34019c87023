"""The system's own chromium, headless, driven by Playwright."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from playwright.sync_api import Browser, expect, sync_playwright

_FLAGS = [
    "--no-sandbox",  # tests run as root in containers
    "--disable-gpu",
    "--no-first-run",
    "--no-proxy-server",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def missing() -> str | None:
    """Why there is no browser to test in, or None."""
    if shutil.which("chromium") is None:
        return "chromium is not installed (python tests/system_packages.py)"
    return None


@contextlib.contextmanager
def run_chromium(home: Path) -> Iterator[Browser]:
    """A browser whose profile is new, and gone afterwards. Playwright's `expect` has 30 s instead of 5.

    Until this ends, Playwright's event loop counts as running in this thread: no asyncio test can run.
    """
    expect.set_options(timeout=30_000)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"),
            args=_FLAGS,
            env={**os.environ, "HOME": str(home)},
            timeout=60_000,
        )
        try:
            yield browser
        finally:
            browser.close()
