"""The panel of a group: who is in it, everybody's links, what runs and who is slow."""

from __future__ import annotations

import re
from dataclasses import asdict, replace

import pytest
from playwright.sync_api import expect

from duetlink_widgets.contract import Foreign, GroupLinkRow, GroupMemberRow, GroupSum
from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.shown import AXE

pytestmark = pytest.mark.slow

TRAITS = {"kind": "group", "group": asdict(states.GROUP)}


def test_a_matrix_shows_the_links_of_all_to_all_and_who_is_slow(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    shown.receive(states.GROUP_TICK)
    header = view.locator("header")
    expect(header).to_contain_text("Together3 members")
    expect(header).to_contain_text("amber tulip seven")
    expect(header).to_contain_text("you arerank 0epoch4")
    rows = view.get_by_role("table", name="Links, from each member").get_by_role("row")
    assert rows.nth(0).locator("th").all_inner_texts() == ["member", "0", "1", "2"]
    assert [cell.replace("\n", " ") for cell in rows.nth(1).locator("td").all_inner_texts()] == [
        "", "12 ms tcp 94.0 MB/s", "81 ms relay 6.20 MB/s",
    ]  # fmt: skip
    assert rows.nth(2).locator("td").all_inner_texts()[2].split("\n") == ["44 ms", "udp", "–"]
    assert rows.nth(3).locator("td").all_inner_texts()[1:] == ["–", ""]
    expect(rows.nth(3)).to_contain_text("slow: waited 12 s for it")
    expect(view.locator(".slow")).to_have_count(1)
    expect(rows.nth(4)).to_contain_text("Danwaiting for the next epoch")
    shown.page.add_script_tag(content=AXE.read_text())
    shown.page.clock.resume()  # axe waits by timers
    found = view.evaluate("async (panel) => (await axe.run(panel)).violations.map(({ id }) => id)")
    assert found == []


def test_four_members_are_seen_in_a_narrow_column(show: Show) -> None:
    ranks = range(4)
    members = [
        GroupMemberRow(rank, Foreign("Maximiliane von Hohenstein " * 2), "connected") for rank in ranks
    ]
    links = [
        GroupLinkRow(one, other, "punched", 0.123, 12_600_000.0, True)
        for one in ranks
        for other in ranks
        if one != other
    ]
    group = replace(states.GROUP, size=4, members=members, links=links)
    view = show(traits=TRAITS | {"group": asdict(group)}).view(width=360)
    expect(view.get_by_role("columnheader", name="3")).to_be_visible()
    table = view.get_by_role("region", name="Links")
    assert table.evaluate("({ scrollWidth, clientWidth }) => scrollWidth - clientWidth") == 0


def test_a_link_of_others_that_is_not_known_yet_is_not_called_broken(show: Show) -> None:
    known, unknown = states.GROUP.links[0], states.GROUP.links[3]
    links = [replace(known, round_trip_s=0.01), replace(unknown, path=None, round_trip_s=None)]
    shown = show(traits=TRAITS | {"group": asdict(replace(states.GROUP, links=links))})
    view = shown.view()
    expect(view).to_contain_text("not known")
    expect(view.get_by_text("no path")).to_have_count(0)
    # only what is slower than the quickest is coloured
    assert view.get_by_role("cell", name="10 ms").get_attribute("style") == "--heat: 0%;"


def test_what_runs_is_shown_with_its_progress_and_whom_it_waits_for(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    shown.receive(states.GROUP_TICK)
    bar = view.get_by_role("progressbar", name="average at cell 3:2: 46 %")
    expect(bar).to_have_attribute("max", "64000000")
    expect(view).to_contain_text("waits for Cleo")
    expect(view).to_contain_text("30 MB of 64 MB")
    shown.receive(states.GROUP_TICK | {"sequence": 2, "operation": None})
    expect(bar).to_have_count(0)
    expect(view).to_contain_text("Nothing runs.")


def test_one_line_tells_what_a_sum_chose_and_the_rest_opens(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    line = view.get_by_text("all_reduce: union, 5.0 % of the places, 16.2× fewer bytes", exact=True)
    how = view.get_by_text("float32[4,000,000] among 3 members: union")
    expect(how).not_to_be_visible()
    line.click()
    expect(how).to_be_visible()
    dense = GroupSum("auto", "dense", None, 64_000, 64_000, "few")
    shown.change(group=asdict(replace(states.GROUP, sum=dense)))
    expect(view.get_by_text("all_reduce: dense", exact=True)).to_be_visible()
    shown.change(group=asdict(replace(states.GROUP, sum=None)))
    expect(view.locator(".sum")).to_have_count(0)
    running = states.GROUP_TICK["operation"] | {"call": "all_reduce at cell 4:1", "codec": "int8"}
    shown.receive(states.GROUP_TICK | {"operation": running})
    expect(view.locator(".transfer-name")).to_contain_text("all_reduce at cell 4:1codec int8waits for Cleo")


def test_whoever_has_gone_is_named_with_when_and_how(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    gone = view.get_by_role("list", name="Who has gone").get_by_role("listitem")
    expect(gone).to_have_count(2)
    expect(gone.nth(0)).to_have_text(re.compile(r"\d\d:\d\d:\d\d Fay \(rank 1\) closed its notebook"))
    expect(gone.nth(1)).to_contain_text("Eve (rank 2) fell silent")
    expect(gone.nth(1)).to_contain_text("silent for 20 s, and it did not come back within 10 s")
    told = view.get_by_role("status").filter(has=shown.page.get_by_role("list", name="Who has gone"))
    expect(told).to_have_count(1)  # a screen reader says so
    shown.change(group=asdict(replace(states.GROUP, gone=[])))
    expect(gone).to_have_count(0)


def test_the_code_is_there_while_it_waits_and_leaving_is_confirmed(show: Show) -> None:
    waiting = replace(states.GROUP, state="waiting", epoch=0, rank=None, size=0, members=[], links=[])
    shown = show(traits=TRAITS | {"group": asdict(waiting)})
    view = shown.view()
    shown.receive(states.CODE | {"line": "group = duetlink.group('7-crossover-clockwork')", "expires_s": 0.0})
    expect(view).to_contain_text("Tell this code to everybody who may come")
    expect(view.locator(".line")).to_have_text("group = duetlink.group('7-crossover-clockwork')")
    expect(view.get_by_text("Nothing runs.")).to_have_count(0)  # nothing can yet
    view.get_by_role("button", name="Leave").click()
    view.get_by_role("group", name="Leave this group?").get_by_role("button", name="Leave").click()
    assert shown.command()["name"] == "leave"
    shown.change(group=asdict(replace(waiting, state="closed", why=Foreign("left in the panel"))))
    expect(view).to_contain_text("left in the panel")
    expect(view.get_by_role("button", name="Leave")).to_have_count(0)
    expect(view.locator(".code")).to_have_count(0)


def test_a_group_of_a_kernel_that_ended_looks_dead(show: Show) -> None:
    shown = show(traits=TRAITS)
    view = shown.view()
    shown.receive(states.GROUP_TICK)
    shown.pass_s(10)
    expect(view.locator("header")).to_contain_text("run duetlink.group(…) again")
    expect(view).to_have_attribute("data-gone", "true")
