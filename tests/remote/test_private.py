"""Private statistics through two notebooks: what they cost, and what may not be made."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from duetlink import Budget, Mock, Policy, errors
from duetlink.compute.privacy.ledger import Ledger
from duetlink.compute.privacy.statistic import PrivateStatistic
from duetlink.settings import Settings
from tests.conftest import MakeDuets
from tests.remote.conftest import Bench

ROWS = 4000


@pytest.fixture(scope="module")
def real() -> pd.DataFrame:
    random = np.random.default_rng(7)
    return pd.DataFrame(
        {"age": random.integers(18, 90, ROWS), "town": random.choice(["Ulm", "Bonn"], ROWS, p=[0.25, 0.75])}
    )


def share(bench: Bench, real: pd.DataFrame, name: str, epsilon: float) -> Any:
    bench.owner.share(
        real,
        name,
        mock=Mock(bounds={"age": (18, 90)}, categories={"town": ["Ulm", "Bonn"]}),
        budget=Budget(epsilon, bounds={"age": (0, 100)}),
    )
    return bench.scientist.wait_object(name, 10)


@pytest.fixture
def people(bench: Bench, real: pd.DataFrame) -> Any:
    if "people" not in bench.owner.store:
        return share(bench, real, "people", 100)
    return bench.scientist.wait_object("people", 10)


def test_every_statistic_is_near_what_it_hides(people: Any, real: pd.DataFrame) -> None:
    age = people["age"]
    asked = {
        "mean": (age.mean().dp(epsilon=5), real.age.mean()),
        "sum": (age.sum().dp(epsilon=5), real.age.sum()),
        "count": (age[age > 40].count().dp(epsilon=5), (real.age > 40).sum()),
        "var": (age.var().dp(epsilon=5), real.age.var()),
        "numpy": (np.mean(age).dp(epsilon=5), real.age.mean()),
    }
    for name, (statistic, truth) in asked.items():
        assert isinstance(statistic, PrivateStatistic), name
        assert abs(float(statistic) - truth) <= 5 * statistic.accuracy_95 + 1, name
        assert float(statistic) != truth or name == "count", name
    median = age.quantile(0.5).dp(epsilon=5)
    assert abs(float(median) - real.age.median()) <= 5
    towns = people["town"].value_counts().dp(epsilon=5, categories=["Ulm", "Bonn"])
    np.testing.assert_allclose(
        towns.value, [(real.town == "Ulm").sum(), (real.town == "Bonn").sum()], atol=20
    )


def test_a_budget_is_charged_and_never_overspent(bench: Bench, real: pd.DataFrame) -> None:
    once = share(bench, real, "once", 1)
    assert once.budget == "epsilon 1, 1 left"
    once.age.mean().dp(epsilon=0.7)
    assert bench.owner.store["once"].budget == "epsilon 1, 0.3 left"
    with pytest.raises(errors.BudgetExceeded, match=r"asks for epsilon 0\.4, and 0\.3 is left of the 1"):
        once.age.mean().dp(epsilon=0.4)
    once.age.mean().dp(epsilon=0.3)
    with pytest.raises(errors.BudgetExceeded):
        once.age.count().dp(epsilon=0.000001)
    assert bench.scientist.store["once"].budget == "epsilon 1, 0 left"


def test_many_at_once_spend_what_there_is(bench: Bench, real: pd.DataFrame) -> None:
    many = share(bench, real, "many", 1)
    column = many["age"]
    statistics = [column.mean() for _ in range(20)]

    def ask(statistic: Any) -> bool:
        try:
            statistic.dp(epsilon=0.1)
        except errors.BudgetExceeded:
            return False
        return True

    with ThreadPoolExecutor(20) as pool:
        assert sum(pool.map(ask, statistics)) == 10


def test_sharing_again_gives_nothing_back(bench: Bench, real: pd.DataFrame) -> None:
    share(bench, real, "again", 1).age.mean().dp(epsilon=0.9)
    again = share(bench, real.head(100), "again", 1)
    assert again.budget == "epsilon 1, 0.1 left"


REFUSED = {
    "a row made from others": lambda d: d.age.cumsum().mean(),
    "an aggregate inside": lambda d: (d.age - d.age.mean()).sum(),
    "sorted": lambda d: d.age.sort_values().mean(),
    "by position": lambda d: d.age.iloc[:1].mean(),
    "one row alone": lambda d: d.age.head(1).mean(),
    "twice": lambda d: d.age.repeat(2).sum(),
    "no statistic": lambda d: d.age.max(),
    "a group": lambda d: d.groupby("town").age.mean(),
    "a whole frame": lambda d: d[["age"]].mean(),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_one_person_could_change_without_noise_is_refused(people: Any, name: str) -> None:
    left = people.budget
    with pytest.raises(errors.OperationRefused):
        REFUSED[name](people).dp(epsilon=0.1)
    assert people.budget == left


def test_what_was_written_in_between_does_not_count(bench: Bench, people: Any, real: pd.DataFrame) -> None:
    column = people["age"]
    own = column.to_numpy().copy()
    own[:] = 0
    statistic = column.mean().dp(epsilon=5)
    assert abs(float(statistic) - real.age.mean()) < 5


def test_an_asset_without_a_budget_gives_no_statistics(bench: Bench) -> None:
    bare = bench.share(np.arange(10.0), "no budget")
    with pytest.raises(errors.OperationRefused):
        bare.mean().dp(epsilon=0.1)


def test_it_is_answered_by_the_budget_and_put_down(bench: Bench, people: Any) -> None:
    before = len(bench.owner.requests)
    people["age"].mean().dp(epsilon=0.25, reason="table 1")
    request = bench.owner.requests[before]
    assert (request.state, request.by, request.reason) == ("approved", "budget", "table 1")
    assert str(request.code) == 'people["age"].mean().dp(epsilon=0.25)  # private mean, epsilon 0.25'
    assert request.asset.name == 'people["age"].mean().dp(epsilon=0.25)'
    entries = [entry for entry in bench.owner.audit if entry.request == request.number]
    assert sorted(entry.kind for entry in entries) == ["answer", "release", "request", "run", "run"]
    assert [entry.state for entry in entries if entry.kind == "run"] == ["begun", "complete"]
    assert "epsilon 0.25" in entries[-1].lineage


def test_a_policy_for_a_private_statistic_lets_no_exact_one_out(bench: Bench, people: Any) -> None:
    exact = people["age"].mean()
    exact.dp(epsilon=0.5)
    (statistic,) = [request for request in bench.owner.requests if request.state == "approved"][-1:]
    assert statistic.lineage is not None
    bench.owner.policies.add(Policy("approve", name="the noisy mean", code=(statistic.lineage.digest,)))
    bench.answer = lambda request: request.deny("exact")
    try:
        with pytest.raises(errors.RequestDenied, match="exact"):
            exact.get(reason="the same steps")
    finally:
        bench.owner.policies.clear()


def test_what_was_spent_is_known_to_the_next_kernel(make_duets: MakeDuets, tmp_path: Path) -> None:
    ledger = tmp_path / "spent.jsonl"
    owner, scientist = make_duets(budget_path=str(ledger))
    owner.share(np.arange(100.0), "x", mock=np.zeros(100), budget=Budget(2, bounds=(0, 100)))
    scientist.wait_object("x", 10).mean().dp(epsilon=1.5)
    total = Ledger(ledger).total("x")
    assert total is not None
    assert Ledger(ledger).left("x") == total - Ledger(ledger).spent("x")
    assert str(Ledger(ledger).spent("x")) == "1.5"
    assert Settings(budget_path=str(ledger)).budget_file == ledger


@pytest.mark.parametrize(
    "wrong",
    [
        {"epsilon": -1},
        {"epsilon": "much"},
        {"epsilon": 1, "rows_per_person": 0},
        {"epsilon": 1, "bounds": (5, 1)},
    ],
)
def test_a_budget_that_cannot_be_used(bench: Bench, wrong: dict[str, Any]) -> None:
    with pytest.raises(errors.SettingError):
        bench.owner.share(np.arange(3.0), "wrong", mock=np.zeros(3), budget=Budget(**wrong))
