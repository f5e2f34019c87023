"""Functions that train privately: what they claim is shown, charged before they run, and held against what
they have really cost.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Budget, errors
from duetlink.compute.privacy import meter
from duetlink.compute.privacy.claim import Claim
from duetlink.compute.worker.room.job import check_claim
from duetlink.duet.answering.requests import Request
from duetlink.duet.duet import Duet
from duetlink.learning.dp.accounting import Spending
from duetlink.testing.faults import life_of, run_inside
from tests.conftest import MakeDuets
from tests.duet.test_duet import until

Pair = tuple[Duet, Duet]


def table(seed: int = 1) -> pd.DataFrame:
    draws = np.random.default_rng(seed)
    x = draws.normal(size=200)
    return pd.DataFrame({"x": x, "y": (x > 0).astype(float)})


@pytest.fixture
def pair(make_duets: MakeDuets, tmp_path: Path) -> Pair:
    owner, scientist = make_duets(budget_path=str(tmp_path / "budgets"))
    owner.share(table(), "people", mock=table(2).head(20), budget=Budget(3))
    until(lambda: "people" in scientist.store)
    return owner, scientist


def train(people: Any, noise: float) -> Any:
    import torch

    from duetlink.learning import DpSgd

    model = torch.nn.Linear(1, 1)
    rows = torch.tensor(people[["x"]].to_numpy(), dtype=torch.float32)
    labels = torch.tensor(people["y"].to_numpy(), dtype=torch.float32)

    def loss(outputs, targets):
        return torch.nn.functional.binary_cross_entropy_with_logits(
            outputs.squeeze(1), targets, reduction="none"
        )

    training = DpSgd(
        model, torch.optim.SGD(model.parameters(), lr=2.0), loss, rows=200, batch=40, clip=1.0, noise=noise
    )
    training.fit(rows, labels, epochs=2)
    return float(model.weight.detach())


def ask(pair: Pair, noise: float, dp: tuple[float, float]) -> tuple[Any, Request]:
    owner, scientist = pair
    count = len(owner.requests)
    pending = scientist.remote(train)(scientist.store["people"], noise).submit("to train", dp=dp)
    until(lambda: len(owner.requests) > count or pending.state == "failed")
    if pending.state == "failed":
        pending.result(1)
    return pending, owner.requests[count]


def test_a_private_training_is_charged_before_it_runs_and_its_model_leaves(pair: Pair) -> None:
    owner, scientist = pair
    pending, request = ask(pair, 4.0, (2.0, 1e-4))
    assert request.privacy == "epsilon 2 at delta 0.0001"
    assert "# it trains privately: epsilon 2 at delta 0.0001, charged to the budget of 'people'" in str(
        request.code
    )
    assert owner.store["people"].budget == "epsilon 3, 3 left"
    assert [str(charge) for charge in request.charges] == ["epsilon 3 is left for 'people', 1 after it"]
    assert request.refusal == ""
    request.approve()
    assert request.charges == ()
    assert pending.result(30) > 0.0  # it has learnt the sign
    assert owner.store["people"].budget == "epsilon 3, 1 left"
    until(lambda: scientist.store["people"].budget == "epsilon 3, 1 left")
    begun = next(entry for entry in owner.audit.filter(kind="run") if entry.state == "begun")
    assert begun.reason == "private: epsilon 2 at delta 0.0001"

    # less is left now than the next one claims
    pending, request = ask(pair, 4.0, (2.0, 1e-4))
    assert request.refusal.startswith("the function claims epsilon 2 at delta 0.0001, and epsilon 1 is left")
    with pytest.raises(errors.BudgetExceeded, match="epsilon 1 is left for 'people'"):
        request.approve()
    assert request.state == "pending"
    assert owner.store["people"].budget == "epsilon 3, 1 left"
    request.deny("ask for less")


def test_who_allowed_a_function_has_not_allowed_it_at_another_cost(pair: Pair) -> None:
    digests = set()
    for dp in ((0.5, 1e-4), (1.0, 1e-4), (0.5, 1e-3)):
        _, request = ask(pair, 4.0, dp)
        digests.add(request.like_this().code)
        request.deny("")
    assert len(digests) == 3


def test_a_budget_pays_for_delta_as_well(pair: Pair) -> None:
    owner, _ = pair
    # with a delta of 0.9 a function may return all rows, and claim next to no epsilon
    _, request = ask(pair, 4.0, (0.001, 0.9))
    words = (
        "the function claims epsilon 0.001 at delta 0.9, and epsilon 3 is left for 'people' (its delta costs "
        "epsilon 540): deny it, or share the asset with a larger budget"
    )
    assert request.refusal == words
    with pytest.raises(errors.BudgetExceeded, match="its delta costs epsilon 540"):
        request.approve()
    request.deny("")
    # a fifth of 1 over the 200 rows takes a fifth of the budget
    _, request = ask(pair, 4.0, (0.001, 1e-3))
    (charge,) = request.charges
    assert str(charge) == "epsilon 3 is left for 'people', 2.4 after it (its delta costs epsilon 0.6)"
    run_inside(owner, life_of(owner).programs.charge((("people", 1),), Claim(0.001, 1e-3), "a key"))
    assert owner.store["people"].budget == "epsilon 3, 2.4 left"


def test_an_asset_without_a_budget_cannot_pay(pair: Pair) -> None:
    owner, scientist = pair
    owner.share(table(), "bare", mock=table(2).head(20))
    owner.share(table(), "thrice", mock=table(2).head(20), budget=Budget(3, rows_per_person=3))
    for name, words in (("bare", "no privacy budget"), ("thrice", "a person may have 3 rows")):
        scientist.wait_object(name, 20)
        with pytest.raises(errors.OperationRefused, match=words):
            scientist.remote(train)(scientist.store[name], 4.0).get(dp=(1.0, 1e-4), timeout_s=20)
    with pytest.raises(errors.SettingError, match="delta is 2"):
        scientist.remote(train)(scientist.store["people"], 4.0).submit(dp=(1.0, 2.0))
    with pytest.raises(errors.SettingError, match="at most 30 digits"):  # no ledger can hold it
        Claim(1e-40, 1e-4)


def test_nothing_leaves_of_what_costs_more_than_it_claims_or_is_not_private() -> None:
    claim = Claim(0.75, 1e-4)
    with meter.counted() as counted, pytest.raises(errors.BudgetExceeded, match="has made no DpSgd"):
        check_claim(claim, counted)
    with meter.counted() as counted:
        train(table(), 4.0)
        check_claim(claim, counted)
        train(table(), 4.0)
        once, twice = Spending(0.2, 4.0, 10).epsilon(0.5e-4), counted.epsilon(1e-4)
        assert twice == pytest.approx(2 * once)  # two at half of delta each
    with meter.counted() as counted:
        train(table(), 0.5)
        with pytest.raises(errors.BudgetExceeded, match=r"have cost an epsilon of .* it claims epsilon 0.75"):
            check_claim(claim, counted)
    train(table(), 4.0)  # nobody counts
    assert counted.epsilon(1e-4) > 0.75


def test_a_training_on_pointers_is_written_charged_and_gets_rows_of_their_own(pair: Pair) -> None:
    import torch

    from duetlink.learning import DpSgd

    owner, scientist = pair
    model = torch.nn.Sequential(torch.nn.Linear(1, 1), torch.nn.Flatten(0))
    training = DpSgd(
        model,
        torch.optim.SGD(model.parameters(), lr=2.0),
        torch.nn.BCEWithLogitsLoss(reduction="none"),
        rows=200,
        batch=40,
        clip=1.0,
        noise=4.0,
    )
    before = {name: weight.clone() for name, weight in model.state_dict().items()}
    people = scientist.store["people"]
    inner = people[people.x < 2.5]

    # the account is of one row: what mixes rows, or has others than the targets, is no input
    for x, y, words in (
        (people[["x"]] - people[["x"]].mean(), people.y, "row by row, which .* is not: step"),
        (inner[["x"]], people.y, "all inputs .* have the same rows of 'people'"),
        (
            inner[["x"]],
            people[people.x < 2.4].y,
            "all inputs .* have the same rows of 'people'",
        ),
    ):
        with pytest.raises(errors.OperationRefused, match=words):
            scientist.remote(training).fit(x, y).submit(dp=(2.0, 1e-4)).result(30)
    assert len(owner.requests) == 0

    call = scientist.remote(training).fit(inner[["x"]], inner.y, epochs=2)
    assert set(call.mock) == {"0.weight", "0.bias"}
    pending = call.submit("a first model", dp=(2.0, 1e-4))
    until(lambda: len(owner.requests) == 1)
    (request,) = owner.requests
    assert "rows=200, batch=40, clip=1.0, noise=4.0" in str(request.code)
    assert [str(charge) for charge in request.charges] == ["epsilon 3 is left for 'people', 1 after it"]
    request.approve()
    state = pending.result(30)
    assert state["0.weight"].item() > before["0.weight"].item()  # it has learnt the sign
    assert owner.store["people"].budget == "epsilon 3, 1 left"
    assert all(torch.equal(weight, before[name]) for name, weight in model.state_dict().items())
    model.load_state_dict(state)
