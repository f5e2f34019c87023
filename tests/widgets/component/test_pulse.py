"""What the page says by itself, and what it makes of a kernel that does not answer."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from playwright.sync_api import expect

from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import Shown

pytestmark = pytest.mark.slow


def signs(shown: Shown) -> list[bool]:
    return [message["on"] for message in shown.sent("visible")]


def test_a_view_says_hello_and_that_it_is_seen(show: Show) -> None:
    shown = show()
    shown.view()
    assert shown.sent("hello") == [{"kind": "hello", "schema": 1}]
    assert signs(shown) == [True]
    assert len({message["page"] for message in shown.sent("visible")}) == 1


def test_it_says_hello_again_ever_more_rarely_until_it_is_greeted(show: Show) -> None:
    shown = show()
    shown.view()
    shown.pass_s(1.5)
    assert len(shown.sent("hello")) == 1
    shown.pass_s(6)
    shown.receive(states.tick(1))  # which anybody's panel may have asked for
    assert len(shown.sent("hello")) == 3  # after 2 s, and 4 s more
    shown.pass_s(8)
    assert len(shown.sent("hello")) == 4
    shown.greet()
    shown.pass_s(60)
    assert len(shown.sent("hello")) == 4


def test_it_says_so_again_while_it_is_seen(show: Show) -> None:
    shown = show()
    shown.view()
    shown.pass_s(35)
    assert signs(shown) == [True] * 4


def test_views_that_are_scrolled_away_or_closed_are_not_seen(show: Show) -> None:
    shown = show()
    shown.view("first")
    shown.page.evaluate("first.style.marginTop = '5000px'")
    shown.page.wait_for_function("model.sent.at(-1).on === false")
    shown.page.evaluate("first.style.marginTop = '0'")
    shown.page.wait_for_function("model.sent.at(-1).on === true")
    shown.view("second")
    # the page's own observer was there first, and has been told as well
    shown.page.evaluate("new Promise(seen => new IntersectionObserver(() => seen()).observe(second))")
    shown.close_view("first")
    shown.settle()
    assert signs(shown) == [True, False, True]
    shown.close_view("second")
    assert signs(shown) == [True, False, True, False]
    sent = len(shown.sent("poll"))
    shown.pass_s(60)
    assert (signs(shown), len(shown.sent("poll"))) == ([True, False, True, False], sent)


def test_a_view_that_was_away_for_long_asks_for_what_it_has_missed(show: Show) -> None:
    shown = show()
    shown.view()
    shown.page.evaluate("first.style.marginTop = '5000px'")
    shown.page.wait_for_function("model.sent.at(-1).on === false")
    shown.pass_s(30)
    shown.page.evaluate("first.style.marginTop = '0'")
    shown.page.wait_for_function("model.sent.at(-1).on === true")
    assert len(shown.sent("hello")) == 2


def test_where_nothing_arrives_it_asks_once_a_second(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.pass_s(1.5)
    assert shown.sent("poll") == []
    shown.pass_s(3)
    assert len(shown.sent("poll")) == 3
    # answers to what was asked for do not end it
    for sequence in range(3):
        shown.receive(states.tick(sequence))
        shown.pass_s(1)
    assert len(shown.sent("poll")) == 6
    expect(view).not_to_contain_text("no data from kernel")


def test_a_kernel_that_speaks_by_itself_is_not_asked(show: Show) -> None:
    shown = show()
    shown.view()
    shown.pass_s(4)
    for sequence in range(2):
        shown.receive(states.tick(sequence))
    asked = len(shown.sent("poll"))
    for sequence in range(2, 22):
        shown.pass_s(0.25)
        shown.receive(states.tick(sequence))
    assert len(shown.sent("poll")) == asked


def test_a_greeting_alone_does_not_mean_that_the_kernel_speaks_by_itself(show: Show) -> None:
    shown = show()
    shown.view()
    shown.greet()
    shown.pass_s(5)
    assert len(shown.sent("poll")) > 1


def test_silence_is_said_with_its_beginning_and_ends_with_the_next_tick(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.greet()
    shown.open_tab(view, "Throughput")
    shown.pass_s(2)
    expect(view).not_to_contain_text("no data from kernel")
    shown.pass_s(2)
    since = shown.page.evaluate("new Date(1790000001000).toTimeString().slice(0, 8)")
    expect(view.locator("header")).to_contain_text(f"no data from kernel since {since}")
    expect(view.locator(".plots")).to_have_attribute("data-stale", "true")
    shown.receive(states.tick(2))
    expect(view).not_to_contain_text("no data from kernel")
    expect(view.locator(".plots")).to_have_attribute("data-stale", "false")


@pytest.mark.parametrize("state", ["waiting", "closed"])
def test_no_data_is_no_trouble_where_none_is_due(show: Show, state: str) -> None:
    link = replace(states.CONNECTED, state=state)  # type: ignore[arg-type]
    shown = show(traits=states.TRAITS | {"link": asdict(link)})
    view = shown.view()
    shown.pass_s(10)
    expect(view).not_to_contain_text("no data from kernel")


def test_a_saved_notebook_without_a_kernel_says_what_it_was(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.pass_s(5)
    expect(view).to_contain_text("connected to Sven's notebook by tcp; 7.31 GB sent, 1.2 MB received")


def test_a_notice_is_told_in_every_view_and_once_by_jupyterlab(show: Show) -> None:
    shown = show()
    views = [shown.view("first"), shown.view("second")]
    shown.receive(states.notice("duetlink: request 28 waits for your answer in the panel"))
    for view in views:
        expect(view.locator("[aria-live=polite]")).to_have_text(
            "duetlink: request 28 waits for your answer in the panel"
        )
    [notified] = shown.page.evaluate("model.notified")
    assert notified["command"] == "apputils:notify"
    assert notified["args"]["message"] == "duetlink: request 28 waits for your answer in the panel"
    assert notified["trusted"]
    assert shown.page.locator("[data-commandlinker-command]").count() == 0
