"""The kernel's half of the panel, with real duets and a recorded comm in the place of a page."""

from __future__ import annotations

import json
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink.duet.answering.requests import Request
from duetlink.errors import OperationFailed, RequestDenied, SignalingUnavailable
from duetlink.net.signaling import WebSocketMailbox
from duetlink.testing.faults import replace_function
from duetlink_widgets import contract, pages
from duetlink_widgets.contract import SCHEMA, TRAIT_LIMIT_BYTES
from duetlink_widgets.feed import Feed
from tests.conftest import DuetPair, MakeDuets
from tests.test_reconnect import QUICK, cut_off
from tests.widgets.conftest import ShowPanel
from tests.widgets.recording import Recording

TRAITS = ("link", "tuning", "requests", "asked", "shared", "transfers")
PAGE = "page-1"


def greet(page: Recording) -> None:
    page.say(kind="hello", schema=SCHEMA)


def look(page: Recording, *, on: bool = True) -> None:
    page.say(kind="visible", page=PAGE, on=on)


def as_text(page: Recording) -> str:
    """Everything that a saved notebook could hold."""
    return json.dumps({name: getattr(page.panel, name) for name in TRAITS}, ensure_ascii=False)


# -- what it shows -----------------------------------------------------------------------------------------


def test_the_code_is_told_to_a_page_and_is_in_no_trait_and_no_table(show: ShowPanel) -> None:
    with duetlink.launch() as owner:
        page = show(owner)
        greet(page)
        code = page.wait("code").content
        assert code["code"] == owner.code
        assert code["line"] == f"duet = duetlink.join('{owner.code}')"
        assert owner.code_expires is not None
        assert code["expires_s"] == owner.code_expires.timestamp()
        assert page.trait("link")["state"] == "waiting"
        assert str(owner.code) not in as_text(page)
        assert str(owner.code) not in json.dumps(page.panel._repr_mimebundle_())
        assert all(str(owner.code) not in str(sent.content) for sent in page.sent if sent.method != "custom")


def test_once_connected_the_code_is_told_no_more(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    greet(page)
    page.wait("history")
    assert page.messages("code") == []
    link = page.trait("link")
    assert (link["state"], link["peer"], link["role"]) == ("connected", "Sven", "owner")
    assert link["verifier"] == duets[0].verifier
    assert link["schema"] == SCHEMA


def test_a_new_code_for_a_lost_peer_is_told_to_the_page_and_is_in_no_trait(
    show: ShowPanel, cut: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nobody(*arguments: Any) -> None:
        raise SignalingUnavailable("there is no network")

    monkeypatch.setattr(WebSocketMailbox, "meet", nobody)
    with (
        duetlink.launch(settings=QUICK) as owner,
        duetlink.join(str(owner.code), settings=QUICK) as scientist,
    ):
        page = show(owner)
        look(page)
        cut_off(scientist, cut)
        first = page.trait("link", lambda link: link["gives_up_in_s"] is not None)
        page.trait("link", lambda link: link["why"] != first["why"])  # the silence goes on
        page.trait("link", lambda link: link["gives_up_in_s"] < first["gives_up_in_s"])
        assert page.command("reconnect")["ok"]
        for _ in range(2):
            assert page.command("invite")["ok"]
            page.wait("code", lambda told: told["code"] == owner.code)
            assert page.trait("link", lambda link: link["invited"])["state"] == "reconnecting"
        assert str(owner.code) not in as_text(page)


def test_it_follows_the_duet_to_its_end(make_duets: MakeDuets, show: ShowPanel) -> None:
    owner, scientist = make_duets()
    page = show(owner)
    scientist.close("lunch")
    link = page.trait("link", lambda link: link["state"] == "closed")
    assert link["why"] == "the peer closed the link: lunch; launch or join a new one to go on"
    greet(page)  # the page is loaded again
    assert page.wait("history").content["columns"] == list(contract.HISTORY_COLUMNS)


def test_the_paths_are_those_of_the_statistics(make_duets: MakeDuets, show: ShowPanel) -> None:
    owner, _ = make_duets(only=("tcp", "channel"))
    page = show(owner)
    link = page.trait("link", lambda link: all(path["state"] == "up" for path in link["paths"]))
    assert [path["name"] for path in link["paths"]] == ["tcp", "channel"]
    assert link["path"] == "tcp"


def test_what_moved_is_in_the_history(make_duets: MakeDuets, show: ShowPanel) -> None:
    owner, scientist = make_duets(only=("tcp",))
    owner.send(np.arange(1_000_000), "numbers")
    assert scientist.store["numbers"].get().size == 1_000_000
    page = show(owner)
    greet(page)
    history = page.wait("history")
    rows = np.frombuffer(history.buffers[0], np.float32).reshape(-1, len(contract.HISTORY_COLUMNS))
    sent = owner.statistics()
    assert rows[:, 1].sum() == sent.sent_bytes >= 8_000_000
    assert rows[:, 3].sum() == sent.sent_wire_bytes
    row = next(row for row in page.trait("transfers")["rows"] if row["name"] == "numbers")
    assert (row["state"], row["direction"], row["done_bytes"]) == ("complete", "out", row["size_bytes"])


def test_everything_is_written_on_one_thread_but_the_opening(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    greet(page)
    look(page)
    page.wait("tick")
    duets[0].share([1], "x")
    duets[1].wait_object("x", 10).request("why not")
    page.trait("requests", lambda requests: requests["pending"] == 1)
    page.command("set_compression", objective="bytes")
    threads = {sent.thread for sent in page.sent if sent.method != "open"}
    assert threads == {"duetlink-panel"}


def test_traits_stay_small_whatever_the_peer_says(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    for number in range(40):
        owner.share([number], "n" * 150 + str(number), description="d" * 4000)
    for number in range(40):
        scientist.wait_object("n" * 150 + str(number), 10).request("\N{SNOWMAN}" * 2000)
    requests = page.trait("requests", lambda requests: requests["pending"] == 40)
    assert [row["number"] for row in requests["rows"][:5]] == [0, 1, 2, 3, 4]
    assert len(as_text(page).encode()) <= TRAIT_LIMIT_BYTES


# -- ticks -------------------------------------------------------------------------------------------------


def test_it_ticks_while_a_page_shows_it_and_not_else(
    duets: DuetPair, show: ShowPanel, monkeypatch: Any
) -> None:
    monkeypatch.setattr(pages, "TICK_S", 0.01)
    page = show(duets[0])
    greet(page)
    first = page.wait("tick").content["sequence"]
    look(page)
    page.wait("tick", lambda tick: tick["sequence"] >= first + 3)
    look(page, on=False)
    page.command("set_compression", objective="bytes")  # the feed has heard all that was said before
    page.say(kind="poll")
    told = len(page.messages("tick"))
    last = page.wait("tick").content["sequence"]
    page.say(kind="poll")
    page.wait("tick", lambda tick: tick["sequence"] > last)
    assert len(page.messages("tick")) <= told + 2  # one was perhaps on its way


def test_a_page_that_says_nothing_any_more_is_not_ticked_for_ever(
    duets: DuetPair, show: ShowPanel, monkeypatch: Any
) -> None:
    monkeypatch.setattr(pages, "TICK_S", 0.005)
    monkeypatch.setattr(pages, "VISIBLE_LEASE_S", 0.05)
    ended = threading.Event()

    async def keep_ticking(feed: pages.Pages) -> None:
        await true(feed)
        ended.set()

    true = replace_function(monkeypatch, pages.Pages, "keep_ticking", keep_ticking)
    page = show(duets[0])
    look(page)
    page.wait("tick")
    assert ended.wait(60)


# -- commands ----------------------------------------------------------------------------------------------


def test_a_request_is_approved_for_the_revision_that_was_seen(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    owner.share(np.arange(3), "x", description="three numbers", tags=["small"])
    asked = scientist.wait_object("x", 10).request("for the mean")
    row = page.trait("requests", lambda requests: requests["pending"] == 1)["rows"][0]
    assert (row["who"], row["name"], row["reason"]) == ("Sven", "x", "for the mean")
    assert page.wait("asked").content == {
        "kind": "asked", "who": "Sven", "what": "x", "why": "for the mean", "run": False,
    }  # fmt: skip
    detail = page.command("request_detail", number=0)["result"]
    assert detail == {
        "number": 0, "revision": 1, "reason": "for the mean", "description": "three numbers",
        "tags": ["small"], "preview": "array([0, 1, 2])", "code": "", "group": 1, "log": "",
    }  # fmt: skip
    stale = page.command("approve", number=0, revision=2)
    assert (stale["ok"], stale["error"]) == (
        False,
        "request 0 has changed since it was shown; review it again",
    )
    assert page.command("approve", number=0, revision=1)["ok"]
    assert asked.result(10).tolist() == [0, 1, 2]
    # the page has the effect when it has the answer
    assert page.panel.requests["rows"][0]["state"] == "approved"


def test_code_and_reason_are_told_also_where_the_content_cannot_be_shown(
    duets: DuetPair, show: ShowPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner, scientist = duets
    page = show(owner)
    owner.share(np.arange(3), "x", mock="auto")
    total = scientist.wait_object("x", 10).sum()
    asked = total.request("for the sum")
    page.trait("requests", lambda requests: requests["pending"] == 1 and requests["rows"][0]["made"])

    def preview(self: Request) -> str:
        raise ValueError("no text of it")

    monkeypatch.setattr(Request, "preview", preview)
    detail = page.command("request_detail", number=0)["result"]
    assert (detail["code"], detail["reason"]) == ("x.sum()", "for the sum")
    assert detail["preview"] == "not shown: ValueError: no text of it"
    asked.withdraw()


def test_a_request_is_denied_with_a_reason(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    owner.share([1], "x")
    asked = scientist.wait_object("x", 10).request()
    page.trait("requests", lambda requests: requests["pending"] == 1)
    assert page.command("deny", number=0, reason="not yet")["ok"]
    with pytest.raises(RequestDenied) as denied:
        asked.result(10)
    assert denied.value.reason == "not yet"
    assert page.panel.requests["rows"][0]["answer_reason"] == "not yet"
    again = page.command("deny", number=0, reason="")
    assert again["error"] == "request 0 for 'x' is denied; only a pending one can be answered"


def test_a_change_of_compression_is_on_both_panels(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    one, other = show(owner), show(scientist)
    assert one.command("set_compression", mode="manual", codec={"tensor": "zstd"})["ok"]
    theirs = other.trait("tuning", lambda tuning: tuning["compression"]["version"] == 1)["compression"]
    assert (theirs["mode"], theirs["codec"]["tensor"]) == ("manual", "zstd")
    assert other.command("undo_compression")["ok"]
    mine = one.trait("tuning", lambda tuning: tuning["compression"]["version"] == 2)["compression"]
    assert (mine["mode"], mine["codec"]["tensor"]) == ("auto", "auto")
    refused = one.command("set_compression", objective="fame")
    assert not refused["ok"]
    assert refused["error"] == "objective must be one of throughput, latency, bytes, cpu; got 'fame'"


def test_the_codecs_to_choose_from_are_those_that_a_role_takes(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    choices = {choice["name"]: choice for choice in page.trait("tuning")["codecs"]}
    assert choices["zstd"]["roles"] == ["bytes", "tensor"]
    assert choices["pcodec"]["roles"] == ["tensor"]
    assert choices["block8"]["roles"] == ["gradient"]
    assert "delta" not in choices
    for name, choice in choices.items():
        for role in choice["roles"]:
            duets[0].compression.set(mode="manual", codec={role: name}, level={role: choice["most_level"]})


def test_sending_is_paused_and_resumed(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    assert page.command("pause")["ok"]
    assert page.panel.link["paused"]
    assert page.command("resume")["ok"]
    assert not page.panel.link["paused"]


def test_a_click_that_cannot_be_done_says_why(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    for name, args, error in (
        ("fly", {}, "the panel knows no command 'fly'; reload the page if duetlink was updated"),
        ("approve", {"number": 5}, "there is no request 5; 0 have arrived so far"),
        ("approve", {"number": "0"}, "the panel sent number '0', which is not a valid number"),
        ("deny", {"number": -1}, "the panel sent number -1, which is not a valid number"),
    ):
        ack = page.command(name, **args)
        assert (ack["ok"], ack["error"]) == (False, error)


def test_a_command_that_is_none_or_comes_too_late_does_no_harm(
    duets: DuetPair, show: ShowPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    feeds: list[Feed] = []
    heard = Feed.heard

    def note(feed: Feed, message: Mapping[str, Any]) -> None:
        feeds.append(feed)
        heard(feed, message)

    monkeypatch.setattr(Feed, "heard", note)
    page = show(duets[0])
    page.say(kind="command", command_id=7)  # is none
    for objective in ("bytes", "throughput"):
        assert page.command("set_compression", objective=objective)["ok"]
    page.panel.close()
    feeds[0].heard({"kind": "command"})


def test_disconnect_closes_the_duet_and_the_panel_goes_on(make_duets: MakeDuets, show: ShowPanel) -> None:
    owner, scientist = make_duets()
    page = show(owner)
    assert page.command("disconnect")["ok"]
    assert owner.state.startswith("closed")
    assert page.panel.link["state"] == "closed"
    while not scientist.state.startswith("closed"):
        threading.Event().wait(0.01)
    refused = page.command("set_compression", objective="bytes")
    assert not refused["ok"]
    assert "closed" in refused["error"]


def test_what_no_page_would_say_is_ignored(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    for nonsense in (
        {}, {"kind": 7}, {"kind": "hello", "schema": None}, {"kind": "visible", "page": 1, "on": "x"},
        {"kind": "command"}, {"kind": "command", "command_id": 1}, {"kind": "command", "name": [], "args": 3},
        {"kind": "command", "command_id": "z", "name": ["approve"], "args": None},
    ):  # fmt: skip
        page.say(**nonsense)
    greet(page)
    page.wait("history")


def test_decisions_are_told_as_they_are_made(make_duets: MakeDuets, show: ShowPanel) -> None:
    owner, scientist = make_duets(only=("tcp",))
    page = show(owner)
    owner.compression.set(mode="manual", codec={"tensor": "zstd"})
    owner.send(np.zeros(4_000_000), "zeros")
    told = page.wait("decisions", lambda decisions: bool(decisions["rows"])).content
    row = told["rows"][-1]
    assert (row["side"], row["codec"], row["path"]) == ("here", "zstd", "tcp")
    assert page.trait("tuning", lambda tuning: tuning["sending_codec"] == "zstd")
    greet(page)
    again = page.wait("decisions", lambda decisions: decisions["reset"]).content
    assert [one["number"] for one in again["rows"] if one["side"] == "here"] == [
        decision.number for decision in owner.tuning.decisions if decision.side == "here"
    ]
    scientist.close()


def test_a_function_is_run_and_looked_at_before_it_is_approved(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    owner.share(np.arange(6.0), "ages", mock=np.zeros(6))
    ages = scientist.wait_object("ages", 10)

    @scientist.remote
    def total(numbers: Any) -> float:
        print("rows", len(numbers))
        return float(numbers.sum())

    pending = total(ages).submit("for table 1")
    (row,) = page.trait("requests", lambda requests: requests["pending"] == 1)["rows"]
    assert (row["function"], row["made"], row["state"]) == ("total", False, "pending")
    assert row["detail"].endswith("; said to make of mocks: float: 0.0")
    assert page.command("run_request", number=0, revision=row["revision"])["ok"]
    (row,) = page.trait("requests", lambda requests: requests["rows"][0]["made"])["rows"]
    assert (row["kind"], row["one_number"], row["state"]) == ("float", True, "pending")
    detail = page.command("request_detail", number=0)["result"]
    assert (detail["preview"], detail["log"]) == ("15.0", "rows 6")
    assert detail["code"].startswith("# ages: the asset 'ages'")
    assert page.command("approve", number=0, revision=row["revision"])["ok"]
    assert pending.result(20) == 15.0


def test_a_function_that_fails_is_told_as_far_as_the_person_says(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    owner.share(np.arange(6.0), "ages", mock=np.zeros(6))
    ages = scientist.wait_object("ages", 10)

    @scientist.remote
    def looks_up(numbers: Any) -> float:
        return {0.0: 1.0}[float(numbers[-1])]

    pending = looks_up(ages).submit("for table 1")
    (row,) = page.trait("requests", lambda requests: requests["pending"] == 1)["rows"]
    assert not page.command("fail", number=0, tell="that")["ok"]
    assert not page.command("run_request", number=0, revision=row["revision"])["ok"]
    (row,) = page.trait("requests", lambda requests: requests["rows"][0]["failure"])["rows"]
    assert (row["failure"], row["state"], row["made"]) == ("KeyError in line 2", "pending", False)
    assert page.command("request_detail", number=0)["result"]["log"].endswith("KeyError: 5.0")
    assert page.command("fail", number=0, tell="type")["ok"]
    with pytest.raises(OperationFailed, match=r"^looks_up failed on the real data, in line 2: KeyError$"):
        pending.result(20)
    (row,) = page.trait("requests", lambda requests: requests["rows"][0]["state"] == "failed")["rows"]
    assert row["failure"] == ""


def test_a_run_tells_how_far_it_is_until_it_is_stopped(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    greet(page)
    look(page)
    owner.share(np.arange(6.0), "ages", mock=np.zeros(2))
    ages = scientist.wait_object("ages", 10)

    @scientist.remote
    def forever(numbers: Any) -> int:
        while len(numbers) > 2:
            pass
        return 1

    pending = forever(ages).submit("for table 1")
    (row,) = page.trait("requests", lambda requests: requests["pending"] == 1)["rows"]
    with ThreadPoolExecutor(1) as pool:
        run = pool.submit(page.command, "run_request", number=0, revision=row["revision"])
        first = page.trait("requests", lambda requests: requests["rows"][0]["running"])["rows"][0]["running"]
        page.trait("requests", lambda requests: requests["rows"][0]["running"] not in ("", first))
        assert page.command("stop_request", number=0)["ok"]
        assert not run.result(20)["ok"]
    (row,) = page.trait("requests", lambda requests: not requests["rows"][0]["running"])["rows"]
    assert (row["state"], row["failure"], pending.state) == ("pending", "", "pending")
    pending.withdraw()
