"""Rules that answer: in force only after they were read, and never by mistake."""

from __future__ import annotations

from dataclasses import asdict, replace
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import Shown
from tests.widgets.component.test_requests import open_requests, read

pytestmark = pytest.mark.slow

ADD = "Approve these from now on"


def open_form(shown: Shown) -> Locator:
    """The first request, and what would approve others like it; the kernel has not answered yet."""
    first = read(shown, open_requests(shown))
    first.get_by_role("button", name="Approve like this… for scans").click()
    shown.settle()
    return first


def answer(shown: Shown, **changes: Any) -> None:
    shown.receive(states.ack(shown.command(), result=asdict(replace(states.DRAFT, **changes))))
    shown.settle()


def named(shown: Shown, name: str) -> list[dict[str, Any]]:
    return [command["args"] for command in shown.sent("command") if command["name"] == name]


def test_policies_stand_in_their_order_with_what_they_let_out(show: Show) -> None:
    view = open_requests(show())
    rows = view.get_by_role("table", name="Policies, first match answers").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("no patientsdenytags patientnothing yet")
    expect(rows.nth(2)).to_contain_text(
        "small labelsapproveassets labels*; up to 10 kB; 20 times2 times, 2,408 elements"
    )
    answered = view.get_by_role("table", name="Answered").get_by_role("row")
    expect(answered.nth(1)).to_contain_text("you")
    expect(answered.nth(2)).to_contain_text("policy small labels")


def test_without_policies_there_is_no_table_of_them(show: Show) -> None:
    requests = asdict(replace(states.REQUESTS, policies=[]))
    view = open_requests(show(traits=states.TRAITS | {"requests": requests}))
    expect(view.get_by_role("table")).to_have_count(1)


def test_a_policy_is_removed_once_that_is_confirmed(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    view.get_by_role("button", name="Remove policy small labels").click()
    shown.settle()
    expect(view.get_by_role("button", name="Keep")).to_be_focused()
    assert shown.sent("command") == []
    shown.page.keyboard.press("Escape")
    shown.settle()
    expect(view.get_by_role("button", name="Remove policy small labels")).to_be_focused()
    view.get_by_role("button", name="Remove policy small labels").click()
    view.get_by_role("group", name="Remove it?").get_by_role("button", name="Remove").click()
    assert (shown.command()["name"], shown.command()["args"]) == ("remove_policy", {"name": "small labels"})
    # another one can be removed meanwhile
    view.get_by_role("button", name="Remove policy the rest").click()
    view.get_by_role("group").get_by_role("button", name="Remove").last.click()
    assert shown.command()["args"] == {"name": "the rest"}
    shown.receive(states.ack(shown.command(), "there is no policy 'the rest'"))
    expect(view.get_by_role("alert").filter(has_text="there is no policy")).to_be_visible()


def test_what_would_be_in_force_is_read_before_it_is(show: Show) -> None:
    shown = show()
    first = open_form(shown)
    assert named(shown, "policy_like") == [{"number": 28, "count": 10}]
    add = first.get_by_role("button", name=ADD)
    expect(first.get_by_label("at most")).to_be_focused()
    expect(first).to_contain_text("Asking the kernel…")
    expect(add).to_be_disabled()
    shown.pass_s(0.8)
    expect(first).to_contain_text("Kernel busy…")
    add.click(force=True)
    assert named(shown, "add_policy_like") == []
    answer(shown)
    expect(first.locator(".sentence")).to_have_text(
        "Sven's notebook may have scans again, at most times, until midnight, without asking you."
    )
    expect(first.get_by_role("spinbutton", name="at most")).to_have_value("10")
    for words in (states.DRAFT.words, "like request 28"):
        expect(first).to_contain_text(words)
    # what is read stands there only now
    expect(add).to_be_disabled()
    add.click(force=True)
    assert named(shown, "add_policy_like") == []
    shown.pass_s(0.6)
    add.click()
    assert named(shown, "add_policy_like") == [{"number": 28, "revision": 3, "count": 10}]
    expect(add).to_be_disabled()
    shown.pass_s(0.8)
    expect(first.get_by_role("button", name="Kernel busy…")).to_be_disabled()
    shown.receive(states.ack(shown.command(), "request 28 has changed since it was shown; review it again"))
    expect(first.get_by_role("alert")).to_contain_text("review it again")


def test_another_count_is_another_draft(show: Show) -> None:
    shown = show()
    first = open_form(shown)
    answer(shown)
    shown.pass_s(0.6)
    times = first.get_by_label("at most")
    times.fill("25")
    times.press("Enter")
    assert named(shown, "policy_like")[1:] == [{"number": 28, "count": 25}]
    add = first.get_by_role("button", name=ADD)
    expect(add).to_be_disabled()
    expect(first).to_contain_text("Asking the kernel…")
    # and one more, while the kernel has not answered
    times.fill("3")
    times.press("Enter")
    shown.settle()
    assert len(named(shown, "policy_like")) == 2
    answer(shown, words="25 times", count=25)
    assert named(shown, "policy_like")[2:] == [{"number": 28, "count": 3}]
    expect(first).not_to_contain_text("25 times")
    answer(shown, words="3 times", count=3)
    shown.pass_s(0.6)
    expect(first).to_contain_text("3 times")
    add.click()
    assert named(shown, "add_policy_like") == [{"number": 28, "revision": 3, "count": 3}]


@pytest.mark.parametrize("typed", ["0", "1001", "2.5", ""])
def test_a_count_that_cannot_be_is_taken_back(show: Show, typed: str) -> None:
    shown = show()
    first = open_form(shown)
    answer(shown)
    times = first.get_by_label("at most")
    times.fill(typed)
    times.press("Tab")
    expect(times).to_have_value("10")
    assert len(named(shown, "policy_like")) == 1


def test_a_new_revision_is_drafted_anew(show: Show) -> None:
    shown = show()
    first = open_form(shown)
    answer(shown)
    shown.pass_s(0.6)
    row, *others = states.REQUESTS.rows
    shown.change(requests=asdict(replace(states.REQUESTS, rows=[replace(row, revision=4), *others])))
    shown.settle()
    add = first.get_by_role("button", name=ADD)
    expect(add).to_be_disabled()
    assert len(named(shown, "policy_like")) == 2
    asked = {command["name"]: command for command in shown.sent("command")}
    shown.receive(
        states.ack(asked["policy_like"], result=asdict(replace(states.DRAFT, words="of revision 4")))
    )
    shown.pass_s(0.6)
    expect(add).to_be_disabled()  # the new revision itself has not been read
    shown.receive(states.ack(asked["request_detail"], result=asdict(states.DETAIL)))
    shown.pass_s(0.6)
    add.click()
    assert named(shown, "add_policy_like") == [{"number": 28, "revision": 4, "count": 10}]


def test_no_single_key_adds_a_policy(show: Show) -> None:
    shown = show()
    first = open_form(shown)
    answer(shown)
    shown.pass_s(1)
    for key in ("Enter", "Enter", "y", "Control+Enter", "Space", "ArrowDown"):
        shown.page.keyboard.press(key)
    assert named(shown, "add_policy_like") == []
    shown.page.keyboard.press("Escape")
    shown.settle()
    expect(first.get_by_role("button", name="Approve like this…")).to_be_focused()
    expect(first.get_by_role("button", name=ADD)).to_have_count(0)
    assert named(shown, "add_policy_like") == []


def test_opened_once_more_while_the_kernel_is_busy_it_still_gets_its_draft(show: Show) -> None:
    shown = show()
    first = open_form(shown)
    first.get_by_role("button", name="Cancel").click()
    shown.settle()
    first.get_by_role("button", name="Approve like this…").click()
    shown.settle()
    assert len(named(shown, "policy_like")) == 2
    answer(shown)
    expect(first).to_contain_text("like request 28")


def test_a_draft_that_arrives_moves_what_is_below_and_that_answers_nothing_for_a_moment(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    below = view.get_by_role("button", name="Approve gradients/layer 4", exact=True)
    read(shown, view, "gradients/layer 4")
    read(shown, view)
    view.locator(".request").first.get_by_role("button", name="Approve like this…").click()
    shown.pass_s(0.6)
    expect(below).to_be_enabled()
    answer(shown)
    expect(below).to_be_disabled()
    shown.pass_s(0.6)
    expect(below).to_be_enabled()


def test_a_draft_that_is_refused_cannot_be_added(show: Show) -> None:
    shown = show()
    first = open_form(shown)
    shown.receive(states.ack(shown.command(), "request 28 was withdrawn"))
    shown.pass_s(1)
    expect(first.get_by_role("alert")).to_contain_text("was withdrawn")
    expect(first.get_by_role("button", name=ADD)).to_be_disabled()
