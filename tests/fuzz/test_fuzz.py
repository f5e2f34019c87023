"""Every decoder, for a while, in processes that may die; `make weekly SUITE=fuzz` does the same for longer.

DUETLINK_FUZZ_OUT names the directory where inputs that failed are kept.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from tests.fuzz import runner
from tests.fuzz.plants import PLANTS
from tests.fuzz.targets import TARGETS

SECONDS = 5.0
PLANTED_SECONDS = 60.0  # at most: it ends with the first failure
SEED = "duetlink"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(sys.platform != "linux", reason="memory and deaths are measured as Linux tells them"),
]


def check(outcome: runner.Outcome, tmp_path: Path) -> None:
    directory = Path(os.environ.get("DUETLINK_FUZZ_OUT", tmp_path))
    kept = runner.keep(outcome, directory)
    assert not outcome.failures, f"{outcome}\nkept: {', '.join(map(str, kept))}"


@pytest.mark.parametrize("target", [name for name in TARGETS if runner.corpus(name)])
def test_what_was_not_survived_once_is_survived(target: str, tmp_path: Path) -> None:
    inputs = runner.corpus(target)
    outcome = runner.replay(target, inputs)
    check(outcome, tmp_path)
    assert outcome.tried == len(inputs)


@pytest.mark.parametrize("target", [name for name, target in TARGETS.items() if target.from_peer])
def test_hostile_inputs_are_decoded_or_refused(target: str, tmp_path: Path) -> None:
    outcome = runner.fuzz(target, SEED, SECONDS * TARGETS[target].time_share)
    check(outcome, tmp_path)
    assert outcome.tried > 300
    # inputs that are all refused, or none, would test nothing
    assert outcome.tried * 0.02 < outcome.refused < outcome.tried * 0.98, outcome


@pytest.mark.parametrize(
    ("plant", "target", "seed", "why"),
    [  # seeds by which it is noticed within 500 inputs; by most it takes thousands
        ("fields", "values", "b", "died by SIG"),
        ("items", "values", "items 71", "hang"),
        ("views", "arrow", "b", "died by SIG"),
    ],
)
def test_a_check_that_is_left_out_is_noticed(plant: str, target: str, seed: str, why: str) -> None:
    assert plant in PLANTS
    outcome = runner.fuzz(target, seed, PLANTED_SECONDS, plant=plant, most_failures=1)
    assert [failure.why for failure in outcome.failures if failure.why.startswith(why)], outcome
