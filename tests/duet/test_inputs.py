"""What a function gets, as its owner reads it."""

from __future__ import annotations

import random
from typing import Any

from duetlink.compute.operations.canonical import Program
from duetlink.compute.operations.function import FunctionCall
from duetlink.duet.answering.job import FunctionJob, Input, unmade
from duetlink.duet.objects.asset import AssetInfo


def long_program(writes: int) -> Program:
    """An array with so many changed places, times 0, plus another column."""
    steps: list[Any] = [
        ["asset", ["people", 1]],
        ["operator.getitem", [[1], "age"]],
        [".to_numpy", [[2]]],
        [".copy", [[3]]],
    ]
    drawn = random.Random(1)  # so that no stretch of them is a loop
    for _ in range(writes):
        key = ["s", drawn.randrange(50), drawn.choice([None, 70]), drawn.choice([None, 2])]
        steps.append(["operator.setitem", [[4], key, drawn.choice([1, None])]])
    steps += [
        ["operator.getitem", [[1], "ssn"]],
        [".to_numpy", [[len(steps) + 1]]],
        ["operator.mul", [[4], 0]],
    ]
    steps.append(["operator.add", [[len(steps)], [len(steps) - 1]]])
    return Program.of_steps(steps, len(steps))


def comment(program: Program) -> list[str]:
    made = Input(program=program)
    return made.comment("features", made.known_by())


def test_a_long_program_says_what_is_left_out_and_how_it_ends() -> None:
    lines = comment(long_program(150))
    count = int(lines[0].split()[3])
    assert count > 150
    assert lines[0] == (
        f"features: made by {count} lines, {count - 100} of which are left out here; request.steps has all"
    )
    assert lines[61] == f"    \u2026 {count - 100} lines \u2026"
    assert len(lines) == 1 + 60 + 1 + 40
    assert lines[-1] == '    age_to_numpy * 0 + people["ssn"].to_numpy()'


def test_one_that_is_too_long_for_code_ends_with_its_last_steps() -> None:
    lines = comment(long_program(500))
    assert lines[-5:] == [
        '    step_505 = step_1["ssn"]',
        "    step_506 = step_505.to_numpy()",
        "    step_507 = step_4 * 0",
        "    step_508 = step_507 + step_506",
        "    step_508",
    ]


def test_a_short_program_is_shown_as_it_is() -> None:
    assert comment(Program.of_steps([["asset", ["people", 1]], [".mean", [[1]]]], 2)) == [
        "features: made by",
        "    people.mean()",
    ]


def test_all_steps_of_all_inputs_can_be_read() -> None:
    inputs = (Input(program=long_program(500)), Input(asset=AssetInfo("people", 1, "x", "", 1)))
    lineage = inputs[0].program.lineage  # type: ignore[union-attr]
    job = FunctionJob(
        unmade(lineage, lambda name, revision: ()),
        "f",
        "def f(x, y): ...",
        FunctionCall([[0], [1]], {}),
        inputs,
    )
    lines = job.all_steps().splitlines()
    assert lines[0] == "# input_0 is made by"
    assert len(lines) == 1 + 508 + 1
    assert 'step_505 = step_1["ssn"]' in lines
