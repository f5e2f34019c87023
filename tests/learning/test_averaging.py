"""Local steps between rounds of averaging, on real groups of several members in one process."""

from __future__ import annotations

import contextlib
import json
import threading
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn

import duetlink
from duetlink import errors
from duetlink.groups.api.group import Group
from duetlink.groups.api.rounds import TOPIC, Meeting
from duetlink.groups.collectives.reduce_options import ReduceOptions
from duetlink.learning import LocalSteps
from duetlink.learning.averaging import averaged, updates
from duetlink.learning.averaging.flat import FlatModel
from duetlink.learning.averaging.outer import OuterStep
from duetlink.testing.faults import life_of, part_of, rounds_of, run_inside, set_constants
from tests.groups.conftest import QUICK, MakeGroup, make_group, together, until

__all__ = ["make_group"]  # a fixture


def linear(value: float = 0.0) -> nn.Linear:
    model = nn.Linear(2, 1, bias=False)
    nn.init.constant_(model.weight, value)
    return model


def move(model: nn.Module, by: float) -> None:
    """What stands for a step of an optimizer."""
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(by)


def weights(model: nn.Linear) -> list[float]:
    return [round(float(each), 5) for each in model.weight.detach().reshape(-1)]


def well(groups: list[Any], call: Callable[[Any], Any]) -> list[Any]:
    """What `call` gives with each, called by all at once; raises what one of them raises."""
    found = together(groups, call)
    for each in found:
        if isinstance(each, Exception):
            raise each
    return found


class Train:
    """Each member's own model and steps, driven by its rank in any order that a test wants."""

    def __init__(self, groups: list[Group], **settings: Any) -> None:
        self.groups = groups
        self.models = [linear(float(rank)) for rank in range(len(groups))]
        self.steps: list[LocalSteps] = well(
            groups, lambda group: LocalSteps(self.models[group.rank or 0], group, **settings)
        )

    def step(self, *ranks: int, by: Callable[[int], float] = lambda rank: 1.0) -> None:
        """One step of these members at once."""

        def one(group: Group) -> Any:
            rank = group.rank or 0
            move(self.models[rank], by(rank))
            return self.steps[rank].after_step()

        well([self.groups[rank] for rank in ranks], one)

    def close(self, *ranks: int) -> None:
        well([self.groups[rank] for rank in ranks], lambda group: self.steps[group.rank or 0].close())


# -- one at a time -----------------------------------------------------------------------------------------


def test_the_outer_step_is_the_mean_or_has_nesterov_momentum() -> None:
    at, still = np.array([1.0, 5.0], np.float32), np.zeros(1, np.float32)
    update = np.array([2.0, 2.0], np.float32)
    after, velocity = OuterStep().step(at, still, update, 1)
    assert (after.tolist(), velocity.tolist()) == ([3.0, 7.0], [0.0])
    step = OuterStep(rate=0.5, momentum=0.5)
    after, velocity = step.step(at, still, update, 1)  # the second number is a buffer: averaged
    assert (after.tolist(), velocity.tolist()) == ([1.0 + 0.5 * (2.0 + 0.5 * 2.0), 7.0], [2.0])
    after, velocity = step.step(after, velocity, update, 1)
    assert (after.tolist(), velocity.tolist()) == ([2.5 + 0.5 * (2.0 + 0.5 * 3.0), 9.0], [3.0])


@pytest.mark.parametrize("how", ["int8", "sparse"])
def test_what_coding_leaves_out_comes_later(how: str) -> None:
    draws = np.random.default_rng(1)
    coded = updates.compressor(how, 0.05)
    assert coded is not None
    given, arrived = np.zeros(2_000, np.float32), np.zeros(2_000, np.float32)
    for _ in range(5):
        update = draws.normal(size=2_000).astype(np.float32)
        chunk = updates.encode(coded, update)
        assert len(chunk) < (0.3 if how == "int8" else 0.05) * update.nbytes
        found = updates.read(chunk, 2_000)
        assert found is not None
        given += update
        arrived += found
    still: Any = coded.state_dict()["residual/update"]
    np.testing.assert_allclose(arrived + still, given, atol=1e-4)  # five roundings of float32
    assert abs(still).max() > 0


def test_chunks_that_are_no_update_are_none() -> None:
    coded = updates.compressor("sparse", 1.0)
    assert coded is not None
    chunk = updates.encode(coded, np.ones(8, np.float32))
    assert updates.read(chunk, 8) is not None
    for bad in (b"", b"no chunk", chunk[:-1], chunk[:9] + b"\xff" + chunk[10:]):
        assert updates.read(bad, 8) is None
    assert updates.read(chunk, 9) is None
    assert updates.read(chunk, 7) is None


def test_a_model_is_its_parameters_and_its_running_statistics() -> None:
    model = nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2))
    flat = FlatModel(model)
    assert (flat.parameters, flat.size) == (10, 14)
    assert flat.read()[10:].tolist() == [0.0, 0.0, 1.0, 1.0]  # mean and variance; no count of batches
    flat.write(np.arange(14, dtype=np.float32))
    running: Any = model[1].running_var
    assert running.tolist() == [12.0, 13.0]
    assert flat.read().tolist() == list(range(14))
    with pytest.raises(errors.UnsupportedValue, match="no parameters"):
        FlatModel(nn.ReLU())


# -- together ----------------------------------------------------------------------------------------------


def test_members_average_by_weight_and_every_round_is_in_the_audit_log(
    make_group: MakeGroup, private_audit_log: Path
) -> None:
    groups = make_group(3)
    models = [linear(float(rank)) for rank in range(3)]

    def train(group: Group) -> Any:
        rank = group.rank or 0
        # the model of rank 0 is everybody's before the first step
        with LocalSteps(models[rank], group, every=2, weight=rank + 1) as steps:
            begun = weights(models[rank])
            for _ in range(3):
                move(models[rank], float(rank))
                steps.after_step()
        return begun, weights(models[rank]), steps.rounds

    for begun, ended, rounds in well(groups, train):
        assert begun == [0.0, 0.0]
        # two steps, then what the third made goes into a last round
        mean = (1 * 0 + 2 * 1 + 3 * 2) / 6
        assert ended == pytest.approx([3 * mean] * 2, abs=1e-4)
        assert [(each.number, each.size, len(each.gave), each.gives) for each in rounds] == [
            (1, 3, 3, True),
            (2, 3, 3, True),
        ]
    written = [json.loads(line) for line in private_audit_log.read_text().splitlines()]
    named = [entry["name"] for entry in written if entry["kind"] == "group"]
    assert named.count("round 1") == 3
    assert named.count("round 2") == 3
    assert together(groups, lambda group: group.all_reduce(1)) == [3, 3, 3]  # the group is free again


def test_a_member_that_pauses_is_not_waited_for_and_takes_in_what_it_missed(make_group: MakeGroup) -> None:
    train = Train(make_group(3), every=1, quorum=2, grace_s=0.0)
    train.step(0, 1)
    train.step(0, 1)
    assert [each.gave for each in train.steps[0].rounds] == [("member 0", "member 1")] * 2
    assert weights(train.models[0]) == weights(train.models[1]) == [2.0, 2.0]
    assert weights(train.models[2]) == [0.0, 0.0]  # its notebook was not touched

    def last(group: Group) -> None:
        """Member 2 comes too late for a round of the others, who have none after it: it has one to itself."""
        rank = group.rank or 0
        if rank == 2:
            move(train.models[2], 3.0)
            train.steps[2].after_step()
        train.steps[rank].close()

    well(train.groups, last)
    assert [each.gave for each in train.steps[0].rounds[2:]] == [("member 2",)]
    assert [weights(model) for model in train.models] == [[5.0, 5.0]] * 3


def test_a_long_pause_costs_the_others_one_grace_window(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Train(make_group(3), every=1, quorum=2, grace_s=0.3)
    began = time.monotonic()
    train.step(0, 1)
    assert time.monotonic() - began >= 0.3
    for steps in train.steps[:2]:
        set_constants(monkeypatch, rounds_of(steps), grace_s=1000.0)
    for _ in range(2):
        train.step(0, 1)  # would not end, if they waited once more
    train.close(0, 1, 2)


def test_a_quorum_that_is_not_there_is_waited_for(make_group: MakeGroup) -> None:
    train = Train(make_group(3), every=1, quorum=3, grace_s=0.0)
    stepping = threading.Thread(target=train.step, args=(0, 1))
    stepping.start()
    ready = b"\x01"
    until(
        lambda: all(
            life_of(train.groups[2]).links.latest_status(seat, TOPIC)[-1:] == ready for seat in (0, 1)
        )
    )
    assert stepping.is_alive()
    assert list(train.steps[0].rounds) == []
    train.step(2)
    stepping.join(60)
    assert len(train.steps[0].rounds[0].gave) == 3
    train.close(0, 1, 2)


def test_a_member_that_leaves_is_missed_by_nobody(make_group: MakeGroup) -> None:
    train = Train(make_group(3), every=1, quorum=2, grace_s=30.0)
    train.step(0, 1, 2)
    train.groups[0].close()  # whoever opened the group, as any other
    with pytest.raises(errors.LinkClosed, match="closed"):
        train.steps[0].after_step()
    rest = train.groups[1:]
    for found in well(rest, lambda group: _again(train, group)):
        assert found == [5.0, 5.0]


def test_a_round_whose_end_a_loss_hides_from_a_member_counts_for_it(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Train(make_group(3), every=1, quorum=3, grace_s=0.0)
    train.step(0, 1, 2)
    has_left = threading.Event()
    advance = averaged.Averaged.advance

    def interrupted(part: averaged.Averaged, found: Any) -> frozenset[int]:
        if part is part_of(train.steps[1]):
            has_left.wait(60)
            raise errors.PeerLost("rank 2 (member 2) has left the group", rank=2, name="member 2")
        return advance(part, found)

    def go_on(group: Group) -> Any:
        rank = group.rank or 0
        move(train.models[rank], 1.0)
        train.steps[rank].after_step()
        if rank == 2:
            group.close()
            monkeypatch.undo()
            has_left.set()
            return None
        train.steps[rank].close()
        return weights(train.models[rank]), [each.gave for each in train.steps[rank].rounds]

    monkeypatch.setattr(averaged.Averaged, "advance", interrupted)
    everybody = ("member 0", "member 1", "member 2")
    first, second, _ = well(train.groups, go_on)
    assert first == ([2.0, 2.0], [everybody, everybody])
    assert second == ([2.0, 2.0], [everybody])  # the second one it took from member 0


def _again(train: Train, group: Group) -> list[float]:
    place = train.groups.index(group)
    for _ in range(2):
        move(train.models[place], 2.0)
        train.steps[place].after_step()
    train.steps[place].close()
    return weights(train.models[place])


def test_one_that_comes_late_has_the_state_of_the_others(
    make_group: MakeGroup, monkeypatch: pytest.MonkeyPatch
) -> None:
    with contextlib.ExitStack() as stack:
        ann = stack.enter_context(duetlink.group(name="ann", settings=QUICK))
        ben = stack.enter_context(duetlink.group(ann.code, name="ben", settings=QUICK))
        until(lambda: len([each for each in ann.members if each.state == "waiting for the next epoch"]) == 1)
        settings: dict[str, Any] = {"every": 1, "grace_s": 1.0, "outer_rate": 0.5, "outer_momentum": 0.5}
        models = {"ann": linear(), "ben": linear(), "eve": linear(9.0)}

        def open_(name: str, group: Group) -> LocalSteps:
            return LocalSteps(models[name], group, **settings)

        def step(name: str, steps: LocalSteps) -> Any:
            move(models[name], 1.0)
            return steps.after_step()

        both = well([ann, ben], lambda group: open_("ann" if group is ann else "ben", group))
        made = {"ann": both[0], "ben": both[1]}
        assert well(list(made.items()), lambda each: step(*each)) == [True, True]
        eve = stack.enter_context(duetlink.group(ann.code, name="eve", settings=QUICK))
        opened: list[Any] = []
        is_open = threading.Event()

        def come() -> None:
            opened.append(open_("eve", eve))
            is_open.set()

        late = threading.Thread(target=come)
        until(lambda: [each.state for each in ann.members][2:] == ["waiting for the next epoch"])
        # she has not come to the rounds yet: nobody waits for her
        assert well(list(made.items()), lambda each: step(*each)) == [True, True]
        assert [each.size for each in made["ann"].rounds] == [2, 2]
        late.start()
        until(lambda: life_of(ann).links.latest_status(2, TOPIC))
        advance = averaged.Averaged.advance

        async def stir() -> None:
            life_of(eve).notify_change()

        def slowly(part: averaged.Averaged, found: Any) -> frozenset[int]:
            """While the round goes on, whoever waits for a change at eve's member looks again."""
            run_inside(eve, stir())
            is_open.wait(0.2)
            return advance(part, found)

        monkeypatch.setattr(averaged.Averaged, "advance", slowly)
        assert well(list(made.items()), lambda each: step(*each)) == [True, True]
        late.join(60)
        monkeypatch.undo()
        made["eve"] = opened[0]
        for steps in made.values():
            set_constants(monkeypatch, rounds_of(steps), grace_s=60.0)  # from now on nobody is too late
        assert weights(models["eve"]) == weights(models["ann"])
        velocities = {name: part_of(steps).state()["velocity"].tolist() for name, steps in made.items()}
        assert velocities["eve"] == velocities["ann"]
        assert well(list(made.items()), lambda each: step(*each)) == [True] * 3
        assert made["ann"].rounds[-1].size == 3
        assert well(list(made.values()), lambda steps: steps.close()) == [None] * 3
        assert weights(models["eve"]) == weights(models["ann"]) == weights(models["ben"])
        well([eve, ben, ann], lambda group: group.close())


def test_a_secure_sum_gives_the_same_model(make_group: MakeGroup) -> None:
    groups = make_group(3, only=("secure_sum",))
    models = [linear() for _ in groups]

    def train(group: Group) -> Any:
        rank = group.rank or 0
        with LocalSteps(models[rank], group, every=1, weight=100.0 * (rank + 1), secure=True) as steps:
            for _ in range(2):
                move(models[rank], float(rank))
                steps.after_step()
        return weights(models[rank]), steps.sent_bytes

    # (0 * 100 + 1 * 200 + 2 * 300) / 600, twice
    assert well(groups, train) == [(pytest.approx([8 / 3, 8 / 3], abs=1e-4), 16)] * 3
    found = together(groups, lambda group: LocalSteps(linear(), group))
    assert [type(error) for error in found] == [errors.OperationRefused] * 3


async def test_a_secure_sum_that_a_loss_interrupts_is_finished_with_what_was_in_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    given: list[tuple[object, float]] = []

    class Interrupted:
        async def run(
            self, collectives: Any, party: Any, value: Any, options: ReduceOptions, *, call: str
        ) -> Any:
            given.append((self, float(value["weight"])))
            if len(given) == 1:
                raise errors.PeerLost("rank 2 is lost")
            return value

    async def note(sent: Any) -> None:
        return None

    monkeypatch.setattr(averaged, "SecureSum", Interrupted)
    part = averaged.Averaged(
        FlatModel(linear()),
        updates="float32",
        density=1.0,
        outer=OuterStep(),
        weight=5.0,
        secure=True,
        quorum=1,
    )
    with pytest.raises(errors.PeerLost):
        await part.exchange(Meeting(None, None, False, note, ""))  # type: ignore[arg-type]
    part.offer(np.ones(2, np.float32))  # comes between the two attempts
    again = Meeting(None, None, True, note, "")  # type: ignore[arg-type]
    await part.exchange(again)
    assert given[0] == given[1]
    assert (given[0][1], part.gave) == (0.0, False)  # so that it goes into the next round
    await part.exchange(again)
    assert (given[2][1], part.gave) == (5.0, True)
    assert given[2][0] is not given[1][0]


# -- what cannot be ----------------------------------------------------------------------------------------


def test_models_that_differ_and_quorums_too_large_are_told_to_all(make_group: MakeGroup) -> None:
    groups = make_group(2)
    found = together(groups, lambda group: LocalSteps(nn.Linear(2, 1 + (group.rank or 0)), group))
    assert [type(error) for error in found] == [errors.OperationMismatch] * 2
    assert "rank 1 (member 1) and rank 0 (member 0)" in str(found[0])
    found = together(groups, lambda group: LocalSteps(linear(), group, quorum=3))
    assert [type(error) for error in found] == [errors.SettingError] * 2
    assert "3 of 2 members" in str(found[1])
    found = together(
        groups, lambda group: LocalSteps(linear(), group, outer_momentum=0.5 * (group.rank or 0))
    )
    assert [type(error) for error in found] == [errors.OperationMismatch] * 2
    assert together(groups, lambda group: group.all_reduce(1)) == [2, 2]


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"every": 0}, "every is 0"),
        ({"weight": 0.0}, "weight"),
        ({"weight": float("nan")}, "weight"),
        ({"weight": 1e-60}, "weight is 1e-60: it is above 0, from 1e-15"),
        ({"quorum": 0}, "quorum is 0"),
        ({"grace_s": -1.0}, "grace_s"),
        ({"updates": "int3"}, "float32, int8, sparse"),
        ({"density": 0.0}, "density"),
        ({"secure": True, "updates": "int8"}, "secure sum is of float32"),
        ({"outer_rate": 0.0}, "outer_rate"),
        ({"outer_momentum": 1.0}, "outer_momentum"),
    ],
)
def test_settings_that_cannot_be_are_refused_before_anything_is_sent(
    changed: dict[str, Any], words: str
) -> None:
    class NoGroup:
        def rounds(self, *_: Any, quorum: int | None, grace_s: float, shows: str) -> Any:
            from duetlink.groups.api.rounds import Rounds

            nothing: Any = None
            return Rounds(*[nothing] * 5, quorum=quorum, grace_s=grace_s)

    with pytest.raises(errors.SettingError, match=words):
        LocalSteps(linear(), NoGroup(), **changed)  # type: ignore[arg-type]


def test_a_model_that_is_not_finite_gives_nothing_and_stops_nobody(make_group: MakeGroup) -> None:
    train = Train(make_group(3), every=1, quorum=2, grace_s=0.0)
    move(train.models[2], float("nan"))
    with pytest.raises(errors.UnsupportedValue, match="2 of the model's 2 numbers are not finite"):
        train.steps[2].after_step()
    train.step(0, 1)
    assert weights(train.models[0]) == [1.0, 1.0]
    nn.init.constant_(train.models[2].weight, 0.0)  # back to an earlier state
    train.close(0, 1, 2)
    assert weights(train.models[2]) == weights(train.models[0])


@pytest.mark.parametrize("how", ["float32", "int8"])
def test_what_a_member_gives_against_the_rules_changes_nothing(
    make_group: MakeGroup, how: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = Train(make_group(3), every=1, quorum=3, updates=how)
    part = part_of(train.steps[2])

    def offer(update: Any) -> None:
        gift = update * np.float32(np.nan) if how == "float32" else b"no chunk"
        set_constants(monkeypatch, part, pending_update=gift)

    monkeypatch.setattr(part, "offer", offer)

    def step(group: Group) -> Any:
        rank = group.rank or 0
        move(train.models[rank], 1.0)
        return train.steps[rank].after_step()

    found = together(train.groups, step)
    if how == "float32":  # nobody can tell whose it was
        assert [type(error) for error in found] == [errors.RemoteProtocolError] * 3
        assert weights(train.models[0]) == [0.0, 0.0]
    else:
        assert found == [True] * 3
        assert train.steps[0].rounds[0].refused == ("member 2",)
        assert weights(train.models[0]) == pytest.approx([1.0, 1.0], abs=0.01)
    monkeypatch.undo()
    train.close(0, 1, 2)


# -- that it learns ----------------------------------------------------------------------------------------

ROWS, BATCH, STEPS = 1437, 16, 120


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    data = load_digits()
    order = np.random.default_rng(0).permutation(len(data.target))
    return torch.tensor(data.data[order], dtype=torch.float32) / 16, torch.tensor(data.target[order])


def perceptron() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def accuracy(model: nn.Module, digits: tuple[Tensor, Tensor]) -> float:
    with torch.no_grad():
        return float((model(digits[0][ROWS:]).argmax(1) == digits[1][ROWS:]).float().mean())


def batches(digits: tuple[Tensor, Tensor], rank: int, size: int) -> Any:
    """The same for every way of training."""
    mine = np.arange(rank, ROWS, size)
    draws = np.random.default_rng(rank)
    for _ in range(STEPS):
        drawn = torch.from_numpy(draws.choice(mine, BATCH))
        yield digits[0][drawn], digits[1][drawn]


@pytest.fixture(scope="module")
def every_step(digits: tuple[Tensor, Tensor]) -> float:
    """The accuracy of averaging after each step, three members."""
    model = perceptron()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    for parts in zip(*(batches(digits, rank, 3) for rank in range(3)), strict=True):
        optimizer.zero_grad()
        for x, y in parts:
            (nn.functional.cross_entropy(model(x), y) / 3).backward()
        optimizer.step()
    return accuracy(model, digits)


def test_digits_are_learnt_about_as_well_as_by_averaging_each_step(
    make_group: MakeGroup, digits: tuple[Tensor, Tensor], every_step: float
) -> None:
    assert every_step > 0.93
    groups = make_group(3)
    ways: list[dict[str, Any]] = [
        {},
        {"updates": "int8", "outer_rate": 0.7, "outer_momentum": 0.5},
        {"updates": "sparse", "density": 0.2},
    ]

    def train(group: Group, settings: dict[str, Any]) -> tuple[float, nn.Module, int]:
        model = perceptron()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
        with LocalSteps(model, group, every=20, **settings) as steps:
            for x, y in batches(digits, group.rank or 0, 3):
                optimizer.zero_grad()
                loss = nn.functional.cross_entropy(model(x), y)
                if not settings:  # FedProx
                    loss = loss + steps.proximal(0.01)
                loss.backward()
                optimizer.step()
                steps.after_step()
        return accuracy(model, digits), model, steps.sent_bytes

    def trained(settings: Any, group: Group) -> Any:
        return train(group, settings)

    sent = []
    for settings in ways:
        found = well(groups, partial(trained, settings))
        states = [FlatModel(model).read() for _, model, _ in found]
        assert all((state == states[0]).all() for state in states)  # the same bits
        assert found[0][0] > every_step - 0.02
        sent.append(found[0][2])
    dense = 6 * 4 * (64 * 32 + 32 + 32 * 10 + 10)
    assert sent[0] == dense
    assert sent[1] < 0.28 * dense
    assert sent[2] < 0.4 * dense
