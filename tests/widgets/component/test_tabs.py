"""What each tab shows of literal states, and how tabs are walked through."""

from __future__ import annotations

from dataclasses import asdict, replace

import pytest
from playwright.sync_api import Locator, expect

from duetlink.settings import PATHS
from duetlink_widgets.contract import Foreign
from tests.widgets.component import states
from tests.widgets.component.conftest import Show
from tests.widgets.component.test_requests import read

pytestmark = pytest.mark.slow


def test_the_header_says_how_things_are(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.greet()
    header = view.locator("header")
    for words in (
        "Connected",
        "Sven's notebook",
        "amber tulip seven",
        "tcp",
        "58.3 MB/s",
        "21.0 MB/s",
        "12 ms",
        "2 requests",
    ):
        expect(header).to_contain_text(words)
    shown.change(link=asdict(replace(states.CONNECTED, state="reconnecting", path=None, paused=True)))
    expect(header).to_contain_text("Reconnecting")
    expect(header).to_contain_text("sending paused")
    expect(header.get_by_role("button", name="Resume sending")).to_be_visible()
    shown.change(link=asdict(replace(states.CONNECTED, state="closed")))
    expect(header).to_contain_text("Closed")
    expect(header.get_by_role("button")).to_have_count(1)  # the requests can still be read


def test_a_lost_link_says_on_every_tab_why_and_for_how_long_and_looks_alive_nowhere(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Shared")
    lost = replace(
        states.CONNECTED,
        state="reconnecting",
        why=Foreign("the peer has been silent for 34.2 s"),
        gives_up_in_s=3588.0,
        path=None,
        paths=[replace(path, state="unknown") for path in states.CONNECTED.paths],
    )
    shown.change(link=asdict(lost))
    outage = view.locator(".outage")
    expect(outage).to_contain_text("the peer has been silent for 34.2 s")
    expect(outage).to_contain_text("given up in 59:48")
    shown.change(link=asdict(replace(lost, why=Foreign("the peer has been silent for 34.5 s"))))
    expect(outage).to_contain_text("the peer has been silent for 34.5 s")
    outage.get_by_role("button", name="Try now").click()
    assert shown.sent("command")[-1]["name"] == "reconnect"
    expect(outage.get_by_role("button", name="New code")).to_have_count(1)
    shown.change(link=asdict(replace(lost, role="scientist")))
    expect(outage.get_by_role("button", name="New code")).to_have_count(0)
    shown.open_tab(view, "Link")
    expect(view.locator(".dot.unknown")).to_have_count(6)
    expect(view.locator(".dot.up, .in-use")).to_have_count(0)
    expect(view).to_contain_text("not known now")


def test_a_new_code_for_a_lost_peer_is_asked_for_twice_and_then_shown(show: Show) -> None:
    silent = Foreign("the peer is silent")
    lost = replace(states.CONNECTED, state="reconnecting", why=silent, gives_up_in_s=60.0, path=None)
    shown = show(traits=states.TRAITS | {"link": asdict(lost)})
    view = shown.view()
    shown.open_tab(view, "Shared")
    view.get_by_role("button", name="New code for Sven's notebook").click()
    assert shown.sent("command") == []
    expect(view.locator(".outage")).to_contain_text("takes this peer's place, with all that it was granted")
    view.get_by_role("button", name="Make the code").click()
    command = shown.command()
    assert command["name"] == "invite"
    shown.receive(states.CODE)
    shown.change(link=asdict(replace(lost, invited=True)))
    shown.receive(states.ack(command))
    expect(view.get_by_role("tab", name="Link")).to_have_attribute("aria-selected", "true")
    expect(view.locator(".invitation")).to_contain_text("Tell this code to whoever takes the peer's place")
    expect(view.get_by_role("button", name="Make the code")).to_have_count(0)


def test_a_path_has_the_name_that_the_settings_have(show: Show) -> None:
    shown = show()
    view = shown.view()
    for name in PATHS:
        shown.change(link=asdict(replace(states.CONNECTED, path=name)))
        expect(view.locator(".figures div").first).to_have_text(f"path{name}")
    rows = view.get_by_role("table", name="Ways to the peer").get_by_role("rowheader")
    assert rows.all_inner_texts() == list(PATHS)


def test_a_closed_duet_shows_nothing_that_looks_alive(show: Show) -> None:
    link = replace(states.CONNECTED, state="closed", why=Foreign("the peer closed the link: lunch"))
    shown = show(traits=states.TRAITS | {"link": asdict(link)})
    view = shown.view()
    expect(view).to_contain_text("the peer closed the link: lunch")
    expect(view.get_by_role("table", name="Ways to the peer")).to_have_count(0)
    expect(view.locator(".figures")).to_have_count(0)
    shown.open_tab(view, "Throughput")
    assert view.locator(".controls").evaluate("controls => controls.inert")


def test_what_was_kept_off_the_wire_stands_over_the_charts(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Throughput")
    headline = view.locator(".headline")
    expect(headline).to_have_text("4.12 GB of 7.31 GB kept off the wire (56 %)")
    above, below = headline.bounding_box(), view.locator(".charts").bounding_box()
    assert above is not None
    assert below is not None
    assert above["x"] == below["x"]
    assert above["width"] > below["width"]  # over the controls as well


def test_link_before_there_is_a_peer(show: Show) -> None:
    shown = show(traits=states.EMPTY_TRAITS)
    view = shown.view()
    shown.receive(states.CODE)
    expect(view.locator(".code")).to_have_text("7-crossover-clockwork")
    expect(view.locator(".line")).to_have_text("duet = duetlink.join('7-crossover-clockwork')")
    expect(view).to_contain_text("for 9:41 more")
    expect(view.locator(".figures")).to_have_count(0)  # there is nothing to measure
    shown.pass_s(60)
    shown.receive(states.tick(1))  # the kernel is there
    expect(view).to_contain_text("for 8:41 more")
    shown.pass_s(600)
    shown.receive(states.tick(2))
    expect(view).to_contain_text("It has expired")
    shown.change(link=states.TRAITS["link"])
    expect(view.locator(".code")).to_have_count(0)


def test_the_code_and_the_line_are_copied(show: Show) -> None:
    shown = show(traits=states.EMPTY_TRAITS)
    shown.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    view = shown.view()
    shown.receive(states.CODE)
    view.get_by_role("button", name="Copy the code").click()
    expect(view.get_by_role("button", name="Copy the code")).to_have_text("Copied")
    assert shown.page.evaluate("navigator.clipboard.readText()") == "7-crossover-clockwork"
    view.get_by_role("button", name="Copy the line").click()
    expect(view.get_by_role("button", name="Copy the line")).to_have_text("Copied")
    assert shown.page.evaluate("navigator.clipboard.readText()") == states.CODE["line"]
    shown.pass_s(2.1)
    expect(view.get_by_role("button", name="Copy the line")).to_have_text("Copy")


def test_a_code_by_hand_does_not_expire(show: Show) -> None:
    shown = show(traits=states.EMPTY_TRAITS)
    view = shown.view()
    shown.receive(states.CODE | {"code": "duetlink1:" + "x" * 900, "by_hand": True, "expires_s": 0.0})
    expect(view.locator(".invitation")).not_to_contain_text("expired")
    box = view.locator(".invitation").bounding_box()
    assert box is not None
    assert box["height"] < 400


def test_link_once_connected(show: Show) -> None:
    view = show().view()
    rows = view.get_by_role("table").get_by_role("row")
    expect(rows).to_have_count(7)
    expect(rows.nth(1)).to_contain_text("localdown–the peer is on another host")
    expect(rows.nth(2)).to_contain_text("tcpin use118 MB/s")
    expect(rows.nth(4)).to_contain_text("64.2 MB/s1.2 % lost")
    expect(rows.nth(5)).to_contain_text("not needed")
    expect(rows.nth(6)).to_contain_text("≥ 8.10 MB/s")
    expect(view).to_contain_text("reconnects1 time")


# the picture is more than a grid: the blue of what was sent is in it
BLUE = """() => {
  const canvas = document.querySelector("canvas");
  const { data } = canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height);
  let found = 0;
  for (let at = 0; at < data.length; at += 4)
    if (data[at] < 30 && data[at + 1] > 90 && data[at + 2] > 160 && data[at + 3] > 200) found++;
  return found > 200;
}"""


def test_throughput_has_charts_that_can_be_read_as_a_table(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.greet()
    shown.open_tab(view, "Throughput")
    charts = view.get_by_role("img")
    expect(charts).to_have_count(3)
    label = charts.first.get_attribute("aria-label")
    assert label is not None
    assert label.startswith("Payload and wire speed of the last 5 minutes. Sending ")
    shown.settle_until(BLUE)
    view.get_by_role("radio", name="15 min").check()
    shown.settle()
    assert "15 minutes" in (view.get_by_role("img").first.get_attribute("aria-label") or "")
    view.get_by_role("button", name="Show as table").click()
    rows = view.get_by_role("table", name="Means over 75 s each").get_by_role("row")
    expect(rows).to_have_count(13)
    expect(view.get_by_role("img")).to_have_count(0)


def test_the_pointer_reads_the_charts(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.greet()
    shown.open_tab(view, "Throughput")
    shown.settle_until(BLUE)
    box = view.get_by_role("img").first.bounding_box()
    assert box is not None
    # late in the outage: nothing was sent, and no round trip has been measured for long
    share = (780 + 17 - 600) / 300
    shown.page.mouse.move(box["x"] + 56 + share * (box["width"] - 112), box["y"] + 60)
    expect(view.locator("figcaption").first).to_contain_text("sent 0.00")
    expect(view.locator("figcaption").nth(1)).to_contain_text("round trip –")
    expect(view.locator(".cursor")).to_have_count(3)
    shown.page.mouse.move(5, 5)
    expect(view.locator(".cursor")).to_have_count(0)


def test_decisions_come_with_their_reasons_and_outcomes(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.greet()
    shown.open_tab(view, "Throughput")
    rows = view.get_by_role("table", name="What the tuners decided").get_by_role("row")
    expect(rows).to_have_count(5)
    expect(rows.nth(1)).to_contain_text("The link became slower.")
    expect(rows.nth(2)).to_contain_text("peer")
    expect(rows.nth(2).get_by_role("cell").last).to_have_text("–")
    expect(view.locator(".decisions")).to_contain_text("shares the link and the rate cap")
    measured = states.decisions()["rows"][2] | {"measured_bytes_per_s": 99.2e6}
    shown.receive({"kind": "decisions", "reset": False, "rows": [measured]})
    expect(rows).to_have_count(5)
    expect(rows.nth(2).get_by_role("cell").last).to_have_text("99.2")


def test_transfers_move_with_the_ticks(show: Show) -> None:
    shown = show()
    view = shown.view()
    shown.open_tab(view, "Transfers")
    shown.receive(states.tick(1, done_bytes=10_000_000, duration_s=1.0))
    shown.receive(states.tick(2, done_bytes=40_000_000, duration_s=2.5))
    scans = view.locator(".transfer").first
    expect(scans).to_contain_text("40 MB of 71.3 MB")
    expect(scans).to_contain_text("20.0 MB/s")
    expect(scans).to_contain_text("2.40×")
    assert scans.get_by_role("progressbar").evaluate("({ value, max }) => value / max") > 0.5
    expect(scans.get_by_role("progressbar")).to_have_accessible_name("scans: 56 %")
    expect(view.locator(".transfer").nth(1)).to_contain_text("paused here")
    expect(view.locator(".transfer").nth(3)).to_contain_text("failed: the relay refused")
    expect(view).to_contain_text("and 10 older ones")


def test_arrows_walk_through_the_tabs_and_enter_opens_one(show: Show) -> None:
    shown = show()
    view = shown.view()

    def tab(title: str) -> Locator:
        return view.get_by_role("tab", name=title)

    tab("Link").focus()
    shown.page.keyboard.press("ArrowRight")
    expect(tab("Throughput")).to_be_focused()
    expect(tab("Link")).to_have_attribute("aria-selected", "true")
    shown.page.keyboard.press("Enter")
    expect(tab("Throughput")).to_have_attribute("aria-selected", "true")
    expect(view.get_by_role("tabpanel")).to_contain_text("Compression")
    shown.page.keyboard.press("End")
    expect(tab("Audit")).to_be_focused()
    shown.page.keyboard.press("ArrowRight")
    expect(tab("Link")).to_be_focused()
    shown.page.keyboard.press("ArrowLeft")
    expect(tab("Audit")).to_be_focused()
    shown.page.keyboard.press("Home")
    shown.page.keyboard.press("Space")
    expect(tab("Link")).to_have_attribute("aria-selected", "true")
    # one stop for all tabs; the next one is the content
    shown.page.keyboard.press("Tab")
    expect(view.get_by_role("tabpanel")).to_be_focused()


def test_a_view_that_is_drawn_anew_opens_where_the_last_one_was(show: Show) -> None:
    shown = show()
    shown.open_tab(shown.view("first"), "Transfers")
    shown.close_view("first")
    expect(shown.view("second").get_by_role("tab", name="Transfers")).to_have_attribute(
        "aria-selected", "true"
    )


def test_two_views_of_one_panel_agree(show: Show) -> None:
    shown = show()
    first, second = shown.view("first"), shown.view("second")
    shown.greet()
    for view in (first, second):
        expect(view).to_contain_text("58.3 MB/s")
    shown.open_tab(first, "Requests")
    shown.open_tab(second, "Requests")
    shown.pass_s(1)
    read(shown, first)
    second.get_by_role("button", name="scans", exact=True).click()
    shown.pass_s(1)
    first.get_by_role("button", name="Approve scans").click()
    for view in (first, second):
        expect(view.get_by_role("button", name="Approve scans")).to_be_disabled()
    assert [command["name"] for command in shown.sent("command")] == ["request_detail", "approve"]
    assert len(shown.sent("hello")) == 1
    ids = shown.page.evaluate("[...document.querySelectorAll('[id]')].map(({ id }) => id)")
    assert len(ids) == len(set(ids))


def test_history_is_drawn_by_a_view_that_comes_later(show: Show) -> None:
    shown = show()
    shown.view("first")
    shown.greet()
    shown.close_view("first")
    later = shown.view("later")
    shown.open_tab(later, "Throughput")
    assert "at most 75.1" in (later.get_by_role("img").first.get_attribute("aria-label") or "")
    assert len(shown.sent("hello")) == 1
