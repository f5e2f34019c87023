"""Programs as values: canonical, the same on both sides, and read from anything."""

from __future__ import annotations

import hashlib
import json
import re
import tracemalloc
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.compute.operations import canonical
from duetlink.compute.operations.canonical import Program, Value, compacted
from duetlink.compute.operations.steps import body
from duetlink.compute.operations.steps.trace import LoggedValue, Trace
from duetlink.data.values import encode
from duetlink.errors import RemoteProtocolError
from duetlink.testing.faults import set_constants
from duetlink.testing.values import joined
from tests.compute.operations.programs import Writer, asked, effects, traced
from tests.compute.operations.test_lineage_soundness import numpy_programs

Steps = list[list[Any]]


def text(program: Program) -> str:
    return program.text.decode()


def test_a_program_as_it_travels() -> None:
    w = Writer()
    ages = w.asset("ages", 3)
    w.call(".mean", ages)
    scaled = w.call("operator.mul", w.value("a list", "v"), [ages, 2.5], axis=None, how="a%d")
    w.gradients(False)
    w.do(".fill", scaled, 0)
    w.gradients(True)
    program = w.asked(w.call(".bernoulli", scaled, p=0.5))
    assert text(program) == (
        '[["asset",["ages",3]],["value",[0]],'
        '["operator.mul",[[2],["l",[1],2.5]],{"axis":null,"how":"a%d"}],'
        '[".fill",[[3],0],{},{"grad":false}],'
        '[".bernoulli",[[3]],{"p":0.5},{"draw":[null,0]}]]'
    )
    assert program.target == 5
    assert program.values == (Value(b"v", "", ""),)


def test_both_sides_have_the_same_program() -> None:
    w = Writer()
    x = w.asset("x")
    w.do("torch.manual_seed", 3)
    content = bytes(joined(encode([1, 2])))
    digest = hashlib.sha256(content).hexdigest()
    y = w.call("operator.add", x, w.value("list 2 items", digest))
    w.do("operator.setitem", y, slice(0, 2), w.call(".bernoulli", x))
    trace = traced([*w.steps, [99, ".sum", [[y.id]]]], w.values, may_learn=False)
    sent = Program.recorded(trace, 99, {digest: Value(content, "list", "2 items")})
    read = Program.read(memoryview(b"".join(sent.segments)), effects)
    assert (read.digest, read.text, read.target) == (sent.digest, sent.text, sent.target)
    assert read.lineage == sent.lineage
    assert b"".join(read.segments) == b"".join(sent.segments)


def test_what_a_value_is_is_told_by_its_bytes_and_not_by_its_sender() -> None:
    one_hot = np.zeros(500)
    one_hot[137] = 1
    contents = [bytes(joined(encode(value))) for value in (one_hot, pd.DataFrame({"a": [1.0]}))]
    lies = [Value(content, "float", "0.5 (the same for each row)") for content in contents]
    steps = [["asset", ["ages", 1]], ["value", [0]], ["value", [1]], [".f", [[1], [2], [3]]]]
    sent = Program.of_steps(steps, 4, lies)
    lines = Program.read(memoryview(b"".join(sent.segments))).lineage.code.splitlines()
    assert lines[0] == "value_1  # numpy.ndarray float64 (500,), sent by the peer"
    assert re.fullmatch(
        r"value_2  # [\d.]+ k?B, said to be float 0\.5 \(the same for each row\), sent by the peer", lines[1]
    )


def test_what_was_tried_in_between_changes_no_program() -> None:
    def written(explore: bool) -> Program:
        w = Writer()
        x, y = w.asset("x"), w.asset("y")
        z = w.call("torch.zeros", 3)
        if explore:  # relates what it is given, for the rest of the session
            w.call("numpy.broadcast_arrays", z, y)
            w.call(".bernoulli_of", y)
        w.do("operator.setitem", z, 0, w.call(".sum", x))
        if explore:
            w.do("operator.setitem", y, 0, 1)
        return w.asked(w.call(".mean", z))

    assert written(True).text == written(False).text
    assert written(True).digest == written(False).digest


def test_draws_are_counted_from_the_last_seed() -> None:
    w = Writer()
    x = w.asset("x")
    first = w.call(".bernoulli", x)
    w.do("torch.manual_seed", 7)
    w.call(".mean", x)
    second = w.call(".bernoulli", first)
    third = w.call(".bernoulli", x)
    both = w.call("operator.add", second, third)
    assert [modes[3]["draw"] for modes in json.loads(w.asked(both).text) if len(modes) == 4] == [
        [None, 0],
        [7, 0],
        [7, 1],
    ]


def test_draws_of_a_training_do_not_depend_on_what_is_asked_for() -> None:
    w = Writer()
    w.do("torch.manual_seed", 1)
    noisy = [w.call(".bernoulli", w.asset(f"x{i}")) for i in range(3)]
    alone = json.loads(w.asked(noisy[2]).text)
    assert alone[1][3] == {"draw": [1, 2]}


@settings(max_examples=100, deadline=None)
@given(numpy_programs(most=30), st.integers(0, 8))
def test_a_program_is_settled(steps: Steps, back: int) -> None:
    steps = [step for step in steps if step[1] != "drop"]
    ids = list(dict.fromkeys(step[0] for step in steps if step[0]))
    program = asked(traced(steps, may_learn=False), ids[max(len(ids) - 1 - back, 0)])
    with pytest.MonkeyPatch.context() as patch:
        set_constants(patch, canonical, MOST_SLICES=0)  # nothing falls away
        again = Program.read(memoryview(b"".join(program.segments)), effects)
    assert (again.text, again.target, again.digest) == (program.text, program.target, program.digest)


def shrinking(pairs: int) -> Writer:
    """A recording whose last result has a slice that loses one pair of steps with each turn: a pair is only
    related to the result by the pair before it.
    """
    w = Writer()
    x, zero = w.asset("x"), w.call("torch.zeros", 1)
    written = [w.call("torch.zeros", 1) for _ in range(pairs)]
    related = [w.call("numpy.broadcast_arrays", zero, each) for each in written]
    read = [w.call("operator.add", w.call("operator.getitem", each, 0), 0) for each in related[1:]]
    for target, each in zip(written, read, strict=False):
        w.do("operator.iadd", target, each)
    w.call("operator.add", x, w.call("operator.add", zero, 0))
    return w


def test_what_loses_a_step_with_each_slice_is_refused_when_it_comes_and_settled_when_it_is_sent() -> None:
    recorded = shrinking(pairs=20)
    target = recorded.steps[-1][0]
    places: dict[int, int] = {}
    steps = []
    for place, (id_, operation, arguments) in enumerate(json.loads(json.dumps(recorded.steps)), 1):
        places[id_] = place
        named = [[places[part[0]]] if type(part) is list else part for part in arguments]
        steps.append([operation, arguments if operation == "asset" else named])
    sent = body.write(places[target], body.steps_text(steps))[0]
    with pytest.raises(RemoteProtocolError, match="still has steps that its result does not need"):
        Program.read(memoryview(b"".join(sent)), effects)
    assert text(asked(traced(recorded.steps, may_learn=False), target)) == (
        '[["asset",["x",1]],["torch.zeros",[1]],["operator.add",[[2],0]],["operator.add",[[1],[3]]]]'
    )


@settings(max_examples=60, deadline=None)
@given(numpy_programs(most=30), st.data())
def test_what_is_let_go_of_changes_no_program(steps: Steps, data: st.DataObject) -> None:
    steps = [step for step in steps if step[1] != "drop"]
    ids = list(dict.fromkeys(step[0] for step in steps if step[0]))
    if len(ids) < len([step for step in steps if step[0]]):
        return  # no recorder uses an id twice
    cut = data.draw(st.integers(1, len(steps)))
    whole, part = traced(steps, may_learn=False), traced(steps[:cut], may_learn=False)
    kept = data.draw(st.sets(st.sampled_from(ids)))
    later = {reference for step in steps[cut:] for reference in _mentioned(step)}
    for id_ in part.alive:
        if id_ not in kept | later:
            part.forget(id_)
    part = compacted(part)
    part.add(json.loads(json.dumps(steps[cut:])))
    for id_ in part.alive:
        if id_ in kept:
            assert asked(part, id_).digest == asked(whole, id_).digest


def _mentioned(argument: Any) -> list[int]:
    if not isinstance(argument, list):
        return []
    if len(argument) == 1 and type(argument[0]) is int:
        return argument
    return [reference for part in argument for reference in _mentioned(part)]


def test_modes_go_on_behind_what_was_let_go_of() -> None:
    trace = Trace(effects, may_learn=False)
    trace.add(
        [
            [1, "asset", ["x", 1]],
            [0, "torch.manual_seed", [5]],
            [0, "grad", [False]],
            [2, ".bernoulli", [[1]]],
        ]
    )
    trace.forget(2)
    trace = compacted(trace)
    trace.add([[3, ".bernoulli", [[1]]]])
    assert json.loads(asked(trace, 3).text)[1] == [".bernoulli", [[1]], {}, {"grad": False, "draw": [5, 1]}]


def test_the_values_that_stay_are_those_of_the_steps_that_stay() -> None:
    trace = Trace(effects, may_learn=False)
    for id_, digest in ((1, "a"), (2, "b")):
        trace.add([[id_, "value", [0]]], [LoggedValue("", digest)])
    trace.add([[3, ".sum", [[2]]]])
    trace.forget(1)
    trace.forget(2)
    assert [value.digest for value in compacted(trace).values.values()] == ["b"]


@pytest.mark.parametrize(
    ("steps", "target"),
    [
        ([[".sum", [[1]]]], 1),
        ([["asset", ["x", 1]], [".sum", [[3]]], [".sum", [[1]]]], 2),
        ([["asset", ["x", 1]], [".sum", [[1]], {}, {"draw": [1.5, 0]}]], 2),
        ([["asset", ["x", 1]], [".sum", [[1]], {}, {"draw": [True, 0]}]], 2),
        ([["asset", ["x", 1]], [".sum", [[1]], {}, {"draw": [None, -1]}]], 2),
        ([["asset", ["x", 1]], [".sum", [[1]], {}, {"grad": True}]], 2),
        ([["asset", ["x", 1]], [".sum", [[1]], {}, {"other": 1}]], 2),
        ([["asset", ["x", 1]], [".sum", [[1]], {}, []]], 2),
        ([["drop", [1]]], 1),
        ([["grad", [False]]], 1),
        ([["torch.manual_seed", [1]]], 1),
        ([["value", [0]]], 1),
        ([[1, "asset", ["x", 1]]], 1),
        (["asset"], 1),
        ([["asset", ["x"]]], 1),
    ],
)
def test_steps_that_are_no_program(steps: list[Any], target: int) -> None:
    with pytest.raises(RemoteProtocolError):
        Program.of_steps(steps, target)


def test_what_does_not_make_the_target_falls_away() -> None:
    steps = [["asset", ["secret", 1]], ["asset", ["x", 1]], [".sum", [[1]]], [".sum", [[2]]]]
    program = Program.of_steps(json.loads(json.dumps(steps)), 4)
    assert text(program) == '[["asset",["x",1]],[".sum",[[1]]]]'
    assert program.target == 2


@pytest.mark.parametrize(
    "steps",
    [
        [["asset", ["x", 1]], [".a", [[1], *[{}] * 2000]]],
        [["asset", ["x", 1]], [".a", [[1], *[["l"]] * 2000]]],
        [["asset", ["x", 1]], *[[".a", [[place], 1]] for place in range(1, 1000)]],
        [["asset", ["x", 1]], *[[".a", [[place]], {"axis": place}] for place in range(1, 1000)]],
    ],
    ids=["empty objects", "empty lists", "steps that are alike", "steps that differ"],
)
def test_what_waits_holds_about_the_memory_that_is_counted(steps: list[Any]) -> None:
    sent = memoryview(b"".join(body.write(len(steps), body.steps_text(steps))[0]))
    Program.read(sent).steps  # noqa: B018 - what is made once is no part of it
    tracemalloc.start()
    try:
        program = Program.read(sent)
        taken_bytes = len(program.steps) and tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert 0.8 < program.held_bytes / taken_bytes < 2.5


def test_what_draws_nothing_for_its_object_is_not_counted() -> None:
    trace = Trace(effects, may_learn=False)
    trace.add([[1, "asset", ["x", 1]], [2, ".bernoulli", [[1]], {}, 0], [3, ".bernoulli", [[1]]]])
    assert json.loads(asked(trace, 2).text)[1] == [".bernoulli", [[1]]]
    assert json.loads(asked(trace, 3).text)[1] == [".bernoulli", [[1]], {}, {"draw": [None, 0]}]
