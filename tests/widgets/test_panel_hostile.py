"""Whatever the peer shares, or does not answer: the panel goes on showing what is, and answers each click."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.duet.asking.pointers import remote_session
from duetlink.errors import MalformedValue
from duetlink.testing.faults import life_of, replace_function
from duetlink_widgets import snapshot
from duetlink_widgets.feed import Feed
from tests.conftest import DuetPair, MakeDuets
from tests.widgets.conftest import ShowPanel

# what an object of the store says of itself; a pointer has a column of that name in its place
SAID = ("name", "kind", "detail", "size_bytes", "description", "mock_words", "budget", "tags", "revision")


def test_a_frame_whose_columns_have_the_names_of_descriptions_is_shown_like_any_other(
    make_duets: MakeDuets, show: ShowPanel
) -> None:
    owner, scientist = make_duets()
    page = show(owner)
    owner.share(np.arange(3), "x")
    scientist.share(pd.DataFrame({name: [1.0] for name in SAID}), "notes", mock="auto")
    shared = page.trait("shared", lambda shared: shared["total"] == 2)["rows"]
    assert [(row["name"], row["whose"], row["kind"]) for row in shared if row["whose"] == "peer"] == [
        ("notes", "peer", "pandas.DataFrame")
    ]
    pending = scientist.wait_object("x", 10).request("asked afterwards")
    row = page.trait("requests", lambda requests: requests["pending"] == 1)["rows"][0]
    assert page.command("approve", number=0, revision=row["revision"])["ok"]
    assert pending.result(10).tolist() == [0, 1, 2]
    assert page.panel.requests["rows"][0]["state"] == "approved"
    assert "notes" in repr(owner.store)
    assert "notes" in owner.store.to_pandas().index
    assert list(owner.store.search("PANDAS")) == ["notes"]
    scientist.close("lunch")
    page.trait("link", lambda link: link["state"] == "closed")


def test_a_mock_that_the_peer_withholds_keeps_nothing_waiting(make_duets: MakeDuets, show: ShowPanel) -> None:
    owner, scientist = make_duets()
    page = show(owner)
    queries: list[pb.MockQuery] = []

    async def never(query: pb.MockQuery) -> Any:
        queries.append(query)
        await asyncio.Event().wait()

    life_of(scientist).link.rpc.handle(pb.MockQuery, never)  # type: ignore[union-attr]
    owner.share([1], "x")
    scientist.share(pd.DataFrame({"a": [1.0]}), "notes", mock="auto")
    page.trait("shared", lambda shared: shared["total"] == 2)
    scientist.wait_object("x", 10).request()
    page.trait("requests", lambda requests: requests["pending"] == 1)
    assert queries == []  # the panel works with nothing, and asks the peer for nothing
    assert page.command("deny", number=0, reason="no")["ok"]
    assert owner.requests[0].state == "denied"
    shown = page.command("shared_detail", name="notes", whose="peer")
    assert shown["error"] == "the mock of 'notes' is not here yet; look again"
    assert len(queries) == 1
    assert page.command("disconnect")["ok"]
    assert page.panel.link["state"] == "closed"


def test_a_mock_of_the_peers_is_decoded_at_the_owner_when_a_room_has_survived_it(
    make_duets: MakeDuets, show: ShowPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(remote_session, "GLANCE_S", 60.0)
    owner, scientist = make_duets()
    page = show(owner)
    life = life_of(owner)
    scientist.share(pd.DataFrame({"a": [1.0]}), "notes", mock="auto")
    scientist.share(np.zeros(2), "flat", mock=np.ones(2))
    page.trait("shared", lambda shared: shared["total"] == 2)
    assert life.remote_session.here(life.catalogue.peer["notes"]) is None  # nobody has asked for it
    assert "a float64" in repr(owner.store)
    assert life.decoding.tried == 1
    assert owner.store["flat"].mock.tolist() == [1.0, 1.0]
    assert life.decoding.tried == 1  # what is flat needs no room

    async def ends(body: memoryview, room_bytes: int) -> None:
        raise MalformedValue("the process that decoded it has ended")

    replace_function(monkeypatch, life.decoding, "try", ends)
    scientist.share(pd.DataFrame({"b": [1.0]}), "bomb", mock="auto")
    pointer = owner.wait_object("bomb", 10)
    assert "b float64" not in repr(owner.store)
    with pytest.raises(MalformedValue, match="has ended"):
        _ = pointer.mock
    assert page.command("shared_detail", name="bomb", whose="peer")["error"] == (
        "the mock of 'bomb' is not here yet; look again"
    )


@pytest.mark.parametrize("broken", ["requests_state", "asked_state", "shared_state", "transfers_state"])
def test_what_cannot_be_shown_stops_nothing_else(
    make_duets: MakeDuets,
    show: ShowPanel,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    broken: str,
) -> None:
    owner, scientist = make_duets()
    page = show(owner)

    def fails(duet: Any) -> Any:
        raise TypeError("a defect")

    monkeypatch.setattr(snapshot, broken, fails)
    assert page.command("pause")["ok"]
    assert page.panel.link["paused"]
    assert "a defect" in caplog.text
    notice = page.wait("notice").content["text"]
    assert notice.startswith(f"the panel cannot show {broken.removesuffix('_state')}")
    scientist.close("lunch")
    page.trait("link", lambda link: link["state"] == "closed")
    assert len(page.messages("notice")) == 1  # it is said once


def test_a_click_is_answered_also_where_nothing_can_be_published(
    duets: DuetPair, show: ShowPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = show(duets[0])

    def fails(states: Any) -> None:
        raise OSError("the kernel's socket is gone")

    monkeypatch.setattr(page.panel, "publish", fails)
    assert page.command("set_compression", objective="bytes")["ok"]
    assert page.command("set_compression", objective="throughput")["ok"]


def test_a_click_is_answered_where_what_it_does_panics(
    duets: DuetPair, show: ShowPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = show(duets[0])

    class Panic(BaseException):
        """As that of a library that is written in Rust, which is no Exception."""

    def panics(*args: Any) -> Any:
        raise Panic("index out of bounds")

    replace_function(monkeypatch, Feed, "run", panics)
    ack = page.command("pause")
    assert (ack["ok"], ack["error"]) == (False, "Panic: index out of bounds")


def test_a_click_whose_result_cannot_be_said_is_answered(
    duets: DuetPair, show: ShowPanel, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = show(duets[0])
    say = page.panel.say

    def says(message: dict[str, Any], buffer: bytes | None = None) -> None:
        json.dumps(message)
        say(message, buffer)

    monkeypatch.setattr(page.panel, "say", says)
    replace_function(monkeypatch, Feed, "run", lambda feed, name, args: object())
    ack = page.command("pause")
    assert (ack["ok"], ack["error"]) == (False, "the command has ended, but its result cannot be shown")
