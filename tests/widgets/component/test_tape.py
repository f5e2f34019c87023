"""What a real panel's kernel half has said, played to the page: the contract holds from both sides."""

from __future__ import annotations

import comm
import numpy as np
import pytest
from playwright.sync_api import Browser, expect

from duetlink_widgets.contract import SCHEMA
from duetlink_widgets.panel import Panel
from tests.conftest import MakeDuets
from tests.widgets.component.shown import Shown
from tests.widgets.recording import Recording, Sent, recording_comm

pytestmark = pytest.mark.slow


@pytest.fixture
def tape(make_duets: MakeDuets, monkeypatch: pytest.MonkeyPatch) -> list[Sent]:
    """A small duet from the owner's side: an array was sent, a request approved, a codec chosen."""
    recording = Recording()
    monkeypatch.setattr(comm, "create_comm", recording_comm(recording))
    owner, scientist = make_duets(only=("tcp", "channel"))
    recording.panel = panel = Panel(owner)
    recording.say(kind="hello", schema=SCHEMA)
    assert recording.command("set_compression", mode="manual", codec={"tensor": "zstd"})["ok"]
    owner.send(np.zeros(1_000_000), "zeros")
    owner.share([1, 2, 3], "x")
    asked = scientist.wait_object("x", 20).request("to <i>see</i> them")
    recording.trait("requests", lambda requests: requests["pending"] == 1)
    assert recording.command("approve", number=0, revision=1)["ok"]
    assert asked.result(20) == [1, 2, 3]
    recording.trait(
        "transfers", lambda transfers: [row["state"] for row in transfers["rows"]] == ["complete"] * 2
    )
    recording.say(kind="hello", schema=SCHEMA)
    recording.wait("tick", lambda tick: tick["sequence"] > 0)
    panel.close()
    return recording.sent


def test_the_page_shows_what_the_kernel_has_said(chromium: Browser, tape: list[Sent]) -> None:
    with chromium.new_context() as context:
        shown = Shown(context.new_page(), "light", traits={}, still=False)
        view = shown.view()
        for sent in tape:
            if sent.method == "custom":
                floats = [
                    number for part in sent.buffers for number in np.frombuffer(part, np.float32).tolist()
                ]
                shown.receive(sent.content, floats)
            else:
                shown.change(**{name: state for name, state in sent.content.items() if name[0] != "_"})
        header = view.locator("header")
        expect(header).to_contain_text("Connected")
        expect(header).to_contain_text("Sven")
        expect(header).to_contain_text("tcp")
        view.get_by_role("tab", name="Requests").click()
        expect(view.get_by_role("tabpanel")).to_contain_text("approved")
        view.get_by_role("tab", name="Transfers").click()
        expect(view.get_by_role("tabpanel")).to_contain_text("zeros")
        expect(view.get_by_role("tabpanel")).to_contain_text("8 MB")
        view.get_by_role("tab", name="Throughput").click()
        expect(view.get_by_role("radio", name="Manual")).to_be_checked()
        expect(view.get_by_label("tensor", exact=True)).to_have_value("zstd")
        expect(view.get_by_role("tabpanel")).to_contain_text("What the tuners decided")
        expect(view.get_by_role("table").last).to_contain_text("zeros")
        assert shown.complaints == []
