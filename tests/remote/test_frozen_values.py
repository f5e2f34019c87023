"""Frozen values: what leaves is the same bytes, whether a room has done all steps or began with some of them
frozen; and what does not come back from its bytes as it was is not frozen.
"""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import torch

from duetlink.compute.operations.canonical import Program, Value
from duetlink.compute.operations.prefixes import Beginning, Prefix, divided, prefixes
from duetlink.compute.worker.protocol import answers
from duetlink.errors import DuetError, RemoteProtocolError
from tests.remote import interference
from tests.remote.hostile import Room, Sliced, Step, asked_for, encoded_of
from tests.remote.test_hidden_steps import ATTACKS, OPENED, assets

MOST_BYTES = 1 << 30
HIDDEN = {  # the step of each attack that is not to run
    "the kernel of a Gaussian process is set": ".log_marginal_likelihood",
    "a generator is used up by a sample of a frame": ".sample",
    "the generator that all share is drawn from by a prediction": ".predict",
}


def sliced(program: Program) -> Sliced:
    return Sliced(program.target, json.loads(program.text))


def place_of(frozen: tuple[int, int, Any]) -> Any:
    """The header of the command that gives a room a frozen value."""
    return {"size_bytes": frozen[1], "state": frozen[2]}


class Reused:
    """A program that is run whole, and in a room that does a prefix, freezes it, and goes on, and in one that
    begins with what was frozen.
    """

    def __init__(self, assets: Mapping[str, Any], program: Program) -> None:
        self.assets, self.program = assets, program
        self.whole = Room(assets, sliced(program)).told()

    def frozen(self, prefix: Prefix) -> tuple[tuple[int, int, Any] | None, bytes]:
        """What a prefix makes, and all that the room says after it has gone on."""
        inside, rest = divided(self.program, prefix.steps)
        room = Room(self.assets, sliced(self.program), again=[name for name, _ in inside & rest])
        found = room.begin(prefix.steps, MOST_BYTES)
        return found, told(room.end())

    def thawed(self, prefix: Prefix, frozen: tuple[int, int, Any]) -> bytes:
        """All that a room says which begins with it, and has no other assets than it needs."""
        _, rest = divided(self.program, prefix.steps)
        needed = {name: self.assets[name] for name, _ in rest if name in self.assets}
        room = Room(needed, sliced(self.program))
        room._handle("frozen", place_of(frozen) | {"steps": prefix.steps}, frozen[0])
        return room.told()

    def check(self) -> int:
        """How many prefixes were frozen; asserts that all rooms say the same."""
        count = 0
        for prefix in prefixes(self.program):
            frozen, gone_on = self.frozen(prefix)
            assert gone_on == self.whole
            if frozen is not None:
                count += 1
                assert self.thawed(prefix, frozen) == self.whole
        return count


def told(reply: tuple[bytes, Any]) -> bytes:
    content, fds = reply
    found = content + b"".join(os.pread(fd, 1 << 30, 0) for fd in fds)
    for fd in fds:
        os.close(fd)
    return found


def program(*steps: Step) -> Program:
    return asked_for([[place, *step] for place, step in enumerate(steps, 1)], len(steps))


def read(steps: list[Step], target: int, values: Sequence[Value] = ()) -> Program:
    return Program.of_steps(copy.deepcopy(steps), target, values)


def opened(name: str) -> list[Any]:
    return ["asset", [name, 1]]


# -- where a program may be cut ------------------------------------------------------------------------------


def cuts(*steps: Step) -> list[int]:
    return [prefix.steps for prefix in prefixes(program(*steps))]


FILTERED: list[Step] = [
    opened("frame"),
    ["operator.getitem", [[1], "a"]],
    ["operator.gt", [[2], 0.5]],
    ["operator.getitem", [[1], [3]]],
]


def test_programs_that_begin_with_the_same_steps_have_the_same_prefix() -> None:
    mean = prefixes(program(*FILTERED, [".mean", [[4]]]))
    std = prefixes(program(*FILTERED, [".std", [[4]]]))
    assert [prefix.steps for prefix in mean] == [prefix.steps for prefix in std] == [2, 3, 4, 5]
    assert mean[2] == std[2]
    assert mean[3].digest != std[3].digest


def test_steps_that_leave_two_results_behind_are_no_prefix() -> None:
    steps = [*FILTERED, [".mean", [[4]]], [".std", [[4]]], ["operator.add", [[5], [6]]]]
    assert cuts(*steps) == [2, 3, 4, 7]


def test_an_asset_may_be_opened_by_both_parts_where_nothing_is_written() -> None:
    both = program(*FILTERED, [".mean", [[4]]], [".mean", [[1]]], ["operator.sub", [[5], [6]]])
    assert [prefix.steps for prefix in prefixes(both)] == [2, 3, 4, 5, 7]
    assert divided(both, 4) == (frozenset({("frame", 1)}), frozenset({("frame", 1)}))
    assert divided(program(*FILTERED, [".mean", [[4]]]), 4) == (frozenset({("frame", 1)}), frozenset())


def test_a_step_that_writes_into_what_a_frozen_value_may_share_is_seen_through_the_asset() -> None:
    written = [
        opened("x"),
        ["operator.getitem", [[1], ["s", 0, 2, None]]],
        ["operator.setitem", [[2], 0, 99.0]],
        [".sum", [[1]]],
        [".sum", [[2]]],
        ["operator.add", [[4], [5]]],
    ]
    asked = asked_for([[number, *step] for number, step in zip((1, 2, 0, 4, 5, 6), written, strict=True)], 6)
    assert [prefix.steps for prefix in prefixes(asked)] == [6]
    reused = Reused({"x": np.arange(4.0)}, asked)
    assert reused.check() == 1


def test_what_is_asked_for_is_needed_to_the_end_also_where_only_a_view_of_it_is_used() -> None:
    steps = [
        [1, *opened("x")],
        [2, "operator.mul", [[1], 2.0]],
        [3, "operator.getitem", [[2], ["s", 0, 2, None]]],
        [0, "operator.setitem", [[3], 0, 99.0]],
    ]
    asked = asked_for(steps, 2)
    assert [prefix.steps for prefix in prefixes(asked)] == [2]
    assert Reused({"x": np.arange(4.0)}, asked).check() == 1


def test_what_nobody_else_sees_may_be_written_to_after_it_was_frozen() -> None:
    steps = [
        [1, *opened("x")],
        [2, "operator.mul", [[1], 2.0]],
        [0, "operator.setitem", [[2], 0, 99.0]],
        [4, ".sum", [[2]]],
    ]
    asked = asked_for(steps, 4)
    assert [prefix.steps for prefix in prefixes(asked)] == [2, 4]
    assert Reused({"x": np.arange(4.0)}, asked).check() == 2


@pytest.mark.parametrize(
    "changed",
    [
        ["operator.gt", [[2], 0.25]],
        ["operator.gt", [[2], 0.5], {}, {"grad": False}],
        ["operator.ge", [[2], 0.5]],
    ],
)
def test_a_literal_or_mode_that_differs_is_another_prefix(changed: Step) -> None:
    steps = [*FILTERED, [".mean", [[4]]]]
    other = read([*steps[:2], changed, *steps[3:]], 5)
    mine = read(steps, 5)
    pairs = zip(prefixes(mine), prefixes(other), strict=True)
    assert [one.digest == another.digest for one, another in pairs] == [True, False, False, False]


@pytest.mark.parametrize("draw", [[1, 0], [None, 1], [None, 0]])
def test_a_draw_that_differs_is_another_prefix(draw: list[Any]) -> None:
    steps = [opened("frame"), [".sample", [[1], 3], {}, {"draw": [0, 0]}], [".mean", [[2]]]]
    other = [steps[0], [".sample", [[1], 3], {}, {"draw": draw}], steps[2]]
    mine = prefixes(read(steps, 3))
    assert mine[0].steps == 2
    assert mine[0].digest != prefixes(read(other, 3))[0].digest


def test_a_value_that_differs_is_another_prefix() -> None:
    steps = [["value", [0]], opened("x"), ["operator.add", [[1], [2]]], [".sum", [[3]]]]
    found = [prefixes(read(steps, 4, [Value(content, "", "")]))[0].digest for content in (b"a", b"b")]
    assert found[0] != found[1]


def test_another_revision_is_another_prefix() -> None:
    steps = [*FILTERED, [".mean", [[4]]]]
    other = [["asset", ["frame", 2]], *steps[1:]]
    mine, theirs = (prefixes(read(made, 5)) for made in (steps, other))
    assert all(one.digest != another.digest for one, another in zip(mine, theirs, strict=True))


# -- in rooms ------------------------------------------------------------------------------------------------


def data() -> dict[str, Any]:
    draw = np.random.default_rng(3)
    n = 1000
    frame = pd.DataFrame({name: draw.uniform(0, 1, n) for name in "abc"})
    frame["k"] = draw.integers(0, 5, n)
    frame["t"] = [["u", "v", "w"][number] for number in draw.integers(0, 3, n)]
    frame["i"] = pd.array(draw.integers(0, 9, n), dtype="Int64")
    frame["when"] = pd.date_range("2020-01-01", periods=n)
    frame["cat"] = pd.Categorical(frame["t"])
    matrix = draw.uniform(0, 1, (60, 50))
    return {
        "frame": frame,
        "matrix": matrix,
        "tensor": torch.tensor(matrix),
        "polars": pl.DataFrame({"a": draw.uniform(0, 1, n), "t": frame["t"].tolist()}),
        "x": draw.uniform(0, 1, n),
    }


ASSETS = data()

# steps that make something of asset 1, and whether that is frozen
KINDS: dict[str, tuple[str, list[Step], bool]] = {
    "filtered frame": ("frame", FILTERED[1:], True),
    "column": ("frame", [["operator.getitem", [[1], "a"]]], True),
    "texts": ("frame", [["operator.getitem", [[1], "t"]]], True),
    "sorted": ("frame", [[".sort_values", [[1], "b"]]], True),
    "frame of one block": ("matrix", [["pandas.DataFrame", [[1]]]], False),
    "grouped": ("frame", [[".groupby", [[1], "k"]]], False),
    "number": ("frame", [["operator.getitem", [[1], "a"]], [".quantile", [[2], 0.25]]], True),
    "array": ("matrix", [["operator.mul", [[1], 2.0]]], True),
    "array in the other order": ("matrix", [["@T", [[1]]], ["operator.mul", [[2], 2.0]]], True),
    "view of every other row": ("matrix", [["operator.getitem", [[1], ["s", None, None, 2]]]], False),
    "view of one column": (
        "matrix",
        [["operator.getitem", [[1], ["t", ["s", None, None, None], 3]]]],
        False,
    ),
    "the same row again and again": ("x", [["numpy.broadcast_to", [[1], ["t", 3, 1000]]]], False),
    "list": ("x", [["builtins.list", [["l", [1], [1]]]]], False),
    "tensor": ("tensor", [["operator.mul", [[1], 2.0]]], True),
    "transposed tensor": ("tensor", [["@T", [[1]]], ["operator.mul", [[2], 2.0]]], True),
    "view of a tensor": ("tensor", [["operator.getitem", [[1], ["s", None, None, 2]]]], False),
    "tensor with gradients": ("tensor", [[".clone", [[1]]], [".requires_grad_", [[2]]]], False),
    "made of a tensor with gradients": (
        "tensor",
        [[".clone", [[1]]], [".requires_grad_", [[2]]], ["operator.mul", [[3], 2.0]]],
        False,
    ),
    "polars frame": ("polars", [[".sort", [[1], "a"]]], False),  # of which polars knows that it is sorted
    "polars head": ("polars", [[".head", [[1], 500]]], True),
    "polars in pieces": ("polars", [["polars.concat", [["l", [1], [1]]]]], True),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_frozen_makes_the_same(kind: str) -> None:
    asset, steps, frozen = KINDS[kind]
    made = len(steps) + 1
    last: Step = [".describe", [[made]]] if asset in ("frame", "polars") else [".sum", [[made]]]
    if kind in ("number", "list"):
        last = ["builtins.list", [["l", [made]]]]
    elif kind == "grouped":
        last = [".size", [[made]]]
    asked = program(opened(asset), *steps, last)
    reused = Reused(ASSETS, asked)
    assert b'"fault"' not in reused.whole
    (prefix,) = [prefix for prefix in prefixes(asked) if prefix.steps == made]
    found, gone_on = reused.frozen(prefix)
    assert gone_on == reused.whole
    assert (found is not None) is frozen
    if found is not None:
        assert reused.thawed(prefix, found) == reused.whole


def test_a_group_goes_with_a_frozen_value() -> None:
    asked = program(*FILTERED, ["operator.getitem", [[4], "b"]], [".mean", [[5]]])
    reused = Reused(ASSETS, asked)
    assert json.loads(reused.whole.partition(b"}")[0] + b"}")["group"] > 100
    assert reused.check() >= 2


@pytest.mark.parametrize("name", ATTACKS)
def test_a_hidden_step_comes_back_by_no_program_that_shows_it(name: str) -> None:
    """The scientist asks for what the hidden step makes, which is shown, and then for what it has changed."""
    step_at = [step[1] for step in ATTACKS[name]].index(HIDDEN[name])
    steps = [*ATTACKS[name]]
    steps[step_at] = [40, *steps[step_at][1:]]
    first, second = asked_for([*OPENED, *steps], 40), asked_for([*OPENED, *steps], 30)
    shown = [[step[0] for step in json.loads(asked.text)].count(HIDDEN[name]) for asked in (first, second)]
    assert shown == [1, 0]
    assert not Beginning.of(first).begins(second)
    both = {prefix.digest for prefix in prefixes(first)} & {prefix.digest for prefix in prefixes(second)}
    owned = assets(1)
    one, other = Reused(owned, first), Reused(owned, second)
    for prefix in prefixes(second):
        if prefix.digest in both:
            frozen, _ = one.frozen(prefix)
            if frozen is not None:
                assert other.thawed(prefix, frozen) == other.whole


def test_nothing_is_frozen_where_a_step_has_failed() -> None:
    asked = program(opened("x"), ["operator.getitem", [[1], "no such field"]], [".sum", [[2]]])
    reused = Reused(ASSETS, asked)
    assert b'"fault"' in reused.whole
    assert reused.check() == 0


def test_steps_that_took_less_than_it_is_worth_are_not_frozen() -> None:
    asked = program(opened("x"), ["operator.mul", [[1], 2.0]], [".sum", [[2]]])
    room = Room(ASSETS, sliced(asked))
    begin = {"salt": "00", "steps": 2, "max_bytes": 1000, "least_s": 3600, "size_bytes": len(room.body)}
    assert answers.read_frozen(*room._handle("begin", begin, room._placed())) is None
    reply = room.desk.handle("run", b'{"max_bytes": 1000}', [], lambda name, content: None)
    assert told(reply) == Reused(ASSETS, asked).whole


def test_a_room_that_has_begun_one_program_runs_no_other() -> None:
    asked = program(opened("x"), ["operator.mul", [[1], 2.0]], [".sum", [[2]]])
    room = Room(ASSETS, sliced(asked))
    begin = {"salt": "00", "steps": 2, "max_bytes": MOST_BYTES, "least_s": 0, "size_bytes": len(room.body)}
    answers.read_frozen(*room._handle("begin", begin, room._placed()))
    with pytest.raises(RemoteProtocolError, match="runs one program"):
        room.told()
    room.desk.handle("run", b'{"max_bytes": 1000}', [], lambda name, content: None)  # to the end


def test_what_is_frozen_is_no_longer_written_to_by_the_room() -> None:
    """The value is what the prefix made, whatever the rest of the program does to it."""
    steps: list[Step] = [
        [1, *opened("x")],
        [2, "operator.mul", [[1], 2.0]],
        [0, "operator.setitem", [[2], 0, 99.0]],
        [4, ".sum", [[2]]],
    ]
    reused = Reused(ASSETS, asked_for(steps, 4))
    prefix = prefixes(reused.program)[0]
    frozen, gone_on = reused.frozen(prefix)
    assert frozen is not None
    assert gone_on == reused.whole
    clean = Reused(ASSETS, asked_for([*steps[:2], [3, ".sum", [[2]]]], 3))
    assert prefixes(clean.program)[0] == prefix
    assert clean.thawed(prefix, frozen) == clean.whole


@pytest.mark.parametrize("first_seed", range(0, 200, 20))
def test_programs_of_all_kinds_make_the_same(first_seed: int) -> None:
    assets = {name: encoded_of(asset) for name, asset in interference.data(0).items()}
    opening: list[Step] = [[at, "asset", [name, 1]] for at, name in enumerate(interference.ASSETS, 1)]
    for seed in range(first_seed, first_seed + 20):
        drawn = interference.Writer(seed, 1_000).program()
        steps = [*opening, *drawn.steps]
        for result in drawn.asked:
            try:
                asked = asked_for(steps, result)
            except (LookupError, DuetError):
                continue
            Reused(assets, asked).check()
