"""The audit log: looked through, verified, saved."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import Shown

pytestmark = pytest.mark.slow


def open_audit(shown: Shown) -> Locator:
    """The tab, and the kernel has answered."""
    view = shown.view()
    shown.open_tab(view, "Audit")
    answer(shown, result=asdict(states.AUDIT))
    return view


def answer(shown: Shown, error: str = "", result: Any = None) -> None:
    shown.receive(states.ack(shown.command(), error, result))
    shown.settle()


def questions(shown: Shown) -> list[dict[str, Any]]:
    return [command["args"] for command in shown.sent("command") if command["name"] == "audit"]


def test_an_entry_says_when_what_who_how_much_by_whom_and_how(show: Show) -> None:
    shown = show()
    view = open_audit(shown)
    assert questions(shown) == [{"text": "", "kind": ""}]
    rows = view.get_by_role("table", name="Audit log").get_by_role("row")
    expect(rows).to_have_count(9)
    expect(rows.nth(1).get_by_role("cell")).to_have_text(
        [
            "14:13:08",
            "release cancelled",
            "Sven's notebook",
            "scans (3)",
            "31.4 MB of 71.3 MB",
            "you",
            "",
            "tcp",
        ]
    )
    expect(rows.nth(4).get_by_role("cell").nth(4)).to_have_text("9.63 kB")
    expect(rows.nth(5)).to_contain_text("approve: assets labels*; up to 10 kB; 20 times")
    expect(rows.nth(7)).to_contain_text("2026-09-20 13:13:20")
    expect(rows.nth(8)).to_contain_text("–")
    expect(view).to_contain_text("8 of 1,234 shown")
    expect(view).to_contain_text("/home/olga/.local/share/duetlink/audit.jsonl")
    few = replace(states.AUDIT, total=1, rows=states.AUDIT.rows[:1])
    view.get_by_role("button", name="Refresh").click()
    answer(shown, result=asdict(few))
    expect(view).to_contain_text("1 entry")
    expect(rows).to_have_count(2)


def test_a_text_is_looked_for_when_the_typing_has_ended(show: Show) -> None:
    shown = show()
    view = open_audit(shown)
    field = view.get_by_role("searchbox", name="find")
    field.press_sequentially("sca")
    shown.pass_s(0.25)
    assert len(questions(shown)) == 1
    shown.pass_s(0.1)
    assert questions(shown)[1:] == [{"text": "sca", "kind": ""}]
    answer(shown, result=asdict(replace(states.AUDIT, total=0, rows=[])))
    expect(view).to_contain_text("No entry is like that.")
    view.get_by_label("what").select_option("release")
    assert questions(shown)[2:] == [{"text": "sca", "kind": "release"}]
    # another place to look at the same
    answer(shown, result=asdict(replace(states.AUDIT, total=2, rows=states.AUDIT.rows[:2])))
    shown.open_tab(view, "Link")
    shown.open_tab(view, "Audit")
    expect(field).to_have_value("sca")
    expect(view.get_by_label("what")).to_have_value("release")
    expect(view).to_contain_text("2 entries")
    assert questions(shown)[3:] == [{"text": "sca", "kind": "release"}]


def test_it_follows_what_happens_once_a_second_and_the_focus_stays(show: Show) -> None:
    shown = show()
    view = open_audit(shown)
    field = view.get_by_role("searchbox", name="find")
    field.focus()
    view.locator("tbody tr").nth(2).evaluate("(row) => { row.dataset.seen = 'before' }")
    shown.page.evaluate("scrollTo(0, 40)")
    before = len(questions(shown))
    shown.pass_s(5)
    assert len(questions(shown)) == before
    for _ in range(8):
        shown.change(transfers=states.TRAITS["transfers"], link=states.TRAITS["link"])
    shown.pass_s(1.1)
    assert len(questions(shown)) == before + 1
    newer = replace(states.AUDIT.rows[0], number=1241, when_s=states.NOW_S)
    answer(shown, result=asdict(replace(states.AUDIT, total=1235, rows=[newer, *states.AUDIT.rows])))
    expect(view.locator("tbody tr")).to_have_count(9)
    expect(field).to_be_focused()
    # the rows that were there are the same elements
    expect(view.locator("tbody tr").nth(3)).to_have_attribute("data-seen", "before")
    # not while another tab is open
    shown.open_tab(view, "Link")
    shown.change(transfers=states.TRAITS["transfers"])
    shown.pass_s(3)
    assert len(questions(shown)) == before + 1


def test_without_a_log_its_words_are_shown(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Audit")
    answer(shown, "no audit log is kept: audit_path in the settings is empty (DUETLINK_AUDIT_PATH)")
    expect(view.get_by_role("tabpanel").get_by_role("status")).to_have_text(
        "no audit log is kept: audit_path in the settings is empty (DUETLINK_AUDIT_PATH)"
    )
    expect(view.get_by_role("table")).to_have_count(0)
    expect(view.get_by_role("button", name="Verify")).to_have_count(0)


def test_a_busy_kernel_is_said(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Audit")
    shown.pass_s(0.8)
    expect(view.get_by_role("button", name="Kernel busy…")).to_be_disabled()
    answer(shown, result=asdict(states.AUDIT))
    expect(view.get_by_role("button", name="Refresh")).to_be_enabled()


def test_verifying_says_what_it_found(show: Show) -> None:
    shown = show()
    view = open_audit(shown)
    status = view.locator(".file [role=status]")
    expect(status).to_be_empty()
    view.get_by_role("button", name="Verify").press("Enter")
    assert (shown.command()["name"], shown.command()["args"]) == ("verify_audit", {})
    shown.pass_s(0.8)
    expect(view.get_by_role("button", name="Kernel busy…")).to_be_focused()
    answer(shown, result=states.VERIFIED)
    expect(status).to_contain_text("1,241 entries, none changed, none missing")
    view.get_by_role("button", name="Verify").click()
    answer(shown, "audit.jsonl: not as it was written\n  line 3: changed: its hash is another")
    expect(status.get_by_role("region")).to_have_text(
        "audit.jsonl: not as it was written\n  line 3: changed: its hash is another"
    )
    expect(status).to_contain_text("it is not right")


@pytest.mark.parametrize(("button", "ending"), [("Save as CSV", "csv"), ("Save as JSON lines", "jsonl")])
def test_it_is_saved_under_the_name_that_the_kernel_gave(
    show: Show, tmp_path: Path, button: str, ending: str
) -> None:
    shown = show()
    view = open_audit(shown)
    view.get_by_role("button", name=button).click()
    assert (shown.command()["name"], shown.command()["args"]) == ("export_audit", {"ending": ending})
    result = asdict(replace(states.EXPORT, name=f"duetlink-audit.{ending}"))
    with shown.page.expect_download() as download:
        shown.receive(states.ack(shown.command(), result=result))
    assert download.value.suggested_filename == f"duetlink-audit.{ending}"
    download.value.save_as(tmp_path / "saved")
    assert (tmp_path / "saved").read_text() == states.EXPORT.content
    # one that is too large
    view.get_by_role("button", name=button).click()
    answer(shown, "the log is too large for the page; run duet.audit.export")
    expect(view.locator(".file").get_by_role("alert")).to_contain_text("too large for the page")


def test_two_views_show_the_same_search(show: Show) -> None:
    shown = show()
    first, second = shown.view("first"), shown.view("second")
    shown.open_tab(first, "Audit")
    answer(shown, result=asdict(states.AUDIT))
    shown.open_tab(second, "Audit")
    answer(shown, result=asdict(states.AUDIT))
    first.get_by_label("what").select_option("gift")
    expect(second.get_by_label("what")).to_have_value("gift")
    answer(shown, result=asdict(replace(states.AUDIT, total=0, rows=[])))
    for view in (first, second):
        expect(view).to_contain_text("No entry is like that.")
