"""For everyone: contrast, names and roles by axe-core in every tab and theme; and a side panel's width."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import AXE, THEMES, Shown
from tests.widgets.component.test_requests import read

pytestmark = pytest.mark.slow

TABS = ["Waiting", "Link", "Throughput", "Requests", "Policies", "Transfers", "Audit"]


def open_at(shown: Shown, tab: str, width: int | None = None) -> Locator:
    """The panel in a state with much to see."""
    view = shown.view(width=width)
    if tab == "Waiting":
        shown.receive(states.CODE)
        return view
    shown.greet()
    shown.open_tab(view, "Requests" if tab == "Policies" else tab)
    if tab == "Policies":
        shown.pass_s(0.6)
        read(shown, view).get_by_role("button", name="Approve like this… for scans").click()
        shown.settle()
        shown.receive(states.ack(shown.command(), result=asdict(states.DRAFT)))
        view.get_by_role("button", name="Remove policy").first.click()
        shown.pass_s(0.6)
    if tab == "Audit":
        shown.receive(states.ack(shown.command(), result=asdict(states.AUDIT)))
        shown.settle()
        view.get_by_role("button", name="Verify").click()
        shown.receive(states.ack(shown.command(), "not as it was written\n  line 3: changed"))
        view.get_by_role("button", name="Save as CSV").click()
        shown.receive(states.ack(shown.command(), "the log is too large for the page"))
    if tab == "Requests":
        shown.pass_s(0.6)
        read(shown, view).get_by_role("button", name="Approve scans").click()
        shown.receive(states.ack(shown.command(), "it has changed since"))
        view.get_by_role("button", name="Deny…").last.click()
    if tab == "Transfers":
        view.get_by_role("button", name="Cancel scans").click()
    if tab == "Link":
        shown.pass_s(4)  # silent
    shown.settle()
    return view


def traits_of(tab: str) -> dict[str, Any]:
    return states.EMPTY_TRAITS if tab == "Waiting" else states.TRAITS


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("tab", TABS)
def test_axe_finds_nothing(show: Show, tab: str, theme: str) -> None:
    if not AXE.exists():
        pytest.skip("axe-core is not installed: run `make js`")
    shown = show(theme, traits_of(tab))
    open_at(shown, tab)
    shown.page.add_script_tag(content=AXE.read_text())
    # axe waits by timers
    shown.page.clock.resume()
    # themes differ in their colours alone
    rules = {} if theme == "light" else {"runOnly": ["color-contrast", "link-in-text-block"]}
    found = shown.page.evaluate(
        """async (rules) => (await axe.run(".duetlink-panel", {
          rules: { region: { enabled: false } }, ...rules,
        })).violations.map(({ id, nodes }) => [id, nodes.map(({ html, any }) => [html, any[0]?.message])])""",
        rules,
    )
    assert found == []


@pytest.mark.parametrize("tab", TABS)
def test_it_fits_into_a_side_panel_and_targets_are_large_enough(show: Show, tab: str) -> None:
    shown = show(traits=traits_of(tab))
    view = open_at(shown, tab, width=300)
    box = view.bounding_box()
    assert box is not None
    assert box["width"] == 300
    wider = """(panel) => [...panel.querySelectorAll("*")]
      .filter((element) => !element.closest(".sr, thead, .lines, option"))
      .filter((element) => element.getBoundingClientRect().right > panel.getBoundingClientRect().right + 0.5)
      .map(({ outerHTML }) => outerHTML.slice(0, 120))"""
    assert view.evaluate(wider) == []
    assert view.evaluate("({ scrollWidth, clientWidth }) => scrollWidth - clientWidth") == 0
    small = """(panel) => [...panel.querySelectorAll("button, select, input, summary")]
      .map((element) => element.closest("label") ?? element)
      .filter((element) => {
        const { width, height } = element.getBoundingClientRect();
        return width < 24 || height < 24;
      })
      .map(({ outerHTML }) => outerHTML.slice(0, 120))"""
    assert view.evaluate(small) == []


def test_figures_and_tabs_stand_in_one_line_each_in_a_narrow_column(show: Show) -> None:
    shown = show()
    view = shown.view(width=360)
    shown.greet()
    tops = "(all) => [...new Set(all.map((each) => Math.round(each.getBoundingClientRect().bottom)))]"
    assert len(view.locator(".figures > div").evaluate_all(tops)) == 1
    assert len(view.get_by_role("tab").evaluate_all(tops)) == 1


def test_ticks_move_nothing(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.greet()
    boxes = """(panel) => [...panel.querySelectorAll("header *, .tabs *")].map((element) => {
      const { left, top } = element.getBoundingClientRect();
      return [Math.round(left), Math.round(top)];
    })"""
    before = view.evaluate(boxes)
    for sequence, rate in enumerate((0.0, 1.234e6, 99.96e6, 118.4e6, 1180e6)):
        shown.receive(
            states.tick(sequence)
            | {"sent_bytes_per_s": rate, "received_bytes_per_s": rate, "round_trip_s": 0.0004}
        )
        assert view.evaluate(boxes) == before


def test_jupyterlab_takes_none_of_the_keys(show: Show) -> None:
    view = show().view()
    for place in (view, view.get_by_role("tab", name="Link"), view.get_by_role("tabpanel")):
        place.focus()
        expect(place).to_have_attribute("data-lm-suppress-shortcuts", "true")


def test_it_follows_the_theme(show: Show) -> None:
    shown = show("light")
    view = shown.view()
    assert view.get_attribute("data-theme") == "light"
    shown.page.evaluate("document.documentElement.style.setProperty('--jp-layout-color1', '#111')")
    shown.page.evaluate("document.body.dataset.jpThemeLight = 'false'")
    shown.settle_until("document.querySelector('.duetlink-panel').dataset.theme === 'dark'")
