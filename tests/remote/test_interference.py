"""What a peer receives tells nothing of the data but which steps failed: over 100,000 hostile programs."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from duetlink.base.wire import schema_pb2 as pb
from duetlink.compute.worker.faults import MESSAGE, Fault
from tests.remote.interference import Interference, Trial, every_operation

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="a worker's memory needs Linux")

ROOT = Path(__file__).resolve().parents[2]
PER_RUN = 25_600  # each run is a process that loads all libraries
SWEEP = 2_500


def tried(what: str, first: int, number: int) -> dict[str, int]:
    """What came of programs in a process of their own, which may die."""
    command = [sys.executable, "-m", "tests.remote.interference", what, str(first), str(number)]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590, check=False)
    assert run.returncode == 0, run.stderr[-5_000:]
    counts: dict[str, int] = json.loads(run.stdout.splitlines()[-1])
    return counts


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("what", ["silent", "type"])
@pytest.mark.parametrize("first", range(0, 2 * PER_RUN, PER_RUN))
def test_two_owners_cannot_be_told_apart(what: str, first: int) -> None:
    """102,400 programs in all. Seeds are kept: the same programs every time."""
    first += 1_000_000 * (what == "type")
    counts = tried(what, first, PER_RUN)
    assert counts["programs"] == PER_RUN
    assert counts["steps"] > 7 * PER_RUN
    assert counts["failed"] < 0.7 * counts["steps"]  # most programs do come to something
    assert counts["differed"] > 10  # steps that fail by a bit of the data do occur, and are told of
    assert counts.get("undecided", 0) + counts.get("asked differed", 0) < 0.01 * PER_RUN
    assert counts["told"] > 4 * PER_RUN


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("first", range(0, len(every_operation()), SWEEP))
def test_each_listed_operation_with_hostile_arguments(first: int) -> None:
    counts = tried("sweep", first, SWEEP)
    assert counts["programs"] == min(SWEEP, len(every_operation()) - first)
    assert counts.get("undecided", 0) + counts.get("asked differed", 0) < 0.02 * SWEEP


# -- that it finds what it is there for: words as they once were told ----------------------------------------


def in_words(result: int, fault: Fault) -> bytes:
    """Refusals in words, as the first versions told them."""
    return b"" if fault.code == pb.WorkFailure.RAISED else fault.words.encode()


def in_words_of_arguments(result: int, fault: Fault) -> bytes:
    """The same, but only where an argument is quoted."""
    return fault.words.encode() if " is refused with " in fault.words else b""


def as_class_of_error(result: int, fault: Fault) -> bytes:
    """The class of the error, which `silent` does not tell."""
    return str(fault.error).encode()


@pytest.mark.parametrize(
    ("leak", "first", "within"),
    [(in_words, 0, 300), (as_class_of_error, 3_000, 5_000), (in_words_of_arguments, 0, 20_000)],
)
def test_the_generator_finds_a_leak_that_is_planted(leak: object, first: int, within: int) -> None:
    with pytest.raises(Interference, match=r"^seed"):
        Trial(leak, MESSAGE).run(first, within)  # type: ignore[arg-type]
