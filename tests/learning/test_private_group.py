"""A private training among the members of a real group: what one training alone would learn."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor, nn

from duetlink import errors
from duetlink.groups.api.group import Group
from duetlink.learning import DpSgd
from duetlink.testing.faults import replace_function
from tests.groups.conftest import MakeGroup, make_group, together

__all__ = ["make_group"]  # a fixture

LOSS = nn.CrossEntropyLoss(reduction="none")


def make(group: Group | None = None, **changed: Any) -> tuple[DpSgd, nn.Module]:
    torch.manual_seed(3)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 3))
    settings: dict[str, Any] = {"rows": 24, "batch": 6, "clip": 0.5, "noise": 0.0, "group": group} | changed
    return DpSgd(model, torch.optim.SGD(model.parameters(), lr=0.5), LOSS, **settings), model


def flat(model: nn.Module) -> Tensor:
    return torch.cat([p.detach().reshape(-1) for p in model.parameters()])


def data() -> tuple[Tensor, Tensor]:
    torch.manual_seed(5)
    return torch.randn(12, 4), torch.randint(0, 3, (12,))


@pytest.mark.parametrize("trust", ["leader", "secure_sum"])
def test_members_learn_what_one_would_also_where_some_have_an_empty_batch(
    make_group: MakeGroup, trust: str
) -> None:
    x, y = data()
    # of each step, the rows of each member: some have none, at last nobody has any
    drawn = [([0, 1, 2], [3, 4], [5]), ([], [6, 7], []), ([8], [], [9, 10, 11]), ([], [], [])]
    alone, expected = make()
    for parts in drawn:
        rows = [row for part in parts for row in part]
        alone.step(x[rows], y[rows])

    groups = make_group(3)
    made = [make(group, trust=trust) for group in groups]  # one after the other: torch has one seed

    def train(group: Group) -> Any:
        training, model = made[group.rank or 0]
        for parts in drawn:
            rows = torch.tensor(parts[group.rank or 0], dtype=torch.int64)
            training.step(x[rows], y[rows])
        return model, training.spending.steps

    found = together(groups, train)
    for model, steps in found:
        torch.testing.assert_close(flat(model), flat(expected), rtol=1e-6, atol=1e-6)
        assert steps == 4
    assert torch.equal(flat(found[0][0]), flat(found[1][0]))
    # a member whose account is of another noise
    others = [make(group, trust=trust, noise=1.0 + 0.5 * (group.rank == 1))[0] for group in groups]
    told = together(groups, lambda group: others[group.rank or 0].step(x[:2], y[:2]))
    assert [type(error) for error in told] == [errors.OperationMismatch] * 3


def test_members_draw_their_own_rows_and_stay_together_with_noise(make_group: MakeGroup) -> None:
    x, y = data()

    groups = make_group(2)
    made = [make(group, trust="leader", noise=1.0, batch=1) for group in groups]

    def train(group: Group) -> Any:
        training, model = made[group.rank or 0]
        mine = slice(group.rank, None, 2)
        training.fit(x[mine], y[mine])  # batches of half a row on average: most are empty
        return model, training.spending

    (first, spending), (second, other) = together(groups, train)
    assert torch.equal(flat(first), flat(second))
    assert spending == other
    assert spending.steps == 24


def test_the_share_of_the_noise_is_that_of_who_takes_part(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    groups = make_group(3)
    trainings = together(groups, lambda group: make(group, trust="leader", noise=2.0)[0])
    shares: dict[int, list[tuple[int, int]]] = {}
    true: dict[int, Any] = {}
    for rank, training in enumerate(trainings):

        def noise(count: int, at: int, size: int, rank: int = rank) -> Tensor:
            shares.setdefault(rank, []).append((at, size))
            drawn: Tensor = true[rank](count, at, size)
            return drawn

        true[rank] = replace_function(monkeypatch, training, "own_noise", noise)
    nothing = torch.empty(0, 4), torch.empty(0, dtype=torch.int64)
    together(groups, lambda group: trainings[groups.index(group)].step(*nothing))
    groups[0].close()  # between two steps: nobody is told of it
    together(groups[1:], lambda group: trainings[groups.index(group)].step(*nothing))
    assert shares == {0: [(0, 3)], 1: [(1, 3), (0, 2)], 2: [(2, 3), (1, 2)]}


def test_what_does_not_go_together_with_a_group_is_refused(make_group: MakeGroup) -> None:
    groups = make_group(2, on_loss="continue")
    with pytest.raises(errors.SettingError, match="two different noises"):
        make(groups[0], trust="leader")
    with pytest.raises(errors.SettingError, match="of 2 members hides nothing"):
        make(groups[0], trust="secure_sum")
