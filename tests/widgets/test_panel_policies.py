"""The kernel's half of policies and of the audit log in the panel."""

from __future__ import annotations

import csv
import datetime
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import duetlink
from duetlink import Policy
from tests.conftest import DuetPair, MakeDuets
from tests.widgets.conftest import ShowPanel
from tests.widgets.recording import Recording


def asked(duets: DuetPair, page: Recording, name: str = "scans") -> tuple[Any, dict[str, Any]]:
    """Sven asks for an object of three numbers: the asset's future value, and the row of the panel."""
    owner, scientist = duets
    owner.share(np.arange(3), name, tags=["pilot"])
    answer = scientist.wait_object(name, 10).request("for the mean")
    row = page.trait("requests", lambda requests: any(row["name"] == name for row in requests["rows"]))
    return answer, next(one for one in row["rows"] if one["name"] == name)


def entries(page: Recording, text: str = "", kind: str = "") -> list[dict[str, Any]]:
    ack = page.command("audit", text=text, kind=kind)
    assert ack["ok"], ack["error"]
    rows: list[dict[str, Any]] = ack["result"]["rows"]
    return rows


# -- policies ----------------------------------------------------------------------------------------------


def test_a_policy_like_a_request_is_drafted_and_nothing_happens_yet(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    _, row = asked(duets, page)
    ack = page.command("policy_like", number=row["number"], count=3)
    draft = ack["result"]
    assert (draft["name"], draft["count"]) == ("like request 0", 3)
    for words in ("assets scans", "tags pilot", "peers Sven", "no other tags", "up to 3 elements", "3 times"):
        assert words in draft["words"]
    until = datetime.datetime.fromtimestamp(draft["until_s"])
    assert (until.hour, until.minute, until.second) == (0, 0, 0)
    assert len(duets[0].policies) == 0
    assert page.panel.requests["pending"] == 1


def test_a_policy_like_a_request_answers_it_and_is_on_the_panel(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    answer, row = asked(duets, page)
    assert page.command("add_policy_like", number=row["number"], revision=row["revision"], count=3)["ok"]
    assert answer.result(10).tolist() == [0, 1, 2]
    # the page has the effect when it has the answer
    requests = page.panel.requests
    assert (requests["rows"][0]["state"], requests["rows"][0]["by"]) == ("approved", "policy like request 0")
    (policy,) = requests["policies"]
    assert (policy["name"], policy["action"]) == ("like request 0", "approve")
    assert "3 times" in policy["words"]
    assert policy["used"] == "1 time, 3 elements"


def test_a_policy_is_added_for_the_revision_that_was_seen(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    _, row = asked(duets, page)
    stale = page.command("add_policy_like", number=row["number"], revision=2, count=3)
    assert (stale["ok"], stale["error"]) == (
        False,
        "request 0 has changed since it was shown; review it again",
    )
    assert len(duets[0].policies) == 0
    assert page.panel.requests["pending"] == 1


@pytest.mark.parametrize("count", [-1, "ten", 1.5])
def test_a_count_that_is_none_is_refused(duets: DuetPair, show: ShowPanel, count: Any) -> None:
    page = show(duets[0])
    _, row = asked(duets, page)
    for name in ("policy_like", "add_policy_like"):
        ack = page.command(name, number=row["number"], revision=row["revision"], count=count)
        assert not ack["ok"]
        assert "count must be a whole number" in ack["error"]
    assert len(duets[0].policies) == 0


def test_policies_are_on_the_panel_in_their_order_and_removed_there(duets: DuetPair, show: ShowPanel) -> None:
    owner = duets[0]
    page = show(owner)
    long = "n" * 200  # as long as a name may be: it is what removes it
    owner.policies.add(Policy("deny", name="no patients", tags=("patient",)))
    owner.policies.add(Policy("ask", name=long))
    policies = page.trait("requests", lambda requests: len(requests["policies"]) == 2)["policies"]
    assert policies == [
        {"name": "no patients", "action": "deny", "words": "tags patient", "used": ""},
        {"name": long, "action": "ask", "words": "any request", "used": ""},
    ]
    assert page.command("remove_policy", name=long)["ok"]
    assert [policy["name"] for policy in page.panel.requests["policies"]] == ["no patients"]
    again = page.command("remove_policy", name="the rest")
    assert (again["ok"], again["error"]) == (False, "there is no policy 'the rest'; there is 'no patients'")


def test_a_row_says_who_answered(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    _, row = asked(duets, page)
    assert row["by"] == ""
    page.command("deny", number=row["number"], reason="")
    assert page.panel.requests["rows"][0]["by"] == "you"


# -- the audit log -----------------------------------------------------------------------------------------


def test_the_log_is_told_newest_first_and_searched(duets: DuetPair, show: ShowPanel) -> None:
    page = show(duets[0])
    answer, row = asked(duets, page)
    page.command("approve", number=row["number"], revision=row["revision"])
    assert answer.result(10).size == 3
    rows = entries(page)
    kinds = [one["kind"] for one in rows]
    assert kinds[-2:] == ["connected", "opened"]
    assert [kind for kind in kinds if kind in ("share", "request", "answer")] == [
        "answer",
        "request",
        "share",
    ]
    assert [one["number"] for one in rows] == sorted((one["number"] for one in rows), reverse=True)
    answered = next(one for one in rows if one["kind"] == "answer")
    assert (answered["state"], answered["by"], answered["name"], answered["peer"]) == (
        "approved", "you", "scans", "Sven",
    )  # fmt: skip
    assert [one["kind"] for one in entries(page, kind="request")] == ["request"]
    assert [one["kind"] for one in entries(page, text="FOR THE Mean", kind="request")] == ["request"]
    assert entries(page, text="no such words") == []
    assert page.command("audit", text=7, kind="")["error"] == "the panel sent text 7, which is not a text"


def test_of_a_long_log_the_latest_are_told_and_how_many_there_are(duets: DuetPair, show: ShowPanel) -> None:
    owner = duets[0]
    page = show(owner)
    for number in range(105):
        owner.share([number], f"x{number}")
    found = page.command("audit", text="", kind="share")["result"]
    assert (found["total"], len(found["rows"]), found["rows"][0]["name"]) == (105, 100, "x104")
    assert found["file"] == str(owner.audit.path)


def test_the_log_is_verified_and_a_changed_one_says_where(
    duets: DuetPair, show: ShowPanel, private_audit_log: Path
) -> None:
    owner = duets[0]
    page = show(owner)
    owner.share([1], "x")
    assert page.command("verify_audit")["result"].startswith(f"{owner.audit.path}: ")
    assert "none changed, none missing" in page.command("verify_audit")["result"]
    text = private_audit_log.read_text()
    private_audit_log.write_text(text.replace('"name":"x"', '"name":"y"'))
    changed = page.command("verify_audit")
    assert not changed["ok"]
    assert "not as it was written" in changed["error"]
    assert "changed" in changed["error"]


def test_the_log_is_exported_as_lines_and_as_a_table(duets: DuetPair, show: ShowPanel) -> None:
    owner = duets[0]
    page = show(owner)
    owner.share([1], "=1+1")
    lines = page.command("export_audit", ending="jsonl")["result"]
    assert lines["name"] == "duetlink-audit.jsonl"
    assert "=1+1" in [json.loads(line).get("name") for line in lines["content"].splitlines()]
    table = page.command("export_audit", ending="csv")["result"]
    assert table["name"] == "duetlink-audit.csv"
    assert "'=1+1" in [row["name"] for row in csv.DictReader(io.StringIO(table["content"]))]
    refused = page.command("export_audit", ending="xlsx")
    assert refused["error"] == "an audit log is exported as jsonl or csv, not 'xlsx'"


def test_where_no_log_is_kept_each_command_says_so(make_duets: MakeDuets, show: ShowPanel) -> None:
    page = show(make_duets(audit_path="")[0])
    for name, args in (
        ("audit", {"text": "", "kind": ""}),
        ("verify_audit", {}),
        ("export_audit", {"ending": "csv"}),
    ):
        ack = page.command(name, **args)
        assert (ack["ok"], ack["error"]) == (
            False,
            "no audit log is kept: audit_path in the settings is empty (DUETLINK_AUDIT_PATH)",
        )


def test_the_log_can_be_looked_at_before_there_is_a_peer(show: ShowPanel) -> None:
    with duetlink.launch() as owner:
        page = show(owner)
        assert [row["kind"] for row in entries(page)] == ["opened"]
