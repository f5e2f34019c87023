"""What the panel holds for who asks: what is shared, and what became of one's own requests."""

from __future__ import annotations

from dataclasses import asdict

import pytest
from playwright.sync_api import expect

from duetlink_widgets.contract import Answered, Foreign
from tests.widgets.component import states
from tests.widgets.component.conftest import Show

pytestmark = pytest.mark.slow

TRAITS = states.EMPTY_TRAITS | {
    "link": asdict(states.CONNECTED),
    "asked": asdict(states.ASKED),
    "shared": asdict(states.SHARED),
}


def test_own_requests_stand_there_with_their_answers_and_can_be_withdrawn(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    shown.open_tab(view, "Requests")
    expect(view).to_contain_text("Nothing waits for your answer.")
    rows = view.get_by_role("table", name="Asked by you").get_by_role("row")
    expect(rows).to_have_count(4)
    expect(rows.nth(1)).to_contain_text("ages.mean()for table 1waits for the owner")
    expect(rows.nth(2)).to_contain_text("patientsdeniednames are in it")
    expect(rows.nth(3)).to_contain_text("labelstrainingapproved, here")
    expect(view).to_contain_text("and 9 older ones")
    expect(view.get_by_role("button", name="Withdraw the request")).to_have_count(1)
    view.get_by_role("button", name="Withdraw the request for ages.mean()").click()
    view.get_by_role("group", name="Take it back?").get_by_role("button", name="Withdraw").click()
    assert (shown.command()["name"], shown.command()["args"]) == ("withdraw", {"number": 11})


def test_what_is_shared_is_listed_by_whose_it_is_and_its_mock_is_looked_at(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    shown.open_tab(view, "Shared")
    tab = view.get_by_role("tabpanel")
    expect(tab.locator("h3")).to_have_text(["Shared by the peer", "Shared by you"])
    people, photos, weights = tab.locator("li").all()
    expect(people).to_contain_text("pandas.DataFrame 400 rows × 3 columns, 12.8 kB")
    expect(people).to_contain_text("a survey of 2025")
    expect(people).to_contain_text(
        "works from afar on a mock (auto); private statistics: epsilon 1 of 3 left"
    )
    expect(photos).to_contain_text("no mock: it can only be asked for as it is")
    expect(photos.get_by_role("button")).to_have_count(0)
    expect(weights).to_contain_text("float32 (64, 64)")
    expect(tab).to_contain_text("and 2 more: see duet.store")
    people.get_by_role("button", name="people").click()
    shown.settle()
    assert (shown.command()["name"], shown.command()["args"]) == (
        "shared_detail",
        {"name": "people", "whose": "peer"},
    )
    shown.receive(states.ack(shown.command(), result="   age town\n0   41 Bonn"))
    expect(people.get_by_role("region", name="Its mock, made up")).to_have_text("   age town\n0   41 Bonn")


def test_an_answer_is_told_by_jupyterlab_with_who_what_and_why(show: Show) -> None:
    shown = show()
    shown.view()
    why = Foreign("names are in it")
    shown.receive(asdict(Answered("answered", Foreign("clinic"), Foreign("patients"), "denied", why)))
    [notified] = shown.page.evaluate("model.notified")
    assert notified["args"]["message"] == "clinic denied patients: “names are in it”"
