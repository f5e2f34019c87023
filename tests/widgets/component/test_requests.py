"""Answering: what is seen is what is approved, and nothing is by mistake."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
from playwright.sync_api import Locator, expect

from duetlink_widgets.contract import Foreign
from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import Shown

pytestmark = pytest.mark.slow


def open_requests(shown: Shown) -> Locator:
    """The tab, once a click there is meant."""
    view = shown.view()
    shown.open_tab(view, "Requests")
    shown.pass_s(0.6)
    return view


def read(shown: Shown, view: Locator, name: str = "scans") -> Locator:
    """The request, opened, with all that the kernel has to say of it, once a click there is meant."""
    view.get_by_role("button", name=name, exact=True).click()
    shown.settle()
    shown.receive(states.ack(shown.command(), result=asdict(states.DETAIL)))
    shown.pass_s(0.6)
    return view.locator(".request").filter(has=shown.page.get_by_role("button", name=name, exact=True))


def approvals(shown: Shown) -> list[dict[str, object]]:
    return [command["args"] for command in shown.sent("command") if command["name"] == "approve"]


def test_nothing_is_approved_before_all_that_there_is_to_read_is_shown(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    answers = [
        view.get_by_role("button", name=name) for name in ("Approve scans", "Approve like this… for scans")
    ]

    def expect_inert(why: str) -> None:
        for answer in answers:
            expect(answer).to_be_disabled()
            expect(answer).to_have_accessible_description(why)
            answer.click(force=True)
        expect(view.locator(".policy-like")).to_have_count(0)

    expect_inert("Open it to approve it.")
    view.get_by_role("button", name="scans", exact=True).click()
    shown.pass_s(0.6)
    expect_inert("It can be approved once all of it is shown.")
    shown.receive(states.ack(shown.command(), "ValueError: no text of it can be made"))
    shown.pass_s(0.6)
    expect(view.locator(".detail")).to_contain_text("It could not be shown.")
    expect(view.get_by_role("alert").filter(has_text="no text of it can be made")).to_have_count(1)
    expect_inert("It can be approved once all of it is shown.")
    assert [command["name"] for command in shown.sent("command")] == ["request_detail"]
    view.get_by_role("button", name="scans", exact=True).click()
    request = read(shown, view)
    expect(request.get_by_role("region", name="How it was made")).to_have_text(states.DETAIL.code)
    for answer in answers:
        expect(answer).to_be_enabled()
    # out of sight again
    view.get_by_role("button", name="scans", exact=True).click()
    shown.pass_s(0.6)
    expect_inert("Open it to approve it.")


def test_what_was_run_elsewhere_meanwhile_is_read_anew(show: Show) -> None:
    shown = show(traits=with_function())
    view = open_requests(shown)
    read(shown, view, "total(ages)")
    expect(view.get_by_role("button", name="Run and approve total(ages)")).to_be_enabled()
    made = replace(FUNCTION, made=True, kind="float")
    shown.change(requests=asdict(replace(states.REQUESTS, rows=[made])))
    shown.pass_s(0.6)
    expect(view.get_by_role("button", name="Approve total(ages)")).to_be_disabled()
    assert [each["name"] for each in shown.sent("command")] == ["request_detail", "request_detail"]


def test_a_request_says_who_what_why_and_what_would_leave(show: Show) -> None:
    view = open_requests(show())
    first, second = view.locator(".request").all()
    expect(first).to_contain_text("whoSven's notebook")
    expect(first).to_contain_text("whythe mean intensity per slice, for figure 2")
    expect(first).to_contain_text("numpy array float64 (512, 512, 34), 71.3 MB, bit for bit")
    expect(second).to_contain_text("asked 3 times")
    expect(second).to_contain_text("no reason given")
    expect(second).to_contain_text("changed on the way by fp8: at most 6.25% off")
    answered = view.get_by_role("table", name="Answered").get_by_role("row")
    expect(answered.nth(1)).to_contain_text("names are in it; ask for patients_anonymous")
    expect(answered.nth(2)).to_contain_text("approved")
    expect(answered.nth(3)).to_contain_text("and 27 older ones")


def test_a_number_is_called_one_number_and_not_so_many_bytes(show: Show) -> None:
    row = replace(
        states.REQUESTS.rows[0], name="ages.mean()", kind="numpy.float64", detail="", one_number=True
    )
    requests = asdict(replace(states.REQUESTS, pending=1, rows=[row]))
    shown = show(traits=states.TRAITS | {"requests": requests})
    view = shown.view()
    expect(view.locator(".alert")).to_contain_text("Sven's notebook asks for ages.mean().")
    shown.open_tab(view, "Requests")
    expect(view.locator(".request")).to_contain_text("what would leaveone number, numpy.float64, bit for bit")


def test_a_small_result_is_read_before_it_is_approved(show: Show) -> None:
    first = replace(states.REQUESTS.rows[0], name="ages.mean()", size_bytes=29, one_number=True)
    second = replace(first, number=29, name="ages.max()")
    shown = show(traits=states.TRAITS | {"requests": asdict(replace(states.REQUESTS, rows=[first, second]))})
    view = open_requests(shown)
    mean = view.get_by_role("button", name="ages.mean()", exact=True)
    expect(mean).to_have_attribute("aria-expanded", "true")
    expect(view.get_by_role("button", name="ages.max()", exact=True)).to_have_attribute(
        "aria-expanded", "false"
    )
    (command,) = shown.sent("command")
    assert (command["name"], command["args"]) == ("request_detail", {"number": 28})
    shown.receive(states.ack(command, result=asdict(states.DETAIL)))
    expect(view.get_by_role("region", name="What it holds")).to_have_text(states.DETAIL.preview)
    # what it has pushed down is not clicked by mistake
    expect(view.get_by_role("button", name="Approve ages.mean()")).to_be_disabled()
    mean.click()
    expect(mean).to_have_attribute("aria-expanded", "false")
    # the next one's turn
    shown.change(requests=asdict(replace(states.REQUESTS, pending=1, rows=[second])))
    shown.settle()
    assert [each["args"] for each in shown.sent("command")] == [{"number": 28}, {"number": 29}]


def test_approve_sends_the_revision_that_was_seen(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    read(shown, view).get_by_role("button", name="Approve scans").click()
    command = shown.command()
    assert command["name"] == "approve"
    assert command["args"] == {"number": 28, "revision": 3}


def test_the_review_button_leads_to_the_request_and_not_to_its_answer(show: Show) -> None:
    shown = show()
    view = shown.view()
    alert = view.locator(".alert")
    expect(alert).to_contain_text("Sven's notebook asks for scans, 71.3 MB. And 1 further request.")
    alert.get_by_role("button", name="Review").click()
    shown.settle()
    expect(view.get_by_role("tab", name="Requests")).to_have_attribute("aria-selected", "true")
    expect(view.get_by_role("button", name="scans", exact=True)).to_be_focused()
    expect(alert).to_have_count(0)


def test_no_single_key_approves(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.page.keyboard.press("Tab")
    view.locator(".alert").get_by_role("button", name="Review").click()
    shown.pass_s(1)
    for key in ("a", "A", "y", "Enter", "Enter", "Space", "Space", "Control+Enter", "Escape"):
        shown.page.keyboard.press(key)
    assert [command["name"] for command in shown.sent("command")] in ([], ["request_detail"])


def test_arrows_walk_through_the_requests_and_enter_opens_one(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    view.get_by_role("button", name="scans", exact=True).focus()
    shown.page.keyboard.press("ArrowDown")
    gradients = view.get_by_role("button", name="gradients/layer 4", exact=True)
    expect(gradients).to_be_focused()
    shown.page.keyboard.press("Enter")
    shown.settle()
    assert shown.command()["args"] == {"number": 29}
    expect(gradients).to_have_attribute("aria-expanded", "true")
    shown.page.keyboard.press("ArrowUp")
    expect(view.get_by_role("button", name="scans", exact=True)).to_be_focused()


def test_a_click_just_after_the_list_has_changed_answers_nothing(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    read(shown, view, "gradients/layer 4")
    rows = states.REQUESTS.rows
    approve = view.get_by_role("button", name="Approve gradients/layer 4")
    expect(approve).to_be_enabled()
    # the first one is withdrawn: the second moves to where it was
    shown.change(requests=asdict(replace(states.REQUESTS, pending=1, rows=rows[1:])))
    expect(approve).to_be_disabled()
    approve.click(force=True)
    assert approvals(shown) == []
    shown.pass_s(0.45)
    approve.click(force=True)
    assert approvals(shown) == []
    shown.pass_s(0.2)
    expect(approve).to_be_enabled()
    approve.click()
    assert shown.command()["args"] == {"number": 29, "revision": 1}


def test_a_changed_revision_is_a_changed_list(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    read(shown, view)
    first, *others = states.REQUESTS.rows
    shown.change(requests=asdict(replace(states.REQUESTS, rows=[replace(first, revision=4), *others])))
    expect(view.get_by_role("button", name="Approve scans")).to_be_disabled()
    shown.settle()
    assert [each["name"] for each in shown.sent("command")] == ["request_detail", "request_detail"]
    shown.receive(states.ack(shown.command(), result=asdict(states.DETAIL)))
    shown.pass_s(0.6)
    view.get_by_role("button", name="Approve scans").click()
    assert shown.command()["args"] == {"number": 28, "revision": 4}


def test_a_click_just_after_the_tab_has_opened_answers_nothing(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Requests")
    view.get_by_role("button", name="Approve scans").click(force=True)
    assert shown.sent("command") == []


def test_the_detail_has_the_whole_reason_and_a_preview(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    view.get_by_role("button", name="scans", exact=True).click()
    shown.settle()
    command = shown.command()
    assert (command["name"], command["args"]) == ("request_detail", {"number": 28})
    expect(view).to_contain_text("Asking the kernel…")
    shown.pass_s(0.8)
    expect(view.locator(".detail")).to_contain_text("Kernel busy…")
    shown.receive(states.ack(command, result=asdict(states.DETAIL)))
    detail = view.locator(".detail")
    expect(detail).to_contain_text("CT scans of the pilot")
    expect(detail).to_contain_text("tags: pilot, ct")
    expect(detail.get_by_role("region", name="What it holds")).to_have_text(states.DETAIL.preview)
    expect(detail.get_by_role("region", name="The whole reason")).to_contain_text("and its spread")
    expect(detail.get_by_role("region", name="How it was made")).to_have_text(states.DETAIL.code)
    expect(detail).to_contain_text("each number of at least 412 rows")
    # it is not asked for again
    for _ in range(2):
        view.get_by_role("button", name="scans", exact=True).click()
        shown.settle()
    assert len(shown.sent("command")) == 1


def test_code_is_shown_to_its_end_however_long_it_is(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    view.get_by_role("button", name="scans", exact=True).click()
    shown.settle()
    code = "def f(x):\n" + "    x = x + 1  # and so on\n" * 9_000 + "    return x"
    shown.receive(states.ack(shown.command(), result=asdict(replace(states.DETAIL, code=Foreign(code)))))
    last = view.get_by_role("region", name="How it was made").evaluate(
        "lines => lines.textContent.slice(-12)"
    )
    assert last == "    return x"


def test_a_click_just_after_a_detail_has_pushed_the_answers_down_answers_nothing(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    view.get_by_role("button", name="scans", exact=True).click()
    shown.pass_s(0.6)
    shown.receive(states.ack(shown.command(), result=asdict(states.DETAIL)))
    expect(view.get_by_role("button", name="Approve scans")).to_be_disabled()
    shown.pass_s(0.6)
    expect(view.get_by_role("button", name="Approve scans")).to_be_enabled()


def test_deny_takes_a_reason(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    first = view.locator(".request").first
    first.get_by_role("button", name="Deny…").click()
    shown.settle()
    field = first.get_by_role("textbox", name="Reason to deny scans")
    expect(field).to_be_focused()
    shown.page.keyboard.press("Escape")
    expect(field).to_have_count(0)
    first.get_by_role("button", name="Deny…").click()
    shown.settle()
    field.fill("ask for means instead")
    shown.page.keyboard.press("Enter")
    command = shown.command()
    assert command["name"] == "deny"
    assert command["args"] == {"number": 28, "reason": "ask for means instead"}
    expect(first.get_by_role("button", name="Deny", exact=True)).to_be_disabled()


def test_a_refusal_of_the_kernel_is_shown_where_it_was_clicked(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    first = read(shown, view)
    first.get_by_role("button", name="Approve scans").click()
    shown.receive(states.ack(shown.command(), "request 28 has changed since it was shown; review it again"))
    expect(first.get_by_role("alert")).to_contain_text("review it again")
    expect(view.locator(".request").nth(1).get_by_role("alert")).to_have_count(0)
    first.get_by_role("button", name="Dismiss").click()
    expect(first.get_by_role("alert")).to_have_count(0)


def test_a_new_request_is_told_to_a_screen_reader_but_not_too_often(show: Show) -> None:
    shown = show(traits=states.TRAITS | {"requests": states.EMPTY_TRAITS["requests"]})
    view = shown.view()
    told = view.locator(".sr[role=alert]")
    shown.settle()
    first, second, *_ = states.REQUESTS.rows
    shown.change(requests=asdict(replace(states.REQUESTS, pending=1, rows=[first])))
    shown.settle()
    expect(told).to_have_text("Sven's notebook asks for scans, 71.3 MB.")
    shown.change(requests=asdict(states.REQUESTS))
    shown.pass_s(3)
    expect(told).to_contain_text("scans")
    shown.pass_s(3)
    expect(told).to_contain_text(second.name)


def test_the_focus_goes_on_where_the_answered_request_was(show: Show) -> None:
    shown = show()
    view = open_requests(shown)
    waiting = [row for row in states.REQUESTS.rows if row.state == "pending"]
    answered = [replace(row, state="approved", answered_s=states.NOW_S) for row in waiting]
    for left in (waiting[1:], []):
        view.locator(".request .primary").first.focus()
        rows = [*left, *answered[: len(waiting) - len(left)]]
        shown.change(requests=asdict(replace(states.REQUESTS, pending=len(left), rows=rows)))
        shown.settle()
        shown.pass_s(0.6)
        if left:
            expect(view.get_by_role("button", name=left[0].name, exact=True)).to_be_focused()
    expect(view.get_by_role("tabpanel")).to_be_focused()


FUNCTION = replace(
    states.REQUESTS.rows[0],
    name="total(ages)",
    kind="",
    detail="known when it has been run; of mocks: float: 0.0",
    size_bytes=0,
    function="total",
    made=False,
)


def with_function(**changes: object) -> dict[str, object]:
    row = replace(FUNCTION, **changes)  # type: ignore[arg-type]
    return states.TRAITS | {"requests": asdict(replace(states.REQUESTS, rows=[row]))}


def test_a_function_is_run_here_before_it_is_approved(show: Show) -> None:
    shown = show(traits=with_function())
    view = open_requests(shown)
    expect(view.locator(".request")).to_contain_text("known when it has been run; of mocks: float: 0.0")
    expect(view.get_by_role("button", name="Run and approve total(ages)")).to_be_visible()
    view.get_by_role("button", name="Run total(ages) here, and only here").click()
    command = shown.command()
    assert (command["name"], command["args"]) == ("run_request", {"number": 28, "revision": 3})


def test_a_function_that_runs_says_how_far_it_is(show: Show) -> None:
    view = open_requests(show(traits=with_function(state="running", progress=0.42)))
    expect(view.locator(".request").get_by_role("status")).to_have_text("It runs here: 42 %")
    expect(view.get_by_role("button", name="Run total(ages) here, and only here")).to_have_count(0)
    expect(view.get_by_role("button", name="Deny")).to_be_visible()


def test_a_run_says_its_step_time_and_memory_and_can_be_stopped(show: Show) -> None:
    shown = show(traits=with_function(state="running", running="step 3 of 10, 3.2 s, 120 MB", progress=0.5))
    view = open_requests(shown)
    expect(view.locator(".request").get_by_role("status")).to_have_text(
        "It runs here: step 3 of 10, 3.2 s, 120 MB, 50 %"
    )
    view.get_by_role("button", name="Stop the run of total(ages)").click()
    command = shown.command()
    assert (command["name"], command["args"]) == ("stop_request", {"number": 28})


def test_nothing_that_does_not_run_can_be_stopped_and_nothing_that_has_not_failed_told(show: Show) -> None:
    view = open_requests(show(traits=with_function()))
    expect(view.get_by_role("button", name="Stop the run of total(ages)")).to_have_count(0)
    expect(view.get_by_role("button", name="Tell the peer that total(ages) failed…")).to_have_count(0)


@pytest.mark.parametrize(
    ("button", "tell"),
    [
        ("That it failed", "that"),
        ("Also where, and the class of error", "type"),
        ("Also the message, which may quote the data", "message"),
    ],
)
def test_a_failure_is_shown_here_and_told_as_far_as_the_person_chooses(
    show: Show, button: str, tell: str
) -> None:
    shown = show(traits=with_function(failure="KeyError in line 4"))
    view = open_requests(shown)
    expect(view.locator(".request").get_by_role("status")).to_have_text(
        "It failed here: KeyError in line 4. The peer knows nothing of it."
    )
    expect(view.get_by_role("button", name="Run total(ages) here, and only here")).to_be_visible()
    view.get_by_role("button", name="Tell the peer that total(ages) failed…").click()
    shown.settle()
    choices = view.get_by_role("group", name="What the peer hears of the failure of total(ages)")
    expect(choices.get_by_role("button").first).to_be_focused()
    choices.get_by_role("button", name=button).click()
    command = shown.command()
    assert (command["name"], command["args"]) == ("fail", {"number": 28, "tell": tell})


def test_what_the_peer_would_hear_of_a_failure_can_be_thought_over(show: Show) -> None:
    shown = show(traits=with_function(failure="KeyError in line 4"))
    view = open_requests(shown)
    opener = view.get_by_role("button", name="Tell the peer that total(ages) failed…")
    opener.click()
    shown.settle()
    shown.page.keyboard.press("Escape")
    shown.settle()
    expect(opener).to_be_focused()
    expect(view.get_by_role("button", name="Deny…")).to_be_visible()


def test_a_private_function_says_what_it_costs_and_what_is_left(show: Show) -> None:
    traits = with_function(
        privacy="epsilon 2 at delta 1e-05", budgets="epsilon 3 is left for 'people', 1 after it"
    )
    shown = show(traits=traits)
    view = open_requests(shown)
    expect(view.locator(".request .facts")).to_contain_text(
        "privacyepsilon 2 at delta 1e-05; epsilon 3 is left for 'people', 1 after it"
    )
    expect(view.locator(".request")).not_to_contain_text("cannot be approved")
    read(shown, view, "total(ages)")
    expect(view.get_by_role("button", name="Run and approve total(ages)")).to_be_enabled()


def test_a_private_function_that_no_budget_covers_cannot_be_approved(show: Show) -> None:
    shown = show(
        traits=with_function(
            privacy="epsilon 2 at delta 1e-05",
            budgets="epsilon 1 is left for 'people'",
            refusal="the function claims epsilon 2, and epsilon 1 is left for 'people': deny it",
        )
    )
    view = open_requests(shown)
    expect(view.locator(".request .refusal")).to_have_text(
        "It cannot be approved: the function claims epsilon 2, and epsilon 1 is left for 'people': deny it"
    )
    for name in (
        "Run and approve total(ages)",
        "Run total(ages) here, and only here",
        "Approve like this… for total(ages)",
    ):
        button = view.get_by_role("button", name=name)
        expect(button).to_be_disabled()
        expect(button).to_have_accessible_description(
            re.compile("^It cannot be approved: the function claims")
        )
        button.click(force=True)
    assert shown.sent("command") == []
    expect(view.locator(".policy-like")).to_have_count(0)
    expect(view.get_by_role("button", name="Deny")).to_be_enabled()
