"""A private training: what is sampled, what noise is added, what it is divided by, and what it costs."""

from __future__ import annotations

import math
import subprocess
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import dp_accounting
import dp_accounting.pld
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from duetlink.base.chance.poisson import poisson_sample, poisson_samples
from duetlink.data.codecs.element import BY_NAME
from duetlink.errors import BudgetExceeded, OperationMismatch, SettingError
from duetlink.groups.secure.ranges import Range
from duetlink.learning.dp.accounting import Spending, most_steps, noise_for
from duetlink.learning.dp.keystream import Keystream
from duetlink.learning.dp.training import DpSgd
from duetlink.testing.faults import account_steps

CROSS_ENTROPY = nn.CrossEntropyLoss(reduction="none")


class Members:
    """Groups whose members are threads of this process."""

    def __init__(self, size: int) -> None:
        self._barrier = threading.Barrier(size)
        self._arrays: list[Any] = [None] * size
        self.seen: list[list[Any]] = [[] for _ in range(size)]
        self.members = [Member(self, rank, size) for rank in range(size)]

    def add(self, rank: int, array: Any, chosen: Range | None = None) -> Any:
        self.seen[rank].append(array.copy() if chosen is None else chosen.decode(array, "sum"))
        self._arrays[rank] = array.copy()
        self._barrier.wait(30)
        total = np.sum(self._arrays, axis=0, dtype=array.dtype)
        self._barrier.wait(30)
        return total

    def run(self, work: Callable[[Any], Any]) -> list[Any]:
        """What `work` returns at each member."""
        results: list[Any] = [None] * len(self.members)

        def one(rank: int) -> None:
            results[rank] = work(self.members[rank])

        threads = [threading.Thread(target=one, args=(rank,)) for rank in range(len(self.members))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(60)
        return results


class Member:
    def __init__(self, members: Members, rank: int, size: int) -> None:
        self._members, self.rank, self.size = members, rank, size

    def all_reduce(
        self,
        value: Any,
        *,
        secure: bool = False,
        limit: float | None = None,
        noise: float = 0.0,
        colluding: int = 0,
    ) -> Any:
        if not secure:
            return self._members.add(self.rank, value(self.rank, self.size))
        # what a secure sum does, without masks: each member's residues are seen
        chosen = Range.of(BY_NAME[value.dtype.name], self.size, limit, noise, self.size - colluding)
        return chosen.decode(self._members.add(self.rank, chosen.encode(value), chosen), "sum")


def make(model: nn.Module | None = None, **changed: Any) -> DpSgd:
    if model is None:
        torch.manual_seed(3)
        model = nn.Linear(4, 3)
    settings: dict[str, Any] = {"rows": 100, "batch": 10, "clip": 1.0, "noise": 1.0} | changed
    training = DpSgd(model, torch.optim.SGD(model.parameters(), lr=1.0), CROSS_ENTROPY, **settings)
    MODELS[training] = model
    return training


MODELS: weakref.WeakKeyDictionary[DpSgd, nn.Module] = weakref.WeakKeyDictionary()  # of those that `make` made


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()]).clone()


# -- sampling ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("together", [1, 5, 1_000])
def test_rows_are_drawn_independently_and_equally(together: int) -> None:
    keystream, rows, rate, trials = Keystream(), 50, 0.13, 20_000
    drawn = np.zeros((trials, rows))
    for first in range(0, trials, together):
        for trial, found in enumerate(poisson_samples(rows, rate, together, keystream.uniform), first):
            assert (np.diff(found) > 0).all()
            drawn[trial, found] = 1.0
    # each bound is passed once in ten thousand runs or less
    error = math.sqrt(rate * (1 - rate) / trials)
    assert abs(drawn.mean(0) - rate).max() < 5.5 * error
    sizes = drawn.sum(1)
    assert sizes.var() == pytest.approx(rows * rate * (1 - rate), rel=0.06)  # a binomial's, not a fixed size
    beside = np.concatenate((drawn[:-1], drawn[1:]), axis=1)  # a batch, and the one that follows it
    correlation = np.corrcoef(beside.T) - np.eye(2 * rows)
    assert abs(correlation).max() < 5.8 / math.sqrt(trials)


def test_batches_that_are_drawn_together_are_parts_of_one_sample() -> None:
    def uniform(count: int) -> np.ndarray[Any, np.dtype[np.float64]]:
        return np.resize([0.5**2.5, 0.5**0.5, 0.5**3.5], count)  # gaps of 3, 1 and 4 at a rate of a half

    assert poisson_sample(18, 0.5, uniform).tolist() == [2, 3, 7, 10, 11, 15]
    found = poisson_samples(6, 0.5, 3, uniform)
    assert [rows.tolist() for rows in found] == [[2, 3], [1, 4, 5], [3]]


@pytest.mark.parametrize("rows", [0, 1])
def test_batches_of_few_rows_that_are_drawn_together(rows: int) -> None:
    for rate in (0.5, 1.0):
        found = poisson_samples(rows, rate, 100, Keystream().uniform)
        assert len(found) == 100
        assert {tuple(batch) for batch in found} <= {(), tuple(range(rows))}
    assert {len(batch) for batch in found} == {rows}


def test_a_rate_of_one_takes_all() -> None:
    assert poisson_sample(5, 1.0, Keystream().uniform).tolist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize("rows", [0, 1])
def test_few_rows(rows: int) -> None:
    keystream = Keystream()
    assert all(len(poisson_sample(rows, 0.5, keystream.uniform)) <= rows for _ in range(100))


def test_normal_numbers_are_normal() -> None:
    from scipy import stats

    assert stats.kstest(Keystream().normal(200_001), "norm").pvalue > 1e-6
    keystream = Keystream()
    few = np.stack([keystream.normal(50) for _ in range(4_000)])
    assert stats.kstest(few.reshape(-1), "norm").pvalue > 1e-6
    assert abs(np.corrcoef(few.T) - np.eye(50)).max() < 5.5 / math.sqrt(len(few))
    assert abs(np.corrcoef(few[:300]) - np.eye(300)).max() < 0.8  # 50 numbers each


@pytest.mark.parametrize("counts", [(551, 551, 551), (3, 5, 3, 5), (0, 3), (8_000, 9_000, 8_000)])
def test_normal_numbers_are_given_once_and_belong_to_the_caller(counts: tuple[int, ...]) -> None:
    keystream, given = Keystream(), []
    for count in 10 * counts:
        found = keystream.normal(count)
        assert found.shape == (count,)
        given.append(found.copy())
        found[:] = np.nan
    numbers = np.concatenate(given)
    assert len(np.unique(numbers)) == len(numbers) == 10 * sum(counts)
    assert np.isfinite(numbers).all()


def test_two_keystreams_have_nothing_in_common() -> None:
    assert not np.isin(Keystream().uniform(1000), Keystream().uniform(1000)).any()


FORKED = """
import os
from duetlink.learning.dp.keystream import Keystream

keystream = Keystream()
keystream.uniform(1), keystream.normal(1)
if child := os.fork():
    os.waitpid(child, 0)
os.write(1, keystream.normal(1).tobytes() + keystream.uniform(1).tobytes())
"""


def test_a_forked_process_has_noise_of_its_own() -> None:
    written = subprocess.run([sys.executable, "-c", FORKED], capture_output=True, check=True, timeout=60)
    child, parent = np.frombuffer(written.stdout).reshape(2, 2)
    assert (child != parent).all()


FORKED_BATCHES = """
import os
import torch
from duetlink.learning import DpSgd

model = torch.nn.Linear(1, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
loss = torch.nn.L1Loss(reduction="none")
training = DpSgd(model, optimizer, loss, rows=1000, batch=100, clip=1.0, noise=1.0)
batches = training.batches(torch.arange(1000))
next(batches)
if child := os.fork():
    os.waitpid(child, 0)
print(*(rows.tolist() for rows, in batches), sep="\\n")
"""


def test_a_forked_process_has_batches_of_its_own() -> None:
    command = [sys.executable, "-c", FORKED_BATCHES]
    written = subprocess.run(command, capture_output=True, check=True, timeout=60, text=True)
    lines = written.stdout.splitlines()
    assert len(lines) == 18  # the nine that were left, in each of two processes
    assert len(set(lines)) == 18


# -- a step ------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings("ignore:Full backward hook is firing")
@pytest.mark.parametrize("clipping", ["bookkeeping", "per_sample", "opacus"])
def test_the_divisor_is_the_declared_batch_and_no_other(clipping: str) -> None:
    torch.manual_seed(5)
    inputs, targets = torch.randn(3, 4), torch.tensor([0, 1, 2])
    training = make(noise=0.0, batch=10, clip=1e6, clipping=clipping)
    model = training_model(training)
    before = flat(model)
    loss = CROSS_ENTROPY(model(inputs), targets).sum()
    gradient = torch.cat([g.reshape(-1) for g in torch.autograd.grad(loss, list(model.parameters()))])
    training.step(inputs, targets)
    torch.testing.assert_close(before - flat(model), gradient / 10, rtol=1e-5, atol=1e-6)


def training_model(training: DpSgd) -> nn.Module:
    return MODELS[training]


def test_an_empty_batch_is_a_step_of_noise() -> None:
    training = make(nn.Linear(100, 50), noise=2.0, clip=3.0, batch=10)
    model = training_model(training)
    before = flat(model)
    training.step(torch.empty(0, 100), torch.empty(0, dtype=torch.int64))
    moved = (flat(model) - before).double()
    assert training.spending.steps == 1
    assert float(moved.std()) == pytest.approx(2.0 * 3.0 / 10, rel=0.06)


def test_noise_is_never_the_same() -> None:
    moves = []
    for _ in range(2):
        torch.manual_seed(3)
        training = make()
        before = flat(training_model(training))
        training.step(torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
        moves.append(flat(training_model(training)) - before)
    assert not (moves[0] == moves[1]).any()


def test_an_epoch_is_made_of_poisson_batches() -> None:
    training = make(rows=1000, batch=10)
    rows = torch.arange(3000)  # more than was declared: the rate holds, the declared number does not matter
    sizes = [len(batch) for (batch,) in training.batches(rows)]
    assert len(sizes) == training.steps_per_epoch == 100
    assert sum(sizes) == pytest.approx(3000, rel=0.12)
    assert len(set(sizes)) > 5


# -- members -----------------------------------------------------------------------------------------------


def test_what_members_draw_together_is_one_poisson_sample() -> None:
    parts = [torch.arange(0, 8), torch.arange(8, 13), torch.arange(13, 20)]
    group = Members(3).members[0]
    trainings = [make(rows=20, batch=5, group=group, trust="leader") for _ in parts]
    trials = 4_000
    drawn = np.zeros((trials, 20))
    for training, rows in zip(trainings, parts, strict=True):
        for epoch in range(trials // 4):
            for step, (found,) in enumerate(training.batches(rows)):
                drawn[4 * epoch + step, found.numpy()] = 1.0
    # as for one table: each bound is passed once in ten thousand runs or less
    assert abs(drawn.mean(0) - 0.25).max() < 5.5 * math.sqrt(0.25 * 0.75 / trials)
    assert drawn.sum(1).var() == pytest.approx(20 * 0.25 * 0.75, rel=0.14)
    assert abs(np.corrcoef(drawn.T) - np.eye(20)).max() < 5.5 / math.sqrt(trials)


@pytest.mark.parametrize(("size", "trust"), [(2, "none"), (3, "none"), (3, "secure_sum")])
def test_members_learn_what_one_would_learn(size: int, trust: str) -> None:
    torch.manual_seed(5)
    inputs, targets = torch.randn(11, 4), torch.randint(0, 3, (11,))
    alone = make(noise=0.0)
    for _ in range(3):
        alone.step(inputs, targets)
    members = Members(size)
    trainings = [make(noise=0.0, group=member, trust=trust) for member in members.members]

    def work(member: Member) -> None:
        mine = slice(member.rank, None, size)
        for _ in range(3):
            trainings[member.rank].step(inputs[mine], targets[mine])

    members.run(work)
    for training in trainings:
        torch.testing.assert_close(
            flat(training_model(training)), flat(training_model(alone)), rtol=1e-6, atol=1e-6
        )


@pytest.mark.parametrize(
    ("trust", "colluding", "of_one", "of_all"),
    [
        ("leader", 0, (2.0, 0.0, 0.0, 0.0), 2.0),
        ("secure_sum", 0, (1.0, 1.0, 1.0, 1.0), 2.0),
        ("secure_sum", 3, (2.0, 2.0, 2.0, 2.0), 4.0),
        ("none", 0, (2.0, 2.0, 2.0, 2.0), 4.0),
    ],
)
def test_who_adds_how_much_noise(
    trust: str, colluding: int, of_one: tuple[float, ...], of_all: float
) -> None:
    members = Members(4)
    trainings = [
        make(nn.Linear(100, 60), noise=2.0, batch=1, group=member, trust=trust, colluding=colluding)
        for member in members.members
    ]
    before = flat(training_model(trainings[0]))
    nothing = (torch.empty(0, 100), torch.empty(0, dtype=torch.int64))
    members.run(lambda member: trainings[member.rank].step(*nothing))
    given = [seen[0][:6_060] for seen in members.seen]  # without what tells that settings are the same
    assert [float(np.std(each)) for each in given] == pytest.approx(of_one, rel=0.06)
    assert float((flat(training_model(trainings[0])) - before).double().std()) == pytest.approx(
        of_all, rel=0.06
    )
    if of_one[1]:
        both = np.corrcoef(given[0], given[1])
        assert abs(both[0, 1]) < 0.1  # each has noise of its own


@pytest.mark.parametrize("changed", [{"rows": 101}, {"batch": 11}, {"clip": 1.5}, {"noise": 0.5}])
def test_members_that_declare_something_else_learn_nothing(changed: dict[str, Any]) -> None:
    members = Members(3)
    settings: list[dict[str, Any]] = [{}, changed, {}]
    trainings = [
        make(group=member, trust="leader", **each)
        for member, each in zip(members.members, settings, strict=True)
    ]
    before = flat(training_model(trainings[0]))

    def step(member: Member) -> str:
        with pytest.raises(OperationMismatch) as error:
            trainings[member.rank].step(torch.ones(2, 4), torch.tensor([0, 1]))
        return str(error.value)

    for said in members.run(step):
        assert "rows, batch, clip, noise and trust are to be the same" in said
    assert [training.spending.steps for training in trainings] == [1, 1, 1]
    assert all(torch.equal(flat(training_model(training)), before) for training in trainings)


def test_the_noise_of_a_secure_sum_pays_for_the_rounding_to_steps() -> None:
    """One row more moves each coordinate by its gradient and one step at most, however few add the noise."""
    asked: dict[str, Any] = {}

    class Recording:
        size, on_loss = 4, "continue"  # at most one sum is opened, so it may be tried again

        def all_reduce(self, value: Any, **arguments: Any) -> Any:
            asked.update(arguments)
            return value

    model = nn.Linear(300, 100)
    training = make(model, noise=0.7, clip=0.5, batch=10, group=Recording(), trust="secure_sum", colluding=1)
    training.step(torch.empty(0, 300), torch.empty(0, dtype=torch.int64))
    assert asked["secure"] is True
    assert asked["colluding"] == 1
    for honest in range(1, 5):
        chosen = Range.of(BY_NAME["float64"], 4, asked["limit"], asked["noise"], honest)
        assert asked["noise"] >= 0.7 * (0.5 + math.sqrt(300 * 100 + 100) * chosen.step)
        assert chosen.share_sigma * chosen.step * math.sqrt(honest) >= asked["noise"]
    assert asked["noise"] == pytest.approx(0.7 * 0.5, rel=2e-3)


# -- the account -------------------------------------------------------------------------------------------


def test_the_source_s_case_costs_what_dp_accounting_says() -> None:
    # 960,000 rows, batches of 256, sigma 0.9, 10 epochs; the source states no epsilon
    spending = Spending(256 / 960_000, 0.9, 37_500)
    assert spending.epsilon(1e-6) == pytest.approx(0.327, abs=0.001)
    assert spending.epsilon(1e-6, "rdp") == pytest.approx(0.973, abs=0.001)
    book = dp_accounting.pld.PLDAccountant(dp_accounting.NeighboringRelation.ADD_OR_REMOVE_ONE)
    book.compose(
        dp_accounting.PoissonSampledDpEvent(256 / 960_000, dp_accounting.GaussianDpEvent(0.9)), 37_500
    )
    assert spending.epsilon(1e-6) == book.get_epsilon(1e-6)


class Standing:
    """A group of so many members, whose sums are those of one that gives the same as all others."""

    def __init__(self, size: int) -> None:
        self.size = size

    def all_reduce(self, value: Any, **arguments: Any) -> Any:
        return value(0, self.size) if callable(value) else value


@pytest.mark.parametrize(
    ("trust", "size", "colluding", "members", "everybody_else"),
    [
        ("secure_sum", 3, 0, 4.07, 2.58),  # a fellow takes its own share off the sum
        ("secure_sum", 4, 0, 3.53, 2.58),
        ("secure_sum", 16, 0, 2.76, 2.58),
        ("secure_sum", 3, None, 2.58, 1.80),  # 1 by default
        ("secure_sum", 4, 2, 2.58, 1.44),
        ("leader", 3, None, math.inf, 2.58),  # rank 0 has made the noise
        ("none", 3, None, 2.58, 1.09),
    ],
)
def test_an_epsilon_says_against_whom(
    trust: str, size: int, colluding: int | None, members: float, everybody_else: float
) -> None:
    training = make(batch=1, group=Standing(size), trust=trust, colluding=colluding)
    account_steps(training, 2000)
    assert training.epsilon(1e-5, against="members") == pytest.approx(members, abs=0.006)
    assert training.epsilon(1e-5, against="everybody else") == pytest.approx(everybody_else, abs=0.006)
    assert training.epsilon(1e-5) == training.epsilon(1e-5, against=training.against)
    assert training.against == ("everybody else" if trust == "leader" else "members")


def test_an_epsilon_of_one_alone_holds_against_all() -> None:
    training = make(batch=1)
    account_steps(training, 2000)
    found = [training.epsilon(1e-5, against=whom) for whom in (None, "members", "everybody else")]
    assert found == pytest.approx([2.58] * 3, abs=0.006)
    assert repr(training) == "<DpSgd: 2000 steps; its epsilon holds against everybody>"
    with pytest.raises(SettingError, match="against is 'nobody': there are members, everybody else"):
        training.epsilon(1e-5, against="nobody")


def test_what_is_printed_says_against_whom_its_epsilon_is() -> None:
    said = [
        repr(make(group=Standing(4), trust=trust, colluding=colluding))
        for trust, colluding in (("secure_sum", None), ("secure_sum", 2), ("leader", None))
    ]
    assert said == [
        "<DpSgd: 0 steps; its epsilon holds against members, 1 of them together, and everybody else>",
        "<DpSgd: 0 steps; its epsilon holds against members, 2 of them together, and everybody else>",
        "<DpSgd: 0 steps; its epsilon holds against everybody else>",
    ]


@pytest.mark.parametrize(
    ("trust", "sizes", "members", "everybody_else"),
    [("secure_sum", (4, 3, 5), math.sqrt(2 / 3), 1.0), ("none", (4, 2, 3), 1.0, math.sqrt(2))],
)
def test_the_account_is_of_the_least_noise_that_the_members_had(
    trust: str, sizes: tuple[int, ...], members: float, everybody_else: float
) -> None:
    group = Standing(sizes[0])
    training = make(group=group, trust=trust, colluding=0)
    nothing = (torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
    for group.size in sizes:
        training.step(*nothing)
    found = [training.epsilon(1e-5, "rdp", against=whom) for whom in ("members", "everybody else")]
    told = [Spending(0.1, noise, 3).epsilon(1e-5, "rdp") for noise in (members, everybody_else)]
    assert found == pytest.approx(told)
    assert training.spending == Spending(0.1, members, 3)


def test_a_budget_is_of_the_epsilon_against_members() -> None:
    training = make(noise=4.0, budget=(1.0, 1e-5), group=Standing(3), colluding=0)
    account_steps(training, most_steps(1.0, 1e-5, 0.1, 4.0 * math.sqrt(2 / 3)))
    with pytest.raises(BudgetExceeded):
        training.step(torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
    assert training.epsilon(1e-5) <= 1.0


def test_no_noise_has_no_epsilon_and_no_step_costs_nothing() -> None:
    assert Spending(0.1, 0.0, 1).epsilon(1e-5) == math.inf
    assert Spending(0.1, 0.0, 0).epsilon(1e-5) == 0.0


def test_noise_for_an_epsilon_is_the_least() -> None:
    noise = noise_for(2.0, 1e-5, 0.01, 1000)
    assert Spending(0.01, noise, 1000).epsilon(1e-5) <= 2.0
    assert Spending(0.01, 0.99 * noise, 1000).epsilon(1e-5) > 2.0


def test_a_budget_ends_the_training_before_the_step_that_would_pass_it() -> None:
    training = make(noise=4.0, budget=(1.0, 1e-5))
    allowed = most_steps(1.0, 1e-5, 0.1, 4.0)
    assert allowed > 1
    nothing = (torch.empty(0, 4), torch.empty(0, dtype=torch.int64))
    for _ in range(allowed):
        training.step(*nothing)
    model = flat(training_model(training))
    with pytest.raises(BudgetExceeded, match=f"{allowed} steps"):
        training.step(*nothing)
    assert torch.equal(flat(training_model(training)), model)
    assert training.epsilon(1e-5) <= 1.0 < Spending(0.1, 4.0, allowed + 1).epsilon(1e-5)


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"batch": 0}, "at least 1"),
        ({"batch": 101}, "at most all rows"),
        ({"noise": -1.0}, "noise is -1"),
        ({"noise": math.nan}, "finite"),
        ({"clipping": "none"}, "bookkeeping, per_sample, opacus"),
        ({"trust": "all"}, "leader, secure_sum, none"),
        ({"colluding": 1}, "honest"),
        ({"noise": 0.0, "budget": (1.0, 1e-5)}, "infinite epsilon"),
        ({"noise": 0.01, "budget": (1.0, 1e-5)}, "one step"),
        ({"budget": (0.0, 1e-5)}, "above 0"),
        ({"budget": (1.0, 2.0)}, "delta"),
        ({"budget": 1.0}, r"it is \(epsilon, delta\)"),
        ({"rows": math.inf}, "at most all rows"),
        ({"trust": "leader", "colluding": 1}, "no member adds a share"),
        ({"model": nn.Linear(4, 3, device="meta")}, "weight is on meta: private training is on the CPU"),
    ],
)
def test_values_that_cannot_be(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(SettingError, match=words):
        make(**changed)


def test_calls_that_cannot_be() -> None:
    model, x, y = nn.Linear(4, 3), torch.randn(6, 4), torch.randint(0, 3, (6,))
    with pytest.raises(SettingError, match="LBFGS asks for the loss several times"):
        DpSgd(
            model, torch.optim.LBFGS(model.parameters()), CROSS_ENTROPY, rows=6, batch=2, clip=1.0, noise=1.0
        )
    training = make(model)
    with pytest.raises(SettingError, match="a ndarray is no tensor"):
        training.fit(x.numpy(), y)  # type: ignore[arg-type]
    with pytest.raises(SettingError, match="last the targets"):
        training.fit(x)
    with pytest.raises(SettingError, match="epochs is 0"):
        training.fit(x, y, epochs=0)
    assert training.spending.steps == 0
    with pytest.raises(SettingError, match=r"rate is 2\.0"):
        noise_for(1.0, 1e-5, 2.0, 10)
    with pytest.raises(SettingError, match="steps are -1"):
        Spending(0.1, 1.0, -1)


def test_an_optimizer_of_another_model_is_refused() -> None:
    model, other = nn.Linear(4, 3), nn.Linear(4, 3)
    with pytest.raises(SettingError, match=r"weight, bias"):
        DpSgd(
            model,
            torch.optim.SGD(other.parameters(), lr=1.0),
            CROSS_ENTROPY,
            rows=10,
            batch=1,
            clip=1.0,
            noise=1.0,
        )


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor, Tensor, Tensor]:
    from sklearn.datasets import load_digits

    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    x = torch.tensor(data.data[order], dtype=torch.float32) / 16
    y = torch.tensor(data.target[order])
    return x[:1437], y[:1437], x[1437:], y[1437:]


@pytest.mark.parametrize(("noise", "least"), [(0.0, 0.93), (1.0, 0.85)])
def test_digits_are_learnt(digits: tuple[Tensor, Tensor, Tensor, Tensor], noise: float, least: float) -> None:
    x, y, x_test, y_test = digits
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    training = DpSgd(model, optimizer, CROSS_ENTROPY, rows=1437, batch=64, clip=1.0, noise=noise)
    training.fit(x, y, epochs=20)
    with torch.no_grad():
        accuracy = float((model(x_test).argmax(1) == y_test).float().mean())
    assert accuracy > least
