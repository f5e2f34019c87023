"""Nothing that a result depends on is left out of its lineage: tried with random programs that hide it in
views.
"""

from __future__ import annotations

import ast
import operator
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compute.operations.programs import Worker, lineage, resolved, traced

NAMES = ("ages", "labels", "secret")
Steps = list[list[Any]]


def arrays() -> dict[str, Any]:
    return {name: np.arange(1.0, 7.0) * (10.0**index) for index, name in enumerate(NAMES)}


INDICES = st.sampled_from(
    [
        ["s", 0, 3, None],
        ["s", None, None, -1],
        ["s", 2, None, None],
        0,
        5,
        ["e"],
        ["l", 0, 2, 2],
        ["s", 1, 5, 2],
    ]
)
RESHAPES = st.sampled_from([["t", 6], ["t", -1], ["t", 2, 3], ["t", 3, 2], ["t", 1, -1]])


@st.composite
def numpy_programs(draw: st.DrawFn, most: int = 25) -> Steps:
    """Steps of which many look at or write into what others have made. Ids may be dropped, defined twice, or
    never.
    """
    steps: Steps = [[index + 1, "asset", [name, 1]] for index, name in enumerate(NAMES)]
    made = [1, 2, 3]

    def some() -> list[int]:
        return [made[draw(st.integers(0, len(made) - 1))]]

    for _ in range(draw(st.integers(1, most))):
        kind = draw(st.integers(0, 15))
        id_ = len(made) + 1 if draw(st.integers(0, 15)) else some()[0]
        if kind <= 2:
            step = [id_, "operator.getitem", [some(), draw(INDICES)]]
        elif kind == 3:
            step = [id_, ".reshape", [some(), draw(RESHAPES)]]
        elif kind == 4:
            step = [id_, draw(st.sampled_from(["@T", ".ravel", ".squeeze", "numpy.asarray"])), [some()]]
        elif kind == 5:
            operation = draw(st.sampled_from(["operator.add", "operator.sub", "operator.mul", "numpy.add"]))
            step = [id_, operation, [some(), some()]]
        elif kind == 6:
            step = [
                id_,
                draw(st.sampled_from([".mean", ".sum", ".copy", "operator.neg", "numpy.exp"])),
                [some()],
            ]
        elif kind == 7:
            step = [id_, draw(st.sampled_from(["builtins.list", "builtins.tuple"])), [["l", some(), some()]]]
        elif kind == 8:
            step = [id_, "numpy.where", [["l", True, False, True, False, True, False], some(), some()]]
        elif kind <= 11:
            step = [0, "operator.setitem", [some(), draw(INDICES), some()]]
        elif kind == 12:
            step = [
                draw(st.sampled_from([0, id_])),
                draw(st.sampled_from(["operator.iadd", "numpy.copyto"])),
                [some(), some()],
            ]
        elif kind == 13:
            step = [0, draw(st.sampled_from([".fill", ".append"])), [some(), some()]]
        elif kind == 14:
            step = [id_, "asset", [draw(st.sampled_from(NAMES)), draw(st.sampled_from([1, 1.0, True]))]]
        else:
            step = [0, "drop", some()]
        steps.append(step)
        if step[0] == len(made) + 1:
            made.append(step[0])
    return steps


def outcome(steps: Steps, target: int, assets: dict[str, Any]) -> Any:
    worker = Worker(assets, resolved)
    worker.run(steps)
    return worker.objects.get(target, "nothing")


def same(one: Any, other: Any) -> bool:
    if type(one) is not type(other):
        return False
    if isinstance(one, (list, tuple)):
        return len(one) == len(other) and all(map(same, one, other))
    if isinstance(one, np.ndarray) and one.dtype == object:
        return repr(one.tolist()) == repr(other.tolist())  # its bytes are addresses
    if isinstance(one, (np.ndarray, np.generic)):
        return bool(one.shape == other.shape and one.tobytes() == other.tobytes())
    return bool(one == other) or one is other


def namespace(assets: dict[str, Any]) -> dict[str, Any]:
    return {**assets, "np": np, "operator": operator, "asset": assets.__getitem__}


def evaluated(code: str, names: dict[str, Any]) -> Any:
    """What the last line of code comes to."""
    tree = ast.parse(code)
    last = tree.body.pop()
    assert isinstance(last, ast.Expr)
    exec(compile(tree, "lineage", "exec"), names)
    return eval(compile(ast.Expression(last.value), "lineage", "eval"), names)


@settings(max_examples=120, deadline=None)
@given(numpy_programs(), st.integers(0, 10), st.integers(0, 4))
def test_what_changes_a_result_is_in_its_lineage(steps: Steps, back: int, batch: int) -> None:
    steps = [step for step in steps if step[1] != "drop"]  # what is dropped cannot be asked for
    ids = [step[0] for step in steps if step[0]]
    target = ids[max(len(ids) - 1 - back, 0)]
    found = lineage(traced(steps, batch=batch), target)
    real = outcome(steps, target, arrays())
    for name in NAMES:
        changed = arrays()
        changed[name] = changed[name][::-1] * 3.0 + 0.5
        if not same(outcome(steps, target, changed), real):
            assert name in dict(found.assets), found.code


def without_failures(steps: Steps) -> Steps:
    """Those that can be done, each id made once and never dropped: what an honest recorder sends."""
    steps = [step for step in steps if step[1] != "drop"]
    failed = set(Worker(arrays(), resolved).run(steps))
    return [step for position, step in enumerate(steps) if position not in failed]


@settings(max_examples=120, deadline=None)
@given(numpy_programs(most=40), st.integers(0, 10))
def test_the_code_makes_the_result(steps: Steps, back: int) -> None:
    steps = without_failures(steps)
    ids = [step[0] for step in steps if step[0]]
    target = ids[max(len(ids) - 1 - back, 0)]
    code = lineage(traced(steps), target).code
    made = outcome(steps, target, arrays())
    assert same(evaluated(code, namespace(arrays())), made), code
