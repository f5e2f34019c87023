"""The kernel's half of what the panel holds for who asks, with real duets and a recorded comm."""

from __future__ import annotations

import numpy as np
import pytest

from duetlink.errors import RequestDenied, RequestWithdrawn
from tests.conftest import DuetPair
from tests.widgets.conftest import ShowPanel


def test_own_requests_are_told_from_asking_to_their_end(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(scientist)
    owner.share(np.arange(3), "x")
    owner.share(np.arange(4.0), "ages", mock=np.zeros(4))
    denied = scientist.wait_object("x", 10).request("for the mean")
    row = page.trait("asked", lambda asked: asked["pending"] == 1)["rows"][0]
    assert (row["name"], row["reason"], row["answered_s"]) == ("x", "for the mean", None)
    page.trait("asked", lambda asked: asked["rows"][0]["state"] == "pending")
    owner.wait_request(10).deny("names are in it")
    with pytest.raises(RequestDenied):
        denied.result(10)
    row = page.trait("asked", lambda asked: asked["pending"] == 0)["rows"][0]
    assert (row["state"], row["answer_reason"]) == ("denied", "names are in it")
    assert page.wait("answered").content == {
        "kind": "answered", "who": "Olga", "what": "x", "answer": "denied", "why": "names are in it",
    }  # fmt: skip

    # a result is called by the line that made it, as its owner sees it
    mean = scientist.wait_object("ages", 10).mean().request()
    owner.wait_request(60)  # the owner's worker begins
    asked = page.trait("asked", lambda asked: asked["rows"][0]["name"] == "ages.mean()")
    assert (asked["total"], asked["rows"][0]["state"]) == (2, "pending")
    assert page.command("withdraw", number=1)["ok"]
    with pytest.raises(RequestWithdrawn):
        mean.result(10)
    page.trait("asked", lambda asked: asked["rows"][0]["state"] == "withdrawn")
    assert [request.state for request in scientist.asked] == ["denied", "withdrawn"]
    assert "names are in it" in repr(scientist.asked)
    gone = page.command("withdraw", number=7)
    assert gone["error"] == "request 7 of this side is not kept any more; duet.asked has the latest"


def test_what_is_shared_is_told_and_its_mock_on_demand_only(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(scientist)
    owner.share(np.arange(4.0), "ages", description="in years", mock=np.array([1.0, 2.0, 3.0, 4.0]))
    owner.share(np.arange(3), "x")
    owner.send([1, 2], "given")
    scientist.share(np.zeros(2), "mine")
    shared = page.trait("shared", lambda shared: shared["total"] == 4)["rows"]
    assert [(row["name"], row["whose"], row["look"]) for row in shared] == [
        ("mine", "mine", False), ("ages", "peer", True), ("x", "peer", False), ("given", "received", True),
    ]  # fmt: skip
    assert (shared[1]["description"], shared[1]["detail"]) == ("in years", "float64 (4,)")
    assert page.command("shared_detail", name="ages", whose="peer")["result"] == "array([1., 2., 3., 4.])"
    assert page.command("shared_detail", name="given", whose="received")["result"] == "[1, 2]"
    assert owner.requests.pending == []
    owner.store["x"].unshare()
    page.trait("shared", lambda shared: shared["total"] == 3)
