"""A room goes on with a program that begins with all that it has run, to the letter, and with no other."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch

from duetlink import errors
from duetlink.compute.operations.canonical import Program, Value
from duetlink.compute.operations.prefixes import Beginning
from duetlink.duet.answering import reuse
from duetlink.duet.answering.reuse import Reuse
from duetlink.errors import DuetError, RemoteProtocolError
from duetlink.testing.faults import close_rooms, end_run, kept_rooms, run_inside
from tests.remote import interference
from tests.remote.conftest import Bench
from tests.remote.hostile import Room, Sliced, Step, asked_for, encoded_of
from tests.remote.test_frozen_values import told

STEPS: list[Step] = [
    ["asset", ["x", 1]],
    ["value", [0]],
    ["operator.mul", [[1], [2]]],
    ["numpy.random.permutation", [[3]], {}, {"draw": [3, 0]}],
    [".sum", [[4]]],
]


def read(steps: list[Step], target: int, content: bytes = b"a") -> Program:
    return Program.of_steps(copy.deepcopy(steps), target, [Value(content, "", "")])


def test_a_program_that_has_more_steps_behind_goes_on() -> None:
    assert Beginning.of(read(STEPS[:4], 4)).begins(read(STEPS, 5))


@pytest.mark.parametrize(
    ("place", "step"),
    [
        (0, ["asset", ["x", 2]]),
        (2, ["operator.add", [[1], [2]]]),
        (3, ["numpy.random.permutation", [[3]], {}, {"draw": [3, 1]}]),
        (3, ["numpy.random.permutation", [[3]], {}, {"draw": [4, 0]}]),
        (3, ["numpy.random.permutation", [[3]], {}, {"grad": False, "draw": [3, 0]}]),
    ],
)
def test_a_program_that_differs_in_one_step_does_not(place: int, step: Step) -> None:
    other = [*STEPS[:place], step, *STEPS[place + 1 :]]
    assert not Beginning.of(read(STEPS[:4], 4)).begins(read(other, 5))


def test_a_number_that_is_equal_and_written_otherwise_differs() -> None:
    steps: Any = ([["asset", ["x", 1]], ["operator.mul", [[1], by]], [".sum", [[2]]]] for by in (1, 1.0))
    one, other = steps
    assert not Beginning.of(read(one[:2], 2)).begins(read(other, 3))


def test_another_value_differs() -> None:
    assert not Beginning.of(read(STEPS[:4], 4, b"a")).begins(read(STEPS, 5, b"b"))


def test_the_same_program_and_a_shorter_one_do_not_go_on() -> None:
    whole = Beginning.of(read(STEPS, 5))
    assert not whole.begins(read(STEPS, 5))
    assert not whole.begins(read(STEPS[:4], 4))


# -- in a room -----------------------------------------------------------------------------------------------


def gone_on(assets: dict[str, Any], sliced: Sliced, steps: int) -> bytes | None:
    """What a room tells of a program after it has run the first steps; None: it does not go on."""
    room = Room(assets, sliced)
    whole = room.body
    try:
        for body in (Sliced(steps, sliced.steps[:steps]).to_body(), whole):
            room.body = body
            asked = {"max_bytes": 1 << 30, "salt": "00", "goes_on": True, "size_bytes": len(body)}
            found = told(room._handle("run", asked, room._placed()))
    except RemoteProtocolError:
        return None
    finally:
        end_run(room.desk)
    return found


@pytest.mark.parametrize("first_seed", range(0, 200, 20))
def test_programs_of_all_kinds_make_the_same(first_seed: int) -> None:
    assets = {name: encoded_of(asset) for name, asset in interference.data(0).items()}
    opening: list[Step] = [[at, "asset", [name, 1]] for at, name in enumerate(interference.ASSETS, 1)]
    for seed in range(first_seed, first_seed + 20):
        drawn = interference.Writer(seed, 1_000).program()
        for result in drawn.asked:
            try:
                asked = asked_for([*opening, *drawn.steps], result)
            except (LookupError, DuetError):
                continue
            sliced = Sliced(asked.target, json.loads(asked.text))
            whole = Room(assets, sliced).told()
            for steps in range(1, len(sliced.steps) + 1):
                assert gone_on(assets, sliced, steps) in (whole, None)


def test_a_room_that_has_failed_does_not_go_on() -> None:
    failing = [["asset", ["x", 1]], ["operator.getitem", [[1], 99]], [".sum", [[1]]]]
    assert gone_on({"x": np.arange(4.0)}, Sliced(3, failing), 2) is None
    assert gone_on({"x": np.arange(4.0)}, Sliced(3, failing), 1) is not None


# -- a duet --------------------------------------------------------------------------------------------------


@pytest.fixture
def kept(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Iterator[Reuse]:
    monkeypatch.setattr(reuse, "COSTLY_S", 0.0)
    monkeypatch.setattr(reuse, "WORTH_S", 0.0)
    kept = kept_rooms(bench.owner)
    yield kept

    async def empty() -> None:
        await close_rooms(kept)
        kept.uses, kept.most_bytes = 0, 1 << 30

    run_inside(bench.owner, empty())


def train(bench: Bench, images: Any, labels: Any) -> list[Any]:
    """Losses that are asked for in between, and the weights."""
    torch.manual_seed(5)
    scientist = bench.scientist
    model = scientist.remote(torch.nn.Linear(8, 3))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    asked: list[Any] = []
    for step in range(1, 41):
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if step % 10 == 0:
            value: Any = loss
            asked.append(value.get().item())
    return [*asked, model.weight.get(), model.bias.get()]


def test_losses_of_a_training_are_the_same_in_a_room_that_goes_on(bench: Bench, kept: Reuse) -> None:
    draw = torch.Generator().manual_seed(1)
    images, labels = torch.randn(64, 8, generator=draw), torch.randint(0, 3, (64,), generator=draw)
    mocks = torch.zeros(64, 8), torch.zeros(64, dtype=torch.int64)
    shared = [bench.share(*pair) for pair in ((images, "images", mocks[0]), (labels, "labels", mocks[1]))]
    kept.most_bytes = 0
    expected = train(bench, *shared)
    assert kept.uses == 0
    kept.most_bytes = 1 << 30
    found = train(bench, *shared)
    assert kept.uses >= 2
    assert found[:4] == expected[:4]
    assert all(torch.equal(one, another) for one, another in zip(found[4:], expected[4:], strict=True))


def test_a_room_that_waits_ends_with_its_asset(
    bench: Bench, kept: Reuse, monkeypatch: pytest.MonkeyPatch
) -> None:
    left: list[Any] = []
    leave = kept.keep_room

    def note(room: Any, program: Any) -> None:
        left.append(room)
        leave(room, program)

    monkeypatch.setattr(kept, "keep_room", note)
    frame = pd.DataFrame({"a": [1.0, 2.0, 3.0]})
    asset = bench.owner.share(frame, "ending", mock=frame * 0)
    shared = bench.scientist.wait_object("ending", 10)
    numbers = shared.a.to_numpy().copy()
    for expected in ([1.0, 2.0, 4.0], [1.0, 2.0, 5.0]):
        numbers[2] += 1.0
        assert numbers.get().tolist() == expected
    asset.unshare()
    run_inside(bench.owner, _ended(left[-1]))
    with pytest.raises(errors.DuetError, match="ending"):
        numbers[0] = 7.0
        numbers.get()


async def _ended(room: Any) -> None:
    await room.ended
