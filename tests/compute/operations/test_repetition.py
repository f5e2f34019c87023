from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from duetlink.compute.operations.printer.loops import Item, Loop
from duetlink.compute.operations.printer.repetition import fold
from tests.compute.operations.programs import Worker, lineage, resolved, traced
from tests.compute.operations.test_lineage_soundness import evaluated, same


def shown(items: list[Item]) -> list[Any]:
    """Steps as they are, loops as (rounds, what is in the first)."""
    return [
        item if isinstance(item, int) else (len(item.rounds), shown(list(item.rounds[0]))) for item in items
    ]


def folded(
    text: str, references: dict[int, list[int]] | None = None, last: tuple[int, ...] = ()
) -> list[Any]:
    """Of steps that are letters; `references` says by which steps those of a step are made."""
    ends, makers = [], []
    for step in range(len(text)):
        makers += (references or {}).get(step, [])
        ends.append(len(makers))
    return shown(fold([ord(letter) for letter in text], ends, makers, last))


def test_what_is_done_again_and_again_is_a_loop() -> None:
    assert folded("xyabababab") == [0, 1, (4, [2, 3])]


def test_a_rest_stays_behind_the_loop() -> None:
    assert folded("xababababa") == [0, (4, [1, 2]), 9]


def test_little_is_written_out() -> None:
    assert folded("abababcc") == [0, 1, 2, 3, 4, 5, 6, 7]


def test_a_letter_may_come_twice_in_a_round() -> None:
    assert folded("aabcaabcaabcaabc") == [(4, [0, 1, 2, 3])]
    assert folded("aabbaabbaabbaabb") == [(4, [0, 1, 2, 3])]


def test_a_loop_within_a_loop() -> None:
    assert folded("x" + ("ab" * 5 + "cd") * 4) == [0, (4, [(5, [1, 2]), 11, 12])]


def test_rounds_refer_to_what_is_before_the_loop() -> None:
    assert folded("xy" + "ab" * 4, {step: [0, 1] for step in range(2, 10)}) == [0, 1, (4, [2, 3])]


def test_rounds_refer_to_different_things() -> None:
    references = {step: [step - 8] for step in range(8, 16, 2)}
    assert folded("abcdefgh" + "xy" * 4, references) == list(range(16))


def test_rounds_refer_to_the_one_before() -> None:
    references = {step: [step - 1] for step in range(1, 9)}
    (first, loop) = fold([0] + [1, 2] * 4, [0, *range(1, 9)], [step - 1 for step in range(1, 9)])
    assert folded("x" + "ab" * 4, references) == [0, (4, [1, 2])]
    assert first == 0
    assert isinstance(loop, Loop)
    assert loop.carried == {(1, 0): 2}
    assert loop.initial == {2: 0}


def test_what_is_used_after_the_loop_is_collected() -> None:
    (loop, after) = fold([1, 2] * 4 + [3], [0] * 8 + [2], [0, 4])
    assert isinstance(loop, Loop)
    assert after == 8
    assert loop.collected == {0}


def test_the_last_round_needs_no_list() -> None:
    (loop, _) = fold([1, 2] * 4 + [3], [0] * 8 + [1], [6])
    assert isinstance(loop, Loop)
    assert loop.collected == set()


@st.composite
def loops(draw: st.DrawFn) -> list[list[Any]]:
    """A program with loops, as they are unrolled when somebody runs them: what rounds take from each other is
    at random.
    """
    steps: list[list[Any]] = [[1, "asset", ["ages", 1]], [2, "asset", ["labels", 1]]]
    made = [1, 2]

    def step(template: list[Any], before: list[int], here: list[int], number: int) -> None:
        operation, sources, literal, slope = template
        references = []
        for where, which in sources:
            pool = {"before": before or made[:2], "here": here or made[:2], "fixed": made[:2]}[where]
            references.append([pool[which % len(pool)]])
        id_ = made[-1] + 1
        if operation == "operator.getitem":
            start = literal + slope * number
            steps.append([id_, operation, [references[0], ["s", start, start + 3, None]]])
        elif operation == "operator.setitem":
            steps.append([0, operation, [references[0], literal + slope * number, 1.5]])
            return
        else:
            steps.append(
                [
                    id_,
                    operation,
                    [references[0], references[1] if len(references) > 1 else literal + slope * number],
                ]
            )
        made.append(id_)
        here.append(id_)

    def template() -> list[Any]:
        operation = draw(
            st.sampled_from(
                ["operator.add", "operator.sub", "operator.mul", "operator.getitem", "operator.setitem"]
            )
        )
        source = st.tuples(st.sampled_from(["before", "here", "fixed"]), st.integers(0, 5))
        return [
            operation,
            draw(st.lists(source, min_size=1, max_size=2)),
            draw(st.integers(0, 3)),
            draw(st.sampled_from([0, 0, 1, 2])),
        ]

    for _ in range(draw(st.integers(1, 2))):
        inner = [template() for _ in range(draw(st.integers(0, 2)))]
        body = [template() for _ in range(draw(st.integers(1, 4)))]
        inner_rounds = draw(st.integers(3, 7))
        before: list[int] = [made[draw(st.integers(0, len(made) - 1))]]
        for number in range(draw(st.integers(3, 9))):
            here: list[int] = []
            for one in body:
                step(one, before, here, number)
            for inner_number in range(inner_rounds if inner else 0):
                for one in inner:
                    step(one, here[-len(inner) :], here, inner_number)
            before = here or before
    for _ in range(draw(st.integers(0, 3))):
        id_ = made[-1] + 1
        steps.append([id_, "operator.add", [[made[draw(st.integers(0, len(made) - 1))]], [made[-1]]]])
        made.append(id_)
    if draw(st.booleans()):
        steps.append(
            [
                made[-1] + 1,
                "builtins.list",
                [["l", *([id_] for id_ in made[2 :: draw(st.integers(1, 4))][:16])]],
            ]
        )
        made.append(made[-1] + 1)
    return steps


def assets() -> dict[str, Any]:
    return {"ages": np.arange(1.0, 9.0) / 8, "labels": np.arange(2.0, 10.0) / 8}


@settings(max_examples=120, deadline=None)
@given(loops(), st.integers(0, 3))
def test_code_with_loops_makes_the_result(steps: list[list[Any]], back: int) -> None:
    worker = Worker(assets(), resolved)
    failed = set(worker.run(steps))
    steps = [step for position, step in enumerate(steps) if position not in failed]
    worker = Worker(assets(), resolved)
    assert not worker.run(steps)
    ids = [step[0] for step in steps if step[0]]
    target = ids[max(len(ids) - 1 - back, 0)]
    code = lineage(traced(steps), target).code
    if "in place of" not in code:  # which says in words what the other rounds do
        assert same(evaluated(code, {**assets(), "np": np}), worker.objects[target]), code
