"""What comes of a request depends on the objects that its program names, and on nothing else of the data."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.remote.hostile import Room, Sliced, numbered
from tests.remote.interference import Interference, Trial, entries, outcome

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a room's memory needs Linux")

ROOT = Path(__file__).resolve().parents[2]
PROGRAMS = 1_000  # `make weekly SUITE=fuzz` tries more
ENTRIES_APART = 8


def tried(what: str, first: int, number: int) -> dict[str, int]:
    """What came of programs in a process of their own, which may die."""
    command = [sys.executable, "-m", "tests.remote.interference", what, str(first), str(number)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590, check=False)
    assert run.returncode == 0, run.stderr[-5_000:]
    counts: dict[str, int] = json.loads(run.stdout.splitlines()[-1])
    return counts


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_two_owners_cannot_be_told_apart() -> None:
    """Seeds are kept: the same programs every time. Failures are compared as values are."""
    counts = tried("rooms", 0, PROGRAMS)
    assert counts["programs"] == PROGRAMS
    assert counts["steps"] > 6 * PROGRAMS
    assert counts["asked"] > 1.9 * PROGRAMS
    assert counts["with no asset"] > 0.1 * PROGRAMS
    assert counts["failed"] < 0.7 * counts["asked"]  # most programs do come to something
    assert counts.get("late", 0) < 0.01 * PROGRAMS


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_a_list_that_is_wrong_of_what_an_operation_writes_lets_nothing_out() -> None:
    """A part of the entries; `make weekly SUITE=fuzz` tries each."""
    counts = tried("lists", 3, ENTRIES_APART)
    assert counts["entries"] == len(entries()[3::ENTRIES_APART]) > 300
    assert counts["that write or give back"] > 20  # where all steps are run, the private data do get there


# -- that it finds what it is there for ----------------------------------------------------------------------


def test_it_finds_that_all_steps_are_run() -> None:
    """As a desk of live work did."""
    with pytest.raises(Interference, match=r"^seed"):
        Trial(cut=numbered, named=lambda sliced: set()).run(0, 300)


def test_it_finds_a_desk_that_keeps_something_between_programs() -> None:
    kept: list[bytes] = []

    def keeping(assets: Mapping[str, Any], sliced: Sliced) -> bytes:
        told = outcome(assets, sliced)
        kept.append(told)
        return told + (kept[-2][-8:] if len(kept) > 1 else b"")

    with pytest.raises(Interference, match=r"^seed"):
        Trial(run_one=keeping).run(0, 300)


def test_a_run_twice_gives_the_same_bytes_with_random_numbers_too() -> None:
    drawn: list[Any] = [
        ["torch.rand", [3], {}, {"draw": [None, 0]}],
        ["numpy.random.default_rng", [], {}, {"draw": [None, 1]}],
        [".normal", [[2]], {"size": 4}],
        ["torch.nn.Linear", [2, 2], {}, {"draw": [7, 0]}],
        ["@weight", [[4]]],
        ["sklearn.utils.shuffle", [["l", 1, 2, 3, 4, 5, 6]]],  # as if no list knew that it draws
        ["builtins.list", [["l", [1], [3], [5], [6]]]],
    ]
    one, again, other = (Room({}, Sliced(7, drawn)).told(salt=salt) for salt in ("aa", "aa", "bb"))
    assert one == again != other


def test_a_step_draws_the_same_whatever_other_steps_are_there() -> None:
    weights: Any = ["torch.nn.Linear", [2, 2], {}, {"draw": [7, 1]}]
    alone = Sliced(2, [weights, ["@weight", [[1]]]])
    later = Sliced(
        4, [["torch.rand", [3]], ["torch.rand", [5], {}, {"draw": [7, 0]}], weights, ["@weight", [[3]]]]
    )
    other = Sliced(2, [["torch.nn.Linear", [2, 2], {}, {"draw": [8, 1]}], ["@weight", [[1]]]])
    assert Room({}, alone).told() == Room({}, later).told() == Room({}, alone).told(salt="bb")
    assert Room({}, alone).told() != Room({}, other).told()
