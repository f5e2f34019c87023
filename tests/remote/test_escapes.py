"""The table of attempts as a whole: that it is long enough, and that docs/evidence.md tells of all of it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from duetlink.compute.worker.protocol import faults
from tests.remote import (  # noqa: F401 - each enters its attempts into the table
    test_escapes_arguments,
    test_escapes_bodies,
    test_escapes_flows,
    test_escapes_groups,
    test_escapes_limits,
    test_escapes_lists,
    test_escapes_private,
    test_escapes_requests,
    test_escapes_travel,
    test_escapes_words,
)
from tests.remote.attempts import ATTEMPTS, OPEN, OUTCOMES
from tests.remote.hostile import OPEN as OPENED
from tests.remote.hostile import HostileDesk, Room, Step, X

ROOT = Path(__file__).resolve().parents[2]
PROMISES = (ROOT / "SECURITY.md").read_text(encoding="utf-8")
EVIDENCE = (ROOT / "docs/evidence.md").read_text(encoding="utf-8")


def test_there_are_enough_and_each_is_another() -> None:
    assert len(ATTEMPTS) >= 60
    assert len({(attempt.category, attempt.name) for attempt in ATTEMPTS}) == len(ATTEMPTS)
    assert {attempt.outcome for attempt in ATTEMPTS} == set(OUTCOMES)


def test_each_has_a_test_that_is_there() -> None:
    for attempt in ATTEMPTS:
        file, _, function = attempt.test.partition("::")
        assert re.search(rf"^(async )?def {function}\(", (ROOT / file).read_text(), re.MULTILINE), attempt


def test_the_document_has_a_line_for_each_category_with_its_outcomes_and_tests() -> None:
    """`| category | refused, shown | `test_escapes_lists` |`"""
    table = EVIDENCE.partition("## What was tried")[2].partition("\n## ")[0]
    lines = re.findall(r"^\| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", table, re.MULTILINE)[1:]
    expected = []
    for category in dict.fromkeys(attempt.category for attempt in ATTEMPTS):
        rows = [attempt for attempt in ATTEMPTS if attempt.category == category]
        outcomes = ", ".join(name for name in OUTCOMES if any(row.outcome == name for row in rows))
        files = sorted({Path(row.test.partition("::")[0]).stem for row in rows})
        expected.append((category, outcomes, ", ".join(f"`{file}`" for file in files)))
    assert sorted(lines) == sorted(expected)


def test_each_promise_has_tests_that_are_there() -> None:
    promised = PROMISES.partition("## What is promised")[2].partition("\n## ")[0]
    holds = EVIDENCE.partition("## What holds each promise")[2].partition("\n## ")[0]
    numbers = re.findall(r"^(\d)\. \*\*", promised, re.MULTILINE)
    held = dict(re.findall(r"^\| (\d) \| (.+) \|$", holds, re.MULTILINE))
    assert list(held) == numbers
    for tests in held.values():
        for test in re.findall(r"`([^`]+)`", tests):
            file, _, function = test.partition("::")
            pattern = rf"^(async )?def {function or 'test_'}"
            assert re.search(pattern, (ROOT / file).read_text("utf-8"), re.MULTILINE), test


def test_what_is_not_prevented_is_said() -> None:
    said = PROMISES.partition("## What is not promised")[2].partition("\n## ")[0]
    for words in (
        *("Differences", "single rows", "That a policy answers, and when", "failures=", "number of rows"),
        *("approved function", "mock", "policy", "macOS", "root", "side channels"),
    ):
        assert words in said, words
    assert len([attempt for attempt in ATTEMPTS if attempt.outcome == OPEN]) >= 5


def test_what_was_written_into_ones_own_array_stays_at_the_owner() -> None:
    """The hole of the original: what one had sent stayed one's own after private data was put into it."""
    desk = HostileDesk()
    everything: Step = ["s", None, None, None]
    steps: list[Step] = [[10, "numpy.zeros", [4]], [0, "operator.setitem", [[10], everything, X]]]
    assert desk.run(*OPENED, *steps) == {}
    assert desk.lineage(10).assets == (("x", 1),)
    assert desk.group(10) == 1


def test_a_write_that_fails_ends_the_run() -> None:
    desk = HostileDesk()
    copy: list[Step] = [[10, ".copy", [X]], [0, "operator.setitem", [[10], 99, 0.0]]]
    told = desk.run(*OPENED, *copy, [11, "operator.add", [[10], 1]], [12, "operator.add", [X, 1]])
    assert list(told) == [5, 6]
    assert told[5] == told[6]  # with the place where it happened


NINE: list[Step] = [[12, "numpy.array", [["l", 9.0, 8.0, 7.0, 6.0, 5.0]]]]
FIVE_INTO_FOUR: Step = [0, "operator.setitem", [[11], ["s", None, None, None], [12]]]
# how result 11, through which a write fails, comes from 10, which must not be had as it was
VIEWS: dict[str, list[Step]] = {
    "a slice": [[10, ".copy", [X]], [11, "operator.getitem", [[10], ["s", None, None, None]]]],
    "another shape": [[10, ".copy", [X]], [11, ".reshape", [[10], -1]]],
    "the same tensor": [[10, ".clone", [[4]]], [11, ".view", [[10], 4]]],
    "an array of a tensor": [[10, ".clone", [[4]]], [11, ".numpy", [[10]]]],
    "a way that there is not": [
        [10, ".copy", [[2]]],
        [13, "@loc", [[10]]],
        [11, ".__call__", [[13]], {"axis": 0}],
    ],
    "an asset": [[10, "operator.getitem", [X, ["s", None, None, None]]], [11, ".reshape", [[10], -1]]],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_failed_write_leaves_no_value_of_what_looks_at_the_same_memory(name: str) -> None:
    desk = HostileDesk()
    desk.run(*OPENED, *NINE, *VIEWS[name])
    last: Step = FIVE_INTO_FOUR
    if name == "a way that there is not":
        last = [0, "operator.setitem", [[11], "age", 1.0]]
    told = desk.run(last, [20, "operator.add", [[10], 1]], [21, ".copy", [[10]]])
    assert list(told) == [0, 1, 2]
    assert desk.no_result(10).code != faults.CANNOT_TRAVEL


def test_a_write_that_has_a_result_and_fails_ends_the_run() -> None:
    desk = HostileDesk()
    desk.run(*OPENED, [10, ".clone", [[4]]], [11, "torch.ones", [3]])
    assert list(desk.run([12, ".add_", [[10], [11]]], [13, ".sum", [[10]]])) == [0, 1]


def test_a_step_that_makes_something_and_fails_is_a_fault_of_its_result_alone() -> None:
    desk = HostileDesk()
    steps: list[Step] = [
        [10, "operator.getitem", [X, 99]],
        [11, "operator.add", [[10], 1]],
        [12, "numpy.zeros", [4]],
        [0, "operator.setitem", [[11], 0, 1.0]],  # to what was never made: it is passed over
        [13, "builtins.list", [["l", [12], 5]]],
    ]
    told = desk.run(*OPENED, *steps)
    assert list(told) == [4, 5, 7]
    assert told[4].step == told[5].step == told[7].step == 2
    assert numbered_fault(desk, 13) is None


def numbered_fault(desk: HostileDesk, result: int) -> object:
    """What comes of a result where all steps are done."""
    return json.loads(Room(desk.assets, desk.whole(result)).run()[0]).get("fault")


def test_what_is_written_must_have_been_made() -> None:
    desk = HostileDesk()
    steps: list[Step] = [
        [10, "operator.getitem", [X, 99]],
        [11, "numpy.zeros", [4]],
        [0, "operator.setitem", [[11], 0, [10]]],
        [12, "numpy.ones", [1]],
    ]
    desk.run(*OPENED, *steps)
    assert desk.no_result(11).step == 2
    assert numbered_fault(desk, 12) is not None  # the run has ended


def test_a_backward_step_that_fails_ends_the_run() -> None:
    desk = HostileDesk()
    learn: list[Step] = [
        [10, "torch.nn.Linear", [4, 1]],
        [11, ".parameters", [[10]]],
        [12, "torch.optim.SGD", [[11]], {"lr": 0.1}],
        [13, "torch.ones", [4], {"dtype": ["c", "torch.float32"]}],
        [14, ".__call__", [[10], [13]]],
        [15, "torch.ones", [3]],
    ]
    assert desk.run(*OPENED, *learn) == {}
    # the loss has one item, its gradient is given three
    told = desk.run([0, ".backward", [[14], [15]]], [0, ".step", [[12]]], [16, ".__call__", [[10], [13]]])
    assert list(told) == [0, 1, 2]
