"""The kernel's half of what the panel says of who did something, with real duets and a recorded comm."""

from __future__ import annotations

import time

from duetlink import Policy
from tests.conftest import DuetPair
from tests.widgets.conftest import ShowPanel


def test_a_change_of_compression_has_who_made_it_and_what_is_new(duets: DuetPair, show: ShowPanel) -> None:
    """From either side, the one that puts changes in order and the other one."""
    owner, scientist = duets
    mine, theirs = show(owner), show(scientist)
    assert mine.trait("tuning")["changed_by"] is None
    began_s = time.time()
    for page, other, author in ((theirs, mine, "Sven"), (mine, theirs, "Olga")):
        assert page.command("set_compression", mode="manual", codec={"tensor": "raw"})["ok"]
        words = "mode: manual, tensor: raw"
        seen = other.trait("tuning", lambda tuning: tuning["changed_by"] == author)  # noqa: B023
        assert seen["changed_words"] == words
        assert began_s <= seen["changed_s"] <= time.time()
        own = page.trait("tuning", lambda tuning: tuning["changed_by"] == "you")
        assert own["changed_words"] == words
        assert page.command("set_compression", mode="auto", codec={"tensor": "auto"})["ok"]
    scientist.compression.rate_cap_bytes_per_s = 12e6
    seen = mine.trait("tuning", lambda tuning: tuning["changed_by"] == "Sven")
    assert seen["changed_words"] == "rate cap: 12 MB/s"
    owner.compression.undo()
    seen = theirs.trait("tuning", lambda tuning: tuning["changed_by"] == "Olga")
    assert seen["changed_words"] == "no rate cap"
    assert "Olga set no rate cap, " in repr(scientist.compression)
    assert "you set no rate cap, " in repr(owner.compression)


def test_what_this_side_did_is_its_own_in_the_log(duets: DuetPair, show: ShowPanel) -> None:
    owner, scientist = duets
    page = show(owner)
    owner.share([1], "x")
    owner.policies.add(Policy("deny", name="no"))
    scientist.wait_object("x", 10).request("why not")
    page.trait("requests", lambda requests: requests["total"] == 1)
    rows = page.command("audit", text="", kind="")["result"]["rows"]
    who = {row["kind"]: row["peer"] for row in rows}
    assert (who["share"], who["policy"], who["request"], who["opened"]) == ("you", "you", "Sven", "you")
