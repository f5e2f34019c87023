"""A page with the built panel on it, and a model without a kernel behind it."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from playwright.sync_api import Locator, Page, Route

from tests.widgets.component import states

ROOT = Path(__file__).parents[3]
BUNDLE = ROOT / "widgets/duetlink_widgets/static/panel.js"
FAKE_MODEL = Path(__file__).with_name("fake_model.js")
AXE = ROOT / "js/node_modules/axe-core/axe.min.js"
LIMIT_S = 60
ORIGIN = "http://localhost"  # a secure context; nothing listens there, the test answers

HTML = """<!doctype html><html lang="en"><head><title>panel</title><style>{css}</style></head>
<body class="jp-ThemedContainer" data-jp-theme-name="{theme}" data-jp-theme-light="{light}"
 style="background: var(--jp-layout-color0); color: var(--jp-ui-font-color1); margin: 8px">
<main class="jp-OutputArea-output"></main>
<script type="module" src="/fake_model.js"></script></body></html>"""

# of JupyterLab's own rules for outputs, those that reach into a panel
OUTPUT_RULES = """
.jp-OutputArea-output :is(dl, dt, dd) { display: block; }
.jp-OutputArea-output dl { width: 100%; overflow: hidden; }
.jp-OutputArea-output dt { font-weight: bold; float: left; width: 20%; }
.jp-OutputArea-output dd { float: left; width: 80%; }
.jp-OutputArea-output pre { overflow: auto; word-break: break-all; white-space: pre-wrap; }
"""
# and its colours, as installed
THEMES = {"light": "theme-light", "dark": "theme-dark", "contrast": "theme-dark-high-contrast"}


def theme_css(theme: str) -> str:
    import jupyterlab

    themes = Path(jupyterlab.__file__).parent / "themes/@jupyterlab"
    return (themes / f"{THEMES[theme]}-extension/index.css").read_text()


class Shown:
    """The panel on a page. Time stands still but for `pass_s`, unless it is not to be `still`."""

    def __init__(
        self, page: Page, theme: str, traits: dict[str, Any] | None = None, *, still: bool = True
    ) -> None:
        self.page = page
        self.complaints: list[str] = []
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("console", lambda said: self.complaints.append(said.text) if said.type == "error" else None)
        html = HTML.format(
            css=theme_css(theme) + OUTPUT_RULES, theme=theme, light=str(theme == "light").lower()
        )

        def answer(route: Route) -> None:
            match route.request.url.removeprefix(ORIGIN):
                case "/":
                    route.fulfill(body=html, content_type="text/html")
                case "/panel.js":
                    route.fulfill(body=BUNDLE.read_text(), content_type="text/javascript")
                case "/fake_model.js":
                    route.fulfill(body=FAKE_MODEL.read_text(), content_type="text/javascript")
                case _:
                    route.fulfill(status=204)

        page.route("**/*", answer)
        if still:
            page.clock.install(time=states.NOW_S)
            page.clock.pause_at(states.NOW_S + 1)
        page.goto(f"{ORIGIN}/")
        page.evaluate("traits => begin(traits)", states.TRAITS if traits is None else traits)

    def view(self, name: str = "first", width: int | None = None) -> Locator:
        """A further view of the panel."""
        self.page.evaluate("([name, width]) => view(name, width)", [name, width])
        view = self.page.locator(f"#{name} .duetlink-panel")
        view.wait_for()
        # the observer of what is on the screen reports with the next frames
        self.page.wait_for_function("model.sent.some(({kind}) => kind === 'visible')")
        return view

    def close_view(self, name: str) -> None:
        self.page.evaluate("name => document.getElementById(name).close()", name)

    def change(self, **traits: Any) -> None:
        for name, value in traits.items():
            self.page.evaluate("([name, value]) => model.change(name, value)", [name, value])

    def receive(self, message: dict[str, Any], floats: Sequence[float] = ()) -> None:
        """A message of the kernel's."""
        # JSON has no NaN
        numbers = json.dumps(list(floats)).replace("NaN", "null")
        self.page.evaluate(
            "([message, floats]) => model.receive(message, floats?.map((one) => one ?? NaN))",
            [message, json.loads(numbers) or None],
        )

    def greet(self) -> None:
        """What a kernel answers to hello."""
        self.receive(*states.history())
        self.receive(states.decisions())
        self.receive(states.tick(1))

    def sent(self, kind: str) -> list[dict[str, Any]]:
        """The messages of this kind that the panel has sent."""
        sent: list[dict[str, Any]] = self.page.evaluate(
            "kind => model.sent.filter((message) => message.kind === kind)", kind
        )
        return sent

    def command(self) -> dict[str, Any]:
        """The latest command."""
        return self.sent("command")[-1]

    def pass_s(self, seconds: float) -> None:
        self.page.clock.run_for(round(1000 * seconds))

    def open_tab(self, view: Locator, title: str) -> None:
        """By a click; what a tab does once it is there has been done."""
        view.get_by_role("tab", name=title).click()
        self.settle()

    def settle(self) -> None:
        """Effects of what was drawn have run: they wait for a frame, and frames are on the clock."""
        self.pass_s(0.05)

    def settle_until(self, condition: str) -> None:
        """Frames pass until the page says so. What an element's observer reports comes in its own time, and
        its effect waits for the frame after it, which is on the clock."""
        deadline = time.monotonic() + LIMIT_S
        while not self.page.evaluate(condition):
            assert time.monotonic() < deadline, f"not within {LIMIT_S} s: {condition}"
            self.settle()
