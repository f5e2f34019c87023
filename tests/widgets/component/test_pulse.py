"""What the page says by itself, and what it makes of a kernel that does not answer."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
from playwright.sync_api import expect

from duetlink_widgets.contract import Asked, Foreign
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


def test_no_data_is_no_trouble_once_the_duet_is_closed(show: Show) -> None:
    shown = show(traits=states.TRAITS | {"link": asdict(replace(states.CONNECTED, state="closed"))})
    view = shown.view()
    shown.pass_s(10)
    expect(view).not_to_contain_text("no data from kernel")
    expect(view).to_have_attribute("data-gone", "false")


def test_within_ten_seconds_the_panel_of_a_kernel_that_ended_looks_dead(show: Show) -> None:
    shown = show(traits=states.EMPTY_TRAITS)
    view = shown.view()
    shown.receive(states.CODE)
    shown.greet()
    expect(view.locator(".code")).to_be_visible()
    view.get_by_role("button", name="Disconnect").click()
    view.get_by_role("button", name="Disconnect").click()
    view.get_by_role("button", name="Stay").focus()
    shown.pass_s(10)
    # letters that are typed on must not reach the notebook
    expect(view).to_be_focused()
    header = view.locator("header")
    expect(header).to_contain_text("The kernel does not answer")
    expect(header).to_contain_text("run duetlink.launch(…) again")
    expect(header.get_by_role("button", name=re.compile("Disconnect|Kernel busy"))).to_have_count(0)
    expect(view).to_have_attribute("data-gone", "true")
    expect(view.locator(".code, .line")).to_have_count(0)
    assert view.get_by_role("tabpanel").evaluate("content => content.inert")
    # it was only busy
    shown.receive(states.tick(2))
    expect(header).to_contain_text("Waiting for the peer")
    expect(view).to_have_attribute("data-gone", "false")
    expect(view.locator(".code")).to_be_visible()


def test_a_saved_notebook_without_a_kernel_says_what_it_was(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.pass_s(5)
    expect(view).to_contain_text("connected to Sven's notebook by tcp; 7.31 GB sent, 1.2 MB received")


def test_a_notice_is_told_in_every_view_and_once_by_jupyterlab(show: Show) -> None:
    shown = show()
    views = [shown.view("first"), shown.view("second")]
    shown.receive(states.notice("duetlink was updated: reload this page"))
    for view in views:
        expect(view.locator("[aria-live=polite]")).to_have_text("duetlink was updated: reload this page")
    [notified] = shown.page.evaluate("model.notified")
    assert notified["command"] == "apputils:notify"
    assert notified["args"]["message"] == "duetlink was updated: reload this page"
    assert notified["trusted"]
    assert shown.page.locator("[data-commandlinker-command]").count() == 0


def test_a_new_request_is_told_by_jupyterlab_with_who_what_and_why(show: Show) -> None:
    shown = show()
    shown.view()
    asked = Asked("asked", Foreign("lab"), Foreign("ages.mean()"), Foreign("just curious"), False)
    shown.receive(asdict(asked))
    shown.receive(asdict(replace(asked, why=Foreign(""), what=Foreign("total(ages)"), run=True)))
    shown.receive(asdict(replace(asked, who=Foreign("\u202elab\n" * 50))))
    plain, function, hostile = shown.page.evaluate("model.notified.map(({args}) => args.message)")
    assert plain == "lab asks for ages.mean(): “just curious”"
    assert function == "lab asks to run total(ages)"
    assert hostile.startswith("\\u202elab\\n")
    assert len(hostile) < 260
