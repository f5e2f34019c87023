"""What backward steps write and read unseen is in the lineage, and other trainings are not."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.compute.operations.programs import Ref, Worker, Writer, lineage, resolved, traced
from tests.compute.operations.test_lineage_soundness import NAMES, Steps, evaluated

torch = pytest.importorskip("torch")


def tensors() -> dict[str, Any]:
    return {name: torch.arange(1.0, 5.0) * (1.0 + index) / 4 for index, name in enumerate(NAMES)}


INDICES = st.sampled_from([["s", 0, 2, None], ["s", 2, None, None], ["e"], ["s", None, None, 2]])


@st.composite
def torch_programs(draw: st.DrawFn, most: int = 30) -> Steps:
    steps: Steps = [[index + 1, "asset", [name, 1]] for index, name in enumerate(NAMES)]
    for id_ in (4, 5):
        steps += [[id_, "torch.zeros", [4], {"requires_grad": True}]]
    made = [1, 2, 3, 4, 5]

    def some() -> list[int]:
        return [made[draw(st.integers(0, len(made) - 1))]]

    for _ in range(draw(st.integers(3, most))):
        kind = draw(st.integers(0, 15))
        id_ = len(made) + 1
        step: list[Any]
        if kind <= 1:
            step = [
                id_,
                draw(st.sampled_from(["operator.add", "operator.sub", "operator.mul"])),
                [some(), some()],
            ]
        elif kind == 2:
            step = [id_, draw(st.sampled_from(["torch.relu", ".clone", ".exp", ".sum"])), [some()]]
        elif kind == 3:
            step = [id_, "operator.getitem", [some(), draw(INDICES)]]
        elif kind == 4:
            step = [id_, draw(st.sampled_from([".detach", "@data", ".view_as", ".float"])), [some()]]
            if step[1] == ".view_as":
                step[2].append(step[2][0])
        elif kind <= 7:
            product = [[id_, "operator.mul", [some(), some()]], [id_ + 1, ".sum", [[id_]]]]
            steps += product
            made += [id_, id_ + 1]
            step = [0, ".backward", [[id_ + 1]], {"retain_graph": True}]
        elif kind <= 9:
            step = [id_, "@grad", [some()]]
        elif kind <= 12:
            step = [
                0,
                draw(st.sampled_from([".add_", ".mul_", ".copy_", "operator.setitem"])),
                [some(), some()],
            ]
            if step[1] == "operator.setitem":
                step[2].insert(1, draw(INDICES))
        elif kind == 13:
            step = [0, "grad", [draw(st.booleans())]]
        elif kind == 14:
            step = [0, draw(st.sampled_from([".requires_grad_", "@=requires_grad"])), [some(), True]]
        else:
            step = [0, draw(st.sampled_from(["@=grad", "@=data"])), [some(), some()]]
        steps.append(step)
        if step[0]:
            made.append(id_)
    return steps


def call(name: str) -> Any:
    if name == "grad":
        return torch.set_grad_enabled
    return resolved(name)


def outcome(steps: Steps, target: int, assets: dict[str, Any]) -> tuple[Any, list[int]]:
    worker = Worker(assets, call)
    try:
        failed = worker.run(steps)
    finally:
        torch.set_grad_enabled(True)
    return worker.objects.get(target, "nothing"), failed


def same(one: Any, other: Any) -> bool:
    if not isinstance(one, torch.Tensor) or not isinstance(other, torch.Tensor):
        return type(one) is type(other)
    return bool(one.shape == other.shape and torch.equal(one.data.nan_to_num(), other.data.nan_to_num()))


@settings(max_examples=120, deadline=None)
@given(torch_programs(), st.integers(0, 5), st.booleans())
def test_what_changes_a_result_is_in_its_lineage(steps: Steps, back: int, may_learn: bool) -> None:
    ids = [step[0] for step in steps if step[0]]
    target = ids[max(len(ids) - 1 - back, 0)]
    found = lineage(traced(steps, may_learn=may_learn), target)
    real, _ = outcome(steps, target, tensors())
    for name in NAMES:
        changed = tensors()
        changed[name] = changed[name].flip(0) * 3.0 + 0.5
        if not same(outcome(steps, target, changed)[0], real):
            assert name in dict(found.assets), found.code


@settings(max_examples=120, deadline=None)
@given(torch_programs(), st.integers(0, 5))
def test_the_code_makes_the_result(steps: Steps, back: int) -> None:
    _, failed = outcome(steps, 0, tensors())
    steps = [step for position, step in enumerate(steps) if position not in failed]
    ids = [step[0] for step in steps if step[0]]
    target = ids[max(len(ids) - 1 - back, 0)]
    code = lineage(traced(steps, may_learn=False), target).code
    made, failed = outcome(steps, target, tensors())
    if not failed:
        assert same(evaluated(code, {**tensors(), "torch": torch, "F": torch.nn.functional}), made), code


def trained(w: Writer, x: Ref, rounds: int = 3, **options: Any) -> tuple[Ref, Ref]:
    """A weight after some rounds, and the loss of the last."""
    weight = w.call("torch.zeros", 4, requires_grad=True)
    for _ in range(rounds):
        row = w.call("operator.getitem", x, slice(0, 4))
        loss = w.call(".sum", w.call("operator.mul", row, weight))
        w.do(".backward", loss, **options)
        w.gradients(False)
        w.do(".add_", weight, w.call("@grad", weight), alpha=-0.1)
        w.do("@=grad", weight, None)
        w.gradients(True)
    return weight, loss


def test_the_weight_and_the_last_loss_have_the_training_in_them() -> None:
    w = Writer()
    x = w.asset("ages")
    weight, loss = trained(w, x)
    found = w.lineage(weight, may_learn=False)
    assert found.assets == (("ages", 1),)
    assert found.steps == 1 + 3 * 7
    assert w.lineage(loss, may_learn=False).steps == 1 + 2 * 7 + 3


def test_what_has_nothing_to_do_with_the_training_has_not() -> None:
    w = Writer()
    x = w.asset("ages")
    before = w.call(".mean", x)
    trained(w, x)
    for mean in (before, w.call(".mean", x), w.call(".mean", w.call("operator.getitem", x, 0))):
        assert len(w.lineage(mean, may_learn=False).code.splitlines()) == 1


def test_another_training_on_the_same_data_is_another() -> None:
    w = Writer()
    x = w.asset("ages")
    one, _ = trained(w, x)
    other, _ = trained(w, x)
    assert w.asked(one).digest == w.asked(other).digest
    # unless the data may need gradients themselves
    assert w.lineage(other, may_learn=True).steps > w.lineage(other, may_learn=False).steps


def test_a_gradient_read_behind_the_back_of_its_tensor() -> None:
    """`data` lets saved tensors be changed without torch noticing: the gradient is made of the secret."""
    steps: Steps = [
        [1, "asset", ["ages", 1]],
        [2, "asset", ["secret", 1]],
        [3, ".clone", [[1]]],
        [4, "torch.zeros", [4], {"requires_grad": True}],
        [5, "operator.mul", [[4], [3]]],
        [6, ".sum", [[5]]],
        [7, "@data", [[3]]],
        [0, ".copy_", [[7], [2]]],
        [0, ".backward", [[6]]],
        [8, "@grad", [[4]]],
    ]
    assert same(outcome(steps, 8, tensors())[0], tensors()["secret"])
    assert ("secret", 1) in lineage(traced(steps, may_learn=False), 8).assets
    steps[8:] = [[8, "torch.autograd.grad", [[6], ["l", [4]]]]]
    assert ("secret", 1) in lineage(traced(steps, may_learn=False), 8).assets


def test_a_gradient_of_a_gradient() -> None:
    steps: Steps = [
        [1, "asset", ["secret", 1]],
        [2, "torch.zeros", [4], {"requires_grad": True}],
        [3, "operator.mul", [[1], [2]]],
        [4, ".sum", [["l", [3]][1]]],
        [5, "torch.zeros", [4], {"requires_grad": True}],
        [6, "operator.mul", [[5], [4]]],
        [7, ".sum", [[6]]],
        [0, ".backward", [[7]], {"create_graph": True}],
        [8, "@grad", [[5]]],
        [9, ".sum", [[8]]],
        [0, ".backward", [[9]]],
        [10, "@grad", [[2]]],
    ]
    assert ("secret", 1) in lineage(traced(steps, may_learn=False), 10).assets


def test_gradients_that_are_added_to_an_asset() -> None:
    """What is set as a gradient is where the next ones are added."""
    steps: Steps = [
        [1, "asset", ["ages", 1]],
        [2, "asset", ["secret", 1]],
        [3, "torch.zeros", [4], {"requires_grad": True}],
        [0, "@=grad", [[3], [1]]],
        [4, "operator.mul", [[3], [2]]],
        [5, ".sum", [[4]]],
        [0, ".backward", [[5]]],
        [6, "torch.relu", [[1]]],
    ]
    assert same(outcome(steps, 6, tensors())[0], tensors()["ages"] + tensors()["secret"])
    assert ("secret", 1) in lineage(traced(steps, may_learn=False), 6).assets
    steps[3:4] = [[7, ".sum", [[3]]], [0, ".backward", [[7]]], [8, "@grad", [[3]]], [0, "@=data", [[8], [1]]]]
    assert same(outcome(steps, 6, tensors())[0], tensors()["ages"] + tensors()["secret"])
    assert ("secret", 1) in lineage(traced(steps, may_learn=False), 6).assets


def test_backward_where_nothing_learns_is_shown_to_be_safe() -> None:
    w = Writer()
    w.do(".backward", w.call(".sum", w.asset("secret")))
    assert w.lineage(w.call(".mean", w.asset("ages")), may_learn=False).assets == (("secret", 1), ("ages", 1))


def test_a_weight_changed_between_forward_and_backward() -> None:
    steps: Steps = [
        [1, "asset", ["secret", 1]],
        [2, "torch.zeros", [4], {"requires_grad": True}],
        [3, "torch.zeros", [4], {"requires_grad": True}],
        [4, "operator.mul", [[2], [3]]],
        [5, ".sum", [[4]]],
        [6, "@data", [[2]]],
        [0, ".copy_", [[6], [1]]],
        [0, ".backward", [[5]]],
        [7, "@grad", [[3]]],
    ]
    assert same(outcome(steps, 7, tensors())[0], tensors()["secret"])
    assert lineage(traced(steps, may_learn=False), 7).assets == (("secret", 1),)
