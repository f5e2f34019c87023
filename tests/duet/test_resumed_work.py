"""`launch(resume=…)` and what has to be run: a request that waits is there again, and is run again."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Budget, Policy, errors
from duetlink.duet.answering.programs import Programs
from duetlink.duet.duet import Duet
from duetlink.testing.faults import life_of
from tests.duet.conftest import Join, Launch
from tests.duet.test_duet import pointer, until

AGES = np.arange(10.0)


def begun(launch: Launch, join: Join, **fields: Any) -> tuple[Duet, Duet]:
    owner = launch(**fields)
    owner.share(AGES, "ages", mock=np.ones(3), tags=["raw"])
    return owner, join(owner)


def files(states: Path) -> list[str]:
    return sorted(path.name for path in (states / "clinic" / "work").glob("*"))


def above(numbers: Any, low: Any, more: Any) -> float:
    return float(numbers[numbers >= low].sum() + sum(more))


# -- programs ----------------------------------------------------------------------------------------------


def test_a_program_that_waits_is_there_again_and_is_joined_by_who_asks_again(
    launch: Launch, join: Join, states: Path
) -> None:
    owner, scientist = begun(launch, join)
    (pointer(scientist, "ages") + 1).request("the sum")
    before = owner.wait_request(60)
    until(lambda: before.preview().startswith("array"))

    owner = launch()
    (request,) = owner.requests
    assert (request.number, request.state, request.reason, request.peer) == (0, "pending", "the sum", "Sven")
    assert request.asset.lineage is not None
    assert (str(request.code), request.asset.lineage.digest) == (
        str(before.code),
        before.asset.lineage.digest,  # type: ignore[union-attr]
    )
    assert (request.asset.name, request.asset.tags, request.asset.kind) == ("ages + 1", ("raw",), "")
    assert request.preview() == "not known: run() makes it here, and only here"
    for answer in (request.run, request.approve):
        with pytest.raises(errors.AssetNotFound, match=r"'ages' has no content, .* share the object again"):
            answer()
    owner.share(AGES, "ages", mock=np.ones(3), tags=["raw"])
    asked = (pointer(join(owner), "ages") + 1).request("the sum")
    until(lambda: request.preview().startswith("array"))
    assert (len(owner.requests), request.times) == (1, 2)
    request.approve()
    assert list(asked.result(60)) == list(AGES + 1)
    until(lambda: files(states) == [])
    assert [(entry.kind, entry.state) for entry in owner.audit.filter(kind=("answer", "release"))] == [
        ("answer", "approved"),
        ("release", "complete"),
    ]


def test_a_person_may_run_it_and_say_yes_while_nobody_is_there(launch: Launch, join: Join) -> None:
    owner, scientist = begun(launch, join)
    (pointer(scientist, "ages") * 2).request()
    owner.wait_request(60)

    owner = launch()
    owner.share(AGES, "ages", mock=np.ones(3))
    (request,) = owner.requests
    request.run()
    assert "18." in request.preview()
    request.approve()
    assert (request.state, request.by) == ("approved", "person")
    doubled = pointer(join(owner), "ages") * 2
    assert list(doubled.get(timeout_s=60)) == list(AGES * 2)
    assert len(owner.requests.pending) == 0


def test_a_policy_answers_it_where_somebody_asks_again(launch: Launch, join: Join) -> None:
    owner, scientist = begun(launch, join)
    pointer(scientist, "ages").mean().request()
    owner.wait_request(60)
    owner = launch()
    owner.policies.add(Policy("approve", name="means", operations="mean", count=1))
    owner.share(AGES, "ages", mock=np.ones(3))
    assert owner.requests[0].state == "pending"
    assert pointer(join(owner), "ages").mean().get(timeout_s=60) == 4.5
    assert [(request.number, request.by) for request in owner.requests] == [(0, "policy means")]
    assert owner.policies.usage("means") == "1 time, 1 element"


def test_what_is_made_of_another_content_is_denied(launch: Launch, join: Join, states: Path) -> None:
    owner, scientist = begun(launch, join)
    (pointer(scientist, "ages") + 1).request()
    owner.wait_request(60)
    owner = launch()
    owner.share(AGES + 1, "ages", mock=np.ones(3))
    (request,) = owner.requests
    assert request.state == "denied"
    assert "shared again with another content" in request.answer_reason
    until(lambda: files(states) == [])


def test_a_check_is_still_a_check(launch: Launch, join: Join) -> None:
    owner, scientist = begun(launch, join)
    with ThreadPoolExecutor(1) as at_once:
        asked = at_once.submit(lambda: scientist.check(pointer(scientist, "ages") + 1))
        before = owner.wait_request(60)
        owner.close()
        with pytest.raises(errors.LinkClosed):
            asked.result(60)
    owner = launch()
    owner.share(AGES, "ages", mock=np.ones(3))
    (request,) = owner.requests
    assert str(request.code) == str(before.code)
    request.run()
    assert request.preview() == "True"


# -- functions ---------------------------------------------------------------------------------------------


def test_a_function_that_waits_is_there_again_with_all_that_it_gets(
    launch: Launch, join: Join, states: Path
) -> None:
    def submit(scientist: Duet) -> Any:
        ages = pointer(scientist, "ages")
        return scientist.remote(above)(ages + 1, 3, [np.float64(0.5), 2]).submit("why")

    owner, scientist = begun(launch, join)
    submit(scientist)
    before = owner.wait_request(60)

    owner = launch()
    (request,) = owner.requests
    assert (request.state, request.function, request.mock_result) == (
        "pending",
        "above",
        before.mock_result,
    )
    assert str(request.code) == str(before.code)
    owner.share(AGES, "ages", mock=np.ones(3))
    asked = submit(join(owner))
    until(lambda: request.times == 2)
    assert len(owner.requests) == 1
    request.approve()
    assert asked.result(60) == 54.5
    until(lambda: files(states) == [])


def test_an_input_that_is_shared_again_is_held_for_it(launch: Launch, join: Join) -> None:
    owner, scientist = begun(launch, join)
    scientist.remote(np_sum)(pointer(scientist, "ages")).submit()
    owner.wait_request(60)
    owner = launch()
    owner.share(AGES, "ages", mock=np.ones(3))
    (held,) = (held for held in owner.status().held if held.title == "ages, revision 1")
    assert "a function that waits gets it" in held.reasons
    owner.requests[0].run()
    assert "45" in owner.requests[0].preview()


def np_sum(numbers: Any) -> float:
    return float(numbers.sum())


# -- what is damaged, and what is charged ------------------------------------------------------------------


@pytest.mark.parametrize("damage", [lambda path: path.unlink(), lambda path: path.write_bytes(b"none")])
def test_what_cannot_be_run_again_is_withdrawn_and_said_so(
    launch: Launch, join: Join, states: Path, damage: Any
) -> None:
    owner, scientist = begun(launch, join)
    (pointer(scientist, "ages") + 1).request()
    owner.wait_request(60)
    owner.close()
    damage(states / "clinic" / "work" / "0")
    owner = launch()
    (request,) = owner.requests
    assert (request.state, request.answer_reason) == ("withdrawn", "its kernel has ended")
    assert "ages + 1" in str(request.code)
    assert [entry.peer for entry in owner.audit.filter(kind="withdrawn")] == ["Sven"]
    assert launch().requests[0].state == "withdrawn"


def test_a_private_statistic_that_was_paid_is_not_paid_again(
    launch: Launch, join: Join, monkeypatch: pytest.MonkeyPatch
) -> None:
    people = pd.DataFrame({"age": np.arange(100.0)})
    budget = Budget(10, bounds={"age": (0, 100)})

    async def never(*arguments: Any, **named: Any) -> None:
        await asyncio.Event().wait()

    owner = launch()
    owner.share(people, "people", mock="auto", budget=budget)
    scientist = join(owner)
    with monkeypatch.context() as patch, ThreadPoolExecutor(1) as at_once:
        patch.setattr(Programs, "run", never)
        asked = at_once.submit(lambda: pointer(scientist, "people")["age"].mean().dp(epsilon=2))
        until(lambda: [request.state for request in owner.requests] == ["running"])
        owner.close()
        with pytest.raises(errors.LinkClosed):
            asked.result(60)

    owner = launch()
    assert life_of(owner).ledger.spent("people") == 2
    assert "private mean" in str(owner.requests[0].code)
    with pytest.raises(errors.AssetNotFound, match="share the object again"):
        owner.requests[0].run()
    owner.share(people, "people", mock="auto", budget=budget)
    column = pointer(join(owner), "people")["age"]
    assert abs(column.mean().dp(epsilon=2, reason="again", timeout_s=60).value - 49.5) < 20
    assert [(request.state, request.by, request.times) for request in owner.requests] == [
        ("approved", "budget", 2)
    ]
    assert life_of(owner).ledger.spent("people") == 2
    column.mean().dp(epsilon=2, timeout_s=60)
    assert life_of(owner).ledger.spent("people") == 4


def test_a_function_that_was_paid_is_not_paid_again(launch: Launch, join: Join) -> None:
    def share(owner: Duet) -> None:
        owner.share(np.arange(100.0), "ages", mock=np.ones(3), budget=Budget(10))

    owner = launch()
    share(owner)
    scientist = join(owner)
    scientist.remote(np_sum)(pointer(scientist, "ages")).submit(dp=(1.0, 1e-5))
    request = owner.wait_request(60)
    assert [charge.asset for charge in request.charges] == ["ages"]
    with pytest.raises(errors.OperationFailed, match="has made no DpSgd"):
        request.run()
    spent = life_of(owner).ledger.spent("ages")
    assert spent >= 1

    owner = launch()
    share(owner)
    (request,) = owner.requests
    assert (request.privacy, request.charges) == ("epsilon 1 at delta 1e-05", ())
    with pytest.raises(errors.OperationFailed, match="has made no DpSgd"):
        request.run()
    assert life_of(owner).ledger.spent("ages") == spent
