"""The kernel's half of functions that train privately: their cost in the panel, and in its audit tab."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from duetlink import Budget
from duetlink.duet.duet import Duet
from tests.conftest import MakeDuets
from tests.widgets.conftest import ShowPanel
from tests.widgets.recording import Recording


def mean_age(ages: Any) -> float:
    return 0.0


def asked(duets: tuple[Duet, Duet], page: Recording, dp: tuple[float, float]) -> dict[str, Any]:
    """The row of a function that claims to cost that of the budget of `ages`, which is 3."""
    owner, scientist = duets
    owner.share(np.arange(30.0), "ages", mock=np.array([7.5, 8.5]), budget=Budget(3))
    ages = scientist.wait_object("ages", 10)
    scientist.remote(mean_age)(ages).submit("a first model", dp=dp)
    row: dict[str, Any] = page.trait("requests", lambda requests: requests["pending"] == 1)["rows"][0]
    return row


def test_the_panel_has_what_a_function_costs_until_it_was_charged(
    make_duets: MakeDuets, show: ShowPanel, tmp_path: Path
) -> None:
    duets = make_duets(budget_path=str(tmp_path / "budgets"))
    page = show(duets[0])
    row = asked(duets, page, (2.0, 1e-5))
    assert row["privacy"] == "epsilon 2 at delta 1e-05"
    assert row["budgets"] == "epsilon 3 is left for 'ages', 1 after it"
    assert row["refusal"] == ""

    # it is charged before it runs, and not given back when it turns out to have trained nothing
    ack = page.command("run_request", number=row["number"], revision=row["revision"])
    assert not ack["ok"]
    assert "has made no DpSgd" in ack["error"]
    (row,) = page.trait("requests")["rows"]
    assert (row["state"], row["budgets"], row["refusal"]) == ("pending", "charged when it was run", "")
    assert duets[0].store["ages"].budget == "epsilon 3, 1 left"
    entries = page.command("audit", text="private", kind="run")["result"]["rows"]
    assert [(entry["state"], entry["words"]) for entry in entries] == [
        ("begun", "private: epsilon 2 at delta 1e-05")
    ]


def test_the_panel_says_that_a_function_cannot_be_approved_which_no_budget_covers(
    make_duets: MakeDuets, show: ShowPanel, tmp_path: Path
) -> None:
    duets = make_duets(budget_path=str(tmp_path / "budgets"))
    page = show(duets[0])
    row = asked(duets, page, (3.5, 1e-5))
    words = (
        "the function claims epsilon 3.5 at delta 1e-05, and epsilon 3 is left for 'ages': deny it, or share "
        "the asset with a larger budget"
    )
    assert (row["budgets"], row["refusal"]) == ("epsilon 3 is left for 'ages'", words)
    ack = page.command("approve", number=row["number"], revision=row["revision"])
    assert (ack["ok"], ack["error"]) == (False, words)
    assert duets[0].store["ages"].budget == "epsilon 3, 3 left"
    assert page.trait("requests")["rows"][0]["state"] == "pending"

    (tmp_path / "budgets").write_text("damaged\n")
    # the panel goes on, and names no file of this side's: a trait is saved with the notebook
    duets[0].share(np.arange(2), "other")
    damaged = page.trait("requests", lambda requests: requests["rows"][0]["budgets"] == "")
    assert damaged["rows"][0]["refusal"] == (
        "the ledger of privacy budgets cannot be read; request.charges says why"
    )
