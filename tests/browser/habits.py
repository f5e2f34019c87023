"""A notebook's habits in a real JupyterLab and in Notebook 7: what cells say while they wait, what tables
show, and what leads from a notification to an answer."""

from __future__ import annotations

import pytest
from playwright.sync_api import expect

from tests.browser.conftest import OpenNotebook
from tests.browser.notebook_page import Frontend
from tests.browser.test_panel import link, tab

pytestmark = pytest.mark.slow

SHARE = """
import numpy as np
import pandas as pd
people = pd.DataFrame({"town": ["Bonn", "Jena"], "income": [40.1475, 99.0]})
_ = duet.share(people, "people", mock="auto")
"""
MEAN = 'people["income"].mean()'  # as the owner's side calls it
# longer than the window: the panel is out of sight
LONG = "print(*range(200), sep='\\n')"


@pytest.mark.parametrize("frontend", ["lab", "notebook"])
def test_from_asking_to_the_value(open_notebook: OpenNotebook, frontend: Frontend) -> None:
    owner, scientist, mine, theirs = link(open_notebook, frontend, only=("tcp", "channel"))
    waiting = owner.begin(f"{SHARE}request = duet.wait_request(60)\nrequest")
    expect(waiting.output).to_contain_text("waiting for a request of Sven … (interrupt to stop waiting)")
    pointer = scientist.run("people = duet.wait_object('people', 60)\nincome = people.income.mean()\npeople")
    table = pointer.output.get_by_role("table").last
    expect(table).to_contain_text("its mock, made up")
    for column in ("town", "income", "float64"):
        expect(table).to_contain_text(column)
    store = scientist.run("duet.store").output.get_by_role("table")
    expect(store).to_contain_text("income float64")
    asking = scientist.begin("mean = income.get(reason='for table 1')")
    expect(asking.output).to_contain_text(f"asked Olga for {MEAN} … (interrupt to withdraw the request)")

    # what a cell shows of a request is saved with the notebook, and the value is not in it
    waiting.wait()
    expect(waiting.output.get_by_role("table")).to_contain_text("for table 1")
    assert owner.run("import duetlink\n_ = request.preview()").text() == ""
    owner.run(LONG)
    owner.run("'below'").element.scroll_into_view_if_needed()
    owner.page.evaluate("notebookPage.panel().context.save()")
    saved = owner.saved()
    assert "for table 1" in saved
    assert "69.57375" not in saved

    # the notification, also where the panel is out of sight, leads to the request
    expect(mine).not_to_be_in_viewport()
    if frontend == "lab":
        owner.page.locator(".jp-Notification-Status").click()
        news = owner.page.locator(".jp-Notification-Center")
        expect(news).to_contain_text(f"Sven asks for {MEAN}: “for table 1”")
        news.get_by_role("button", name="Review").click()
    else:
        owner.page.get_by_role("button", name="Review").click()
    opener = mine.get_by_role("button", name=MEAN, exact=True)
    expect(opener).to_be_focused()
    expect(opener).to_be_in_viewport()

    # which is small enough to be read there at once
    requests = mine.get_by_role("tabpanel")
    expect(requests).to_contain_text("69.57375")
    requests.get_by_role("button", name="Approve like this…").click()
    expect(requests.locator(".sentence")).to_contain_text(f"Sven may have {MEAN} again, at most")
    expect(requests.locator(".sentence")).to_contain_text("times, until midnight, without asking you.")
    requests.get_by_role("button", name="Approve these from now on").click()
    asking.wait()
    assert scientist.run("print(mean)").text() == "69.57375"
    expect(asking.output).to_contain_text(f"asked Olga for {MEAN}: approved after")

    # what was asked for can be taken back, from the panel of who asked
    scientist.run("again = people.income.max().request('for table 2')")
    requests = tab(theirs, "Requests")
    expect(requests.get_by_role("table", name="Asked by you")).to_contain_text("waits for the owner")
    requests.get_by_role("button", name="Withdraw the request for").click()
    requests.get_by_role("group", name="Take it back?").get_by_role("button", name="Withdraw").click()
    expect(requests.get_by_role("table", name="Asked by you")).to_contain_text("withdrawn")
    assert owner.run("print(duet.requests[-1].state)").text() == "withdrawn"

    # a bar that stands says who has paused it
    scientist.run("duet.compression.rate_cap_bytes_per_s = 2e6")
    expect(tab(mine, "Throughput").get_by_role("region", name="Compression")).to_contain_text(
        "Sven set rate cap: 2 MB/s"
    )
    owner.run("_ = duet.share(np.random.default_rng(7).normal(size=1_000_000), 'noise')")
    owner.run("from duetlink import Policy\n_ = duet.policies.add(Policy('approve', assets='noise'))")
    fetching = scientist.begin("noise = duet.wait_object('noise', 60).get(reason='to see it')")
    tab(mine, "Transfers").get_by_role("button", name="Pause noise").click()
    expect(fetching.output).to_contain_text("paused by Olga")
    tab(theirs, "Transfers")
    expect(theirs).to_contain_text("paused by the peer")
    scientist_sees = mine.get_by_role("tabpanel")
    scientist_sees.get_by_role("button", name="Resume noise").click()
    owner.run("duet.compression.rate_cap_bytes_per_s = None")
    fetching.wait()
    moved = scientist.run("duet.statistics()").output.get_by_role("table")
    expect(moved).to_contain_text("8 MB")
    expect(moved).to_contain_text("path tcp")
