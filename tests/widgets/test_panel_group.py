"""The kernel's half of a group's panel, with a real group and a recorded comm."""

from __future__ import annotations

import json
import threading

import numpy as np

from duetlink_widgets.contract import SCHEMA, TRAIT_LIMIT_BYTES
from tests.groups.conftest import MakeGroup, make_group, until
from tests.widgets.conftest import ShowPanel

__all__ = ["make_group"]


def test_a_group_is_told_with_its_links_what_runs_and_whom_it_waits_for(
    make_group: MakeGroup,
    show: ShowPanel,
) -> None:
    groups = make_group(3)
    page = show(groups[0])
    assert page.panel is not None
    assert page.panel.kind == "group"
    page.say(kind="hello", schema=SCHEMA)
    code = page.wait("code").content
    assert code["line"] == f"group = duetlink.group('{groups[0].code}')"
    state = page.trait("group", lambda group: group["state"] == "ready")
    assert (state["epoch"], state["rank"], state["size"]) == (1, 0, 3)
    assert state["verifier"] == groups[0].verifier
    assert [(member["rank"], member["name"], member["state"]) for member in state["members"]] == [
        (0, "member 0", "this member"), (1, "member 1", "connected"), (2, "member 2", "connected"),
    ]  # fmt: skip
    assert {(link["of"], link["to"]) for link in state["links"] if link["now"]} == {
        (0, 1), (0, 2), (1, 0), (2, 0),
    }  # fmt: skip

    # two of three call an operation: the panel says which, and whom it waits for
    results: list[float] = []
    callers = [
        threading.Thread(target=lambda group=group: results.append(group.all_reduce(np.ones(4))[0]))
        for group in groups[:2]
    ]
    for caller in callers:
        caller.start()
    until(lambda: groups[0].status().members[2].waited_s > 0.2)
    page.say(kind="poll")
    tick = page.wait("group_tick", lambda tick: tick["operation"] is not None).content
    assert tick["operation"]["call"].startswith("all_reduce at test_panel_group.py:")
    assert tick["operation"]["waiting_for"] == [2]
    assert tick["waited_s"][2] > 0.1
    results.append(groups[2].all_reduce(np.ones(4))[0])
    for caller in callers:
        caller.join()
    assert results == [3.0, 3.0, 3.0]

    sums = [
        threading.Thread(target=group.all_reduce, args=(np.ones(4),), kwargs={"codec": "union"})
        for group in groups
    ]
    for adder in sums:
        adder.start()
    for adder in sums:
        adder.join()
    until(lambda: groups[0].status().sum is not None)
    page.say(kind="visible", page="a", on=True)
    summed = page.trait("group", lambda group: group["sum"] is not None)["sum"]
    assert (summed["codec"], summed["way"], summed["density"]) == ("union", "dense", 1.0)
    assert summed["text"].startswith("float64[4] among 3 members, codec union: dense")

    groups[1].close("lunch")
    page.trait("group", lambda group: group["size"] == 2)
    (gone,) = page.trait("group", lambda group: "lunch" in str(group["gone"]))["gone"]
    assert (gone["rank"], gone["name"], gone["how"]) == (1, "member 1", "left")
    text = json.dumps({"group": page.panel.group, "shown": page.panel._repr_mimebundle_()})
    assert str(groups[0].code) not in text
    assert len(json.dumps(page.panel.group)) < TRAIT_LIMIT_BYTES
    assert page.command("leave")["ok"]
    closed = page.trait("group", lambda group: group["state"] == "closed")
    assert closed["why"] == "this side closed the group"
    unknown = page.command("approve", number=1)
    assert unknown["error"].startswith("the panel knows no command 'approve'")
